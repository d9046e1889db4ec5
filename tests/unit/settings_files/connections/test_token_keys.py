"""Logins whose tokens come from a function, and the settings of Java's classes that stand for one."""

from __future__ import annotations

import pytest

from srm_common.domain.cluster import MSK_IAM, TokenFunction
from srm_common.domain.flow.principals import login_principal
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError
from srm_common.settings_files.connections.client_keys import cluster_settings
from tests.unit.settings_files.connections.test_client_keys import translate

OAUTH = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_jaas_config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required a='b';",
}
PROVIDER = "sasl_oauthbearer_token_provider"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
MSK = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "AWS_MSK_IAM",
    "sasl_jaas_config": f"{MODULE};",
    "sasl_client_callback_handler_class": HANDLER,
    "bootstrap_servers": "b-1.shop.a1b2c3.c4.kafka.eu-west-1.amazonaws.com:9098",
}


def function_of(**settings: str) -> TokenFunction | None:
    cluster = translate(**settings)
    assert login_principal(cluster) is None
    assert cluster.confluent["sasl.mechanism"] == cluster.kafka_python["sasl_mechanism"] == "OAUTHBEARER"
    assert not any(key.startswith("sasl.oauthbearer") for key in cluster.confluent)
    return cluster.token_function


def test_a_function_of_the_user() -> None:
    """It takes the place of Java's classes, which a file that other tools read names, too."""
    found = function_of(
        **OAUTH, **{PROVIDER: " my.tokens:token "}, sasl_login_callback_handler_class="com.example.Vault"
    )
    assert found == TokenFunction("my.tokens:token", "A", "A.sasl.oauthbearer.token.provider", (("a", "b"),))


def test_what_the_function_makes_useless_is_told() -> None:
    written = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": "my.tokens:token",
        "sasl.oauthbearer.token.endpoint.url": "https://t",
        "sasl.login.callback.handler.class": "com.example.Vault",
    }
    told: dict[Entry, str] = {}
    entries = {key: Entry(key, value, "f", 1) for key, value in written.items()}
    cluster_settings("A", entries, lambda entry: entry.value, unused=told.update)
    why = "has no effect, since other settings of this connection take precedence"
    assert {entry.written: reason for entry, reason in told.items()} == dict.fromkeys(list(written)[-2:], why)


@pytest.mark.parametrize(
    ("server", "region"),
    [
        ("b-1.shop.a1b2c3.c4.kafka.eu-west-1.amazonaws.com:9098", "eu-west-1"),
        ("boot-a1b2c3.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("b-2.shop.a1b2c3.c4.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("10.0.0.1:9098,B-2.shop.a1b2c3.c4.Kafka.US-GOV-WEST-1.amazonaws.com:9198", "us-gov-west-1"),
        ("kafka.example.com:9098", None),
    ],
)
def test_the_region_of_amazon_msk(server: str, region: str | None) -> None:
    expected = () if region is None else (("region", region),)
    assert function_of(**{**MSK, "bootstrap_servers": server}) == TokenFunction(
        MSK_IAM, "A", "A.sasl.mechanism", expected
    )


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("", {}),
        ('awsProfileName="shop" awsDebugCreds=true', {"awsProfileName": "shop"}),
        (
            'awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s" awsStsRegion="us-west-2" awsRoleExternalId=x '
            'awsMaxRetries="7" awsMaxBackOffTimeMs="500" awsAddDefaultProviders="false" awsShouldUseFips=False',
            {
                "awsRoleArn": "arn:aws:iam::1:role/r",
                "awsRoleExternalId": "x",
                "awsRoleSessionName": "s",
                "awsStsRegion": "us-west-2",
            },
        ),
    ],
)
def test_options_of_amazons_login_module(options: str, kept: dict[str, str]) -> None:
    """By either mechanism."""
    bearer = OAUTH["sasl_jaas_config"].replace(" a='b'", f" {options}")
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    for settings in (
        {**MSK, "sasl_jaas_config": f"{MODULE} {options};"},
        {**MSK, **OAUTH, "sasl_jaas_config": bearer, "sasl_client_callback_handler_class": handler},
    ):
        found = function_of(**settings)
        assert found is not None
        assert dict(found.options) == {**kept, "region": "eu-west-1"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({**OAUTH, PROVIDER: "my.tokens.token"}, "must name a Python function as package.module:function, but is"),
        (
            {
                **OAUTH,
                "sasl_login_callback_handler_class": "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler",
            },
            "are not available, except .*; use OAUTHBEARER with a Python function that returns tokens",
        ),
        ({**OAUTH, "sasl_client_callback_handler_class": HANDLER}, "are not available, except"),
        ({**MSK, "sasl_jaas_config": OAUTH["sasl_jaas_config"]}, "sasl.mechanism=AWS_MSK_IAM takes IAMLoginModule"),
        (
            {**MSK, "sasl_jaas_config": f'{MODULE} awsRoleArn="r" awsRoleSecretAccessKey="hush";'},
            "the option awsRoleSecretAccessKey of logins by AWS IAM is not available",
        ),
        ({**MSK, "sasl_jaas_config": f"{MODULE} awsAddDefaultProviders=true;"}, "the option awsAddDefaultProviders of"),
        ({**MSK, "sasl_jaas_config": f'{MODULE} awsProfileName="p" awsRoleArn="r";'}, "leave one out"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        translate(**settings)
    assert "hush" not in str(caught.value)
