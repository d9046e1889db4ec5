"""The API, version 2: one module for each kind of thing that routes give or change."""
