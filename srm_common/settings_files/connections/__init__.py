"""Connection settings of clusters and registries, translated from the words of the Java clients."""
