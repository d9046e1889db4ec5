"""What one run copies, from where on, in which pieces, and what became of it."""
