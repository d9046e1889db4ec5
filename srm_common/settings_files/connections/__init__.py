"""Connection settings of clusters and registries, translated from the settings of the Java clients."""
