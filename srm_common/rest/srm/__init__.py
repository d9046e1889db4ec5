"""The API of Streams Replication Manager: version 1, and what its version 2 tells of a cluster."""
