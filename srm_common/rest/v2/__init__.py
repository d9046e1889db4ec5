"""The API, version 2: one module per resource, such as flows, topics, groups, moves and series of metrics."""
