"""Tokens for Amazon MSK by AWS IAM, signed by Amazon's own library (the extra ``aws``): without it, this module cannot
be imported.

librdkafka lacks the mechanism AWS_MSK_IAM; MSK takes the same identities by OAUTHBEARER at the same listener. A token
is a signed request for ``kafka-cluster:Connect``, valid for 15 minutes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aws_msk_iam_sasl_signer.MSKAuthTokenProvider import generate_auth_token_from_credentials_provider
from botocore.config import Config
from botocore.credentials import CredentialProvider, Credentials
from botocore.session import Session

from srm_common.errors import UnreachableCluster

#: That of aws-msk-iam-auth. Brokers refuse to go on with another one over the same connection.
_SESSION_NAME = "aws-msk-iam-auth"


def token(alias: str, options: Mapping[str, str]) -> tuple[str, float]:
    """(token, seconds since 1970 at which it expires), by the credentials of this moment.

    Args:
        options: those of ``IAMLoginModule`` that :mod:`srm_common.settings_files.connections.token_keys` lets through,
            and ``region``, that of the brokers, where their names show it.
    """
    session = Session(profile=options.get("awsProfileName"))
    region = options.get("region") or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not region:
        raise UnreachableCluster(
            f"the brokers' names do not show the AWS region of cluster '{alias}'; set AWS_REGION where the flow runs"
        )
    found = _assumed(session, options) if "awsRoleArn" in options else session.get_credentials()
    if found is None:
        raise UnreachableCluster(
            "there are no AWS credentials on this host: neither in the environment or a profile, nor by its role"
        )
    signed, expires_at_ms = generate_auth_token_from_credentials_provider(
        region, _Fixed(found.get_frozen_credentials())
    )
    return signed, expires_at_ms / 1000


def _assumed(session: Any, options: Mapping[str, str]) -> Any:
    """Credentials of the role. Without ``awsStsRegion``, Java asks the global endpoint of STS, too."""
    session.set_config_variable("sts_regional_endpoints", "regional")
    sts = session.create_client(
        "sts",
        region_name=options.get("awsStsRegion", "aws-global"),
        config=Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 1}),
    )
    request = {
        "RoleArn": options["awsRoleArn"],
        "RoleSessionName": options.get("awsRoleSessionName", _SESSION_NAME),
    }
    if "awsRoleExternalId" in options:
        request["ExternalId"] = options["awsRoleExternalId"]
    given = sts.assume_role(**request)["Credentials"]
    return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


class _Fixed(CredentialProvider):  # type: ignore[misc]
    """Credentials that are already known, in the form that the library takes."""

    def __init__(self, credentials: Any) -> None:
        super().__init__()
        self._credentials = credentials

    def load(self) -> Any:
        return self._credentials
