"""What local brokers are made of: nodes and their settings, formatted folders, a ZooKeeper, topics."""
