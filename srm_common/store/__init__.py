"""History of metrics in a separate database: SQLite next to Airflow, or PostgreSQL. Losing it loses history only."""
