"""Access control: bindings, which of them copies are to have, and whom a cluster sees in a login."""
