"""History of metrics in a database of its own: SQLite beside Airflow, or PostgreSQL. Losing it loses history only."""
