#!/bin/sh
# Airflow's API server and pages. The admin's password comes by environment; Airflow's simple login wants it in a file.
set -eu
umask 077
python - <<'PY'
import json, os
with open(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"], "w") as file:
    json.dump({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}, file)
PY
exec airflow api-server --host 0.0.0.0 --port 8080
