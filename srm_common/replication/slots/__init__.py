"""What a slot does: fetch, re-encode, produce, commit."""
