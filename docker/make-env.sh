#!/bin/sh
# Writes .env for docker-compose.yaml with fresh random secrets; one that exists is left alone. What is mounted from here
# is made readable for the users that run in the containers, whatever umask the checkout was made with.
set -eu
cd "$(dirname "$0")/.."
chmod -R a+rX docker/flows
if [ -e .env ]; then
    echo ".env exists already; remove it first to make new secrets" >&2
    exit 1
fi
secret() { od -An -tx1 -N24 /dev/urandom | tr -d ' \n'; }
# Fernet wants 32 bytes in URL-safe base64.
fernet() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
umask 077
while IFS= read -r line; do
    case $line in
        AIRFLOW_FERNET_KEY=) echo "AIRFLOW_FERNET_KEY=$(fernet)" ;;
        [A-Z]*=) echo "$line$(secret)" ;;
        *) echo "$line" ;;
    esac
done < .env.example > .env
echo "wrote .env; Airflow's login: admin, $(sed -n 's/^AIRFLOW_ADMIN_PASSWORD=//p' .env)"
