"""Makes the database of the metrics store (SRM_DATABASE) beside Airflow's, on the same server, unless it is there."""

from __future__ import annotations

import os

from sqlalchemy import create_engine, make_url, text


def make(airflow: str, name: str) -> bool:
    """Whether it was not there. Asked at each start: a script of the image's for empty volumes would never run again
    after a first start that was interrupted."""
    # CREATE DATABASE is refused in a transaction.
    engine = create_engine(airflow, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            wanted = {"name": name}
            if connection.execute(text("SELECT 1 FROM pg_database WHERE datname = :name"), wanted).scalar():
                return False
            connection.execute(text(f"CREATE DATABASE {engine.dialect.identifier_preparer.quote(name)}"))
            return True
    finally:
        engine.dispose()


if __name__ == "__main__":
    database = make_url(os.environ["SRM_DATABASE"]).database
    if database and make(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"], database):
        print(f"made the database {database}")
