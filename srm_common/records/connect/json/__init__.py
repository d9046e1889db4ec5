"""JSON as Connect reads and writes it: text to nodes, nodes to values."""
