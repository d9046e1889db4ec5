"""Authentication with passwords and enforced ACLs for :class:`~srm_common.testing.LocalKafka`."""

from __future__ import annotations

from collections.abc import Mapping

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ZOOKEEPER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


def broker_settings(logins: Mapping[str, str], *, kraft: bool = True) -> dict[str, str]:
    """Broker settings: SASL PLAIN for clients, and what no ACL allows is refused.

    ``logins`` are passwords by user name; with ZooKeeper, which is not ``kraft``, brokers have another authorizer.
    Clients of the open listener, among them the brokers, may do everything.
    """
    users = " ".join(f'user_{name}="{password}"' for name, password in logins.items())
    return {
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f"{_MODULE} required {users};",
        "authorizer.class.name": _AUTHORIZER if kraft else _ZOOKEEPER_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }


def client_properties(name: str, password: str) -> dict[str, str]:
    """What a Java client, or a properties file, sets to log in."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_MODULE} required username="{name}" password="{password}";',
    }
