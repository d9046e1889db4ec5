"""Access control: bindings, which of them copies get, and the principal behind a login."""
