#!/bin/sh
# Writes .env for docker-compose.yaml with fresh random secrets; one that exists is left alone. What is mounted from here
# is made readable for the users that run in the containers, whatever umask the checkout was made with.
set -eu
cd "$(dirname "$0")/.."
chmod -R a+rX docker/flows
project=${COMPOSE_PROJECT_NAME:-srm}
if [ -e .env ]; then
    echo ".env exists already; databases created with its secrets cannot be opened with new ones. To start over:" \
        "docker compose down --volumes, which deletes all data, then remove it" >&2
    exit 1
fi
# A volume keeps the password that its database was made with, and so does what Airflow has encrypted in it.
if docker volume inspect "${project}_postgres" > /dev/null 2>&1; then
    echo "the volume ${project}_postgres belongs to another .env: copy that one here, or choose another name with" \
        "COMPOSE_PROJECT_NAME, or delete all data with (cd / && docker compose -p $project down --volumes)" >&2
    exit 1
fi
secret() { od -An -v -tx1 -N"$1" /dev/urandom | tr -d ' \n'; }
# Fernet wants 32 bytes in URL-safe base64.
fernet() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
umask 077
while IFS= read -r line; do
    case $line in
        AIRFLOW_FERNET_KEY=) echo "AIRFLOW_FERNET_KEY=$(fernet)" ;;
        # HS512 wants 64 bytes or more.
        AIRFLOW_JWT_SECRET=) echo "$line$(secret 48)" ;;
        [A-Z]*=) echo "$line$(secret 24)" ;;
        "#COMPOSE_PROJECT_NAME="*) [ "$project" = srm ] && echo "$line" || echo "COMPOSE_PROJECT_NAME=$project" ;;
        *) echo "$line" ;;
    esac
done < .env.example > .env
echo "wrote .env; Airflow's login: admin, $(sed -n 's/^AIRFLOW_ADMIN_PASSWORD=//p' .env)"
