"""What the product does, one short function each: read, ask the domain, write."""
