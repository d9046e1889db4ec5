-- Beside Airflow's own database, which the image makes. Runs once, when the volume is empty.
CREATE DATABASE srm OWNER airflow;
