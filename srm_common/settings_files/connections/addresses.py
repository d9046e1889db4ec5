"""Addresses of brokers, as ``bootstrap.servers`` lists them."""

from __future__ import annotations

import re

from srm_common.errors import ConfigError
from srm_common.settings_files.connections.tls_keys import Connection

_SERVERS = "bootstrap.servers"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: What Java's clients skip before the host, such as SASL_SSL:// or the name of a listener
#: (``org.apache.kafka.common.utils.Utils.HOST_PORT_PATTERN``).
_PREFIX = re.compile(r"([0-9a-zA-Z\-%._]*)://")


def addresses(client: Connection, protocol: str) -> list[str]:
    """``host:port`` of each broker.

    A protocol before an address does not choose it: in Java it says nothing, and librdkafka leaves such a broker out
    where it is not that of ``security.protocol``.

    Raises:
        ConfigError: there is none, one is not an address, or one has another protocol than the connection.
    """
    listed = [server.strip() for server in (client.get(_SERVERS) or "").split(",") if server.strip()]
    if not listed:
        own = client.written.get(_SERVERS)
        near = own or next(iter(client.written.values()), None)
        raise ConfigError(
            f"cluster {client.alias} has no address; set {client.alias}.{_SERVERS}",
            file=near.file if near else None,
            line=own.line or None if own else None,
        )
    return [_address(client, server, protocol) for server in listed]


def _address(client: Connection, server: str, protocol: str) -> str:
    prefix = _PREFIX.match(server)
    address = server[prefix.end() :] if prefix is not None else server
    host, _, port = address.rpartition(":")
    two_colons = ":" in host and not host.endswith("]")  # [::1]:9092 is right
    if not host or two_colons or not port.isdecimal() or len(port) > 9 or not 0 < int(port) < 65536:
        raise client.fault(_SERVERS, f"'{server}' is not host:port")
    named = prefix[1].upper() if prefix is not None else protocol
    if named in PROTOCOLS and named != protocol:
        default = "" if client.get("security.protocol") else ", its default"
        raise client.fault(
            _SERVERS,
            f"'{server}' contradicts security.protocol, which is {protocol}{default}; set security.protocol = {named}, "
            f"or remove the prefix",
        )
    return address
