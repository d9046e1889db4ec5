"""The web app inside Airflow's API server: its caller by Airflow's authentication, its scheduler by Airflow's
database."""
