"""Parts of local brokers: nodes and their settings, a JVM that they share, formatted folders, a ZooKeeper, topics."""
