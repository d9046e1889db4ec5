"""The API of Streams Replication Manager: version 1, and the cluster routes of its version 2."""
