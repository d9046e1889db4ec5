"""Moving data: ownership, slots, chunks, copying and re-encoding."""
