"""Parts of local brokers: nodes and their settings, formatted folders, a ZooKeeper, topics."""
