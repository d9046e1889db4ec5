"""Plans: the changes that a target needs, as values to print, compare and apply."""
