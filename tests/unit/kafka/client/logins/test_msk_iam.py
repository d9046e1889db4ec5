"""Tokens for Amazon MSK, signed with credentials that nobody has: signing needs no server."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from srm_common.errors import UnreachableCluster

pytest.importorskip("aws_msk_iam_sasl_signer", reason="srm-kafka[aws] is not installed")

from srm_common.kafka.client.logins import msk_iam


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAMINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    profiles = tmp_path / "credentials"
    profiles.write_text("[other]\naws_access_key_id = AKIAOTHER\naws_secret_access_key = hush\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


def signed(**options: str) -> tuple[str, dict[str, list[str]]]:
    """The host and the parameters of the request that a token is."""
    token, expires_at = msk_iam.token("east", options)
    assert 890 < expires_at - time.time() <= 900
    assert "=" not in token
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return url.netloc, parse_qs(url.query)


def test_a_token_is_a_signed_request() -> None:
    host, query = signed(region="eu-west-1")
    assert host == "kafka.eu-west-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Expires"] == ["900"]
    key, _, region, service, _ = query["X-Amz-Credential"][0].split("/")
    assert (key, region, service) == ("AKIAMINE", "eu-west-1", "kafka-cluster")
    assert len(query["X-Amz-Signature"][0]) == 64


def test_a_profile_with_its_region() -> None:
    host, query = signed(awsProfileName="other")
    assert host == "kafka.eu-north-1.amazonaws.com"
    assert query["X-Amz-Credential"][0].startswith("AKIAOTHER/")


def test_the_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableCluster, match="do not show the AWS region of cluster 'east'; set AWS_REGION"):
        signed()
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert signed()[0] == "kafka.ap-south-1.amazonaws.com"


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(UnreachableCluster, match="there are no AWS credentials on this host"):
        signed(region="eu-west-1")


@pytest.mark.parametrize(
    ("options", "endpoint", "request_"),
    [
        ({}, "https://sts.amazonaws.com", {"RoleSessionName": "aws-msk-iam-auth"}),
        (
            {"awsStsRegion": "us-west-2", "awsRoleSessionName": "copier", "awsRoleExternalId": "x"},
            "https://sts.us-west-2.amazonaws.com",
            {"RoleSessionName": "copier", "ExternalId": "x"},
        ),
    ],
)
def test_a_role(
    options: dict[str, str], endpoint: str, request_: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "arn:aws:iam::123456789012:role/copier"
    asked: list[tuple[str, dict[str, str]]] = []

    def call(client: Any, operation: str, parameters: dict[str, str]) -> dict[str, Any]:
        asked.append((client.meta.endpoint_url, parameters))
        return {"Credentials": {"AccessKeyId": "ASIAROLE", "SecretAccessKey": "hush", "SessionToken": "session"}}

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", call)
    _, query = signed(region="eu-west-1", awsRoleArn=role, **options)
    assert asked == [(endpoint, {"RoleArn": role, **request_})]
    assert query["X-Amz-Credential"][0].startswith("ASIAROLE/")
    assert query["X-Amz-Security-Token"] == ["session"]
