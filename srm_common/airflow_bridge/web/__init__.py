"""The web app inside Airflow's API server: callers by Airflow's authentication, the scheduler by Airflow's database."""
