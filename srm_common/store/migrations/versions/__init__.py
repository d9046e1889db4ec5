"""One file each, numbered."""
