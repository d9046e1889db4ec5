"""What becomes of batches that cannot be copied unopened: walked record by record, merged, split or made columns."""
