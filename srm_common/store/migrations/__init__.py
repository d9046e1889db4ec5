"""Versions of the metrics store's schema, for Alembic."""
