#!/bin/sh
# Both databases, before anything else of Airflow starts: the metrics store's, and the tables of Airflow's.
set -eu
python /opt/srm/docker/database.py
exec airflow db migrate
