"""Verification of copies: against the offset map or the source, shared out to threads or Spark, with kept results."""
