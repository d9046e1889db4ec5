"""The API, version 2: one module per resource."""
