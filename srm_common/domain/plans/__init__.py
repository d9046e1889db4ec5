"""Plans: what has to change at a target, worked out from what flow and clusters have, to print, compare and apply."""
