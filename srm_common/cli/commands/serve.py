"""``srm-control serve``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from srm_common.cli.invocation import Invocation, config_option, output_option, pass_invocation
from srm_common.cli.output import Answer
from srm_common.errors import ConfigError, installing


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Listen address.")
@click.option("--port", default=8090, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free one.")
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Users, one per line: NAME:ROLE:PASSWORD; the role is viewer, user or op.",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Certificate chain, PEM.",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="Its key, PEM."
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow remote access without users or TLS, behind a proxy that provides them.",
)
@click.option("--hash-password", is_flag=True, help="Prompt for a password, print its hash for the file, and exit.")
@config_option
@output_option
@pass_invocation
def serve_command(
    invocation: Invocation,
    host: str,
    port: int,
    password_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure: bool,
    hash_password: bool,
) -> Answer:
    """Serve the REST API and the Replications page without Airflow.

    \b
      srm-control serve --config srm.properties
      SRM_SERVE_USER=ann SRM_SERVE_PASSWORD=... srm-control serve --host 0.0.0.0 --tls-cert c.pem --tls-key k.pem

    Access: the user of SRM_SERVE_USER and SRM_SERVE_PASSWORD, and those of --password-file; without any, everyone on
    this machine. The password of the TLS key is SRM_SERVE_TLS_KEY_PASSWORD. With SRM_AIRFLOW_URL, SRM_AIRFLOW_USER and
    SRM_AIRFLOW_PASSWORD flows are paused, resumed and run in that Airflow.
    """
    try:
        from srm_common.rest.serving.logins import hashed
        from srm_common.rest.serving.service import KEY_PASSWORD, Listener, access_of, serve, service_context
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is missing: {installing('serve')}") from error
    if hash_password:
        made = hashed(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
        return Answer({"password": made}, made)
    invocation.configuration()
    listener = Listener(host, port, tls_cert, tls_key, os.environ.get(KEY_PASSWORD), insecure)
    serve(service_context(invocation.config, access_of(listener, password_file, os.environ), os.environ), listener)
    return Answer({}, "ended")
