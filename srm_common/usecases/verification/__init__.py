"""Verification of copies: against the offset map or the source, shared out to tasks, and the results that are kept."""
