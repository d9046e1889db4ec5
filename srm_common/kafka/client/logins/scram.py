"""Logins by SCRAM (RFC 5802) for kafka-python, also by a delegation token (KIP-48).

kafka-python sends names as they are, although commas and equal signs have a meaning in these messages, accepts any
number of iterations, and does not know that a name may be the id of a token.
"""

from __future__ import annotations

from typing import Any

from srm_common.domain.cluster import DelegationToken
from srm_common.kafka.client.library import Errors, ScramClient, register_sasl_mechanism

#: Kafka's own minimum (``ScramMechanism.minIterations``): with fewer, a false broker could soon guess the password.
_LEAST_ITERATIONS = 4096
_BY_TOKEN = b",tokenauth=true"
_UNUSABLE = "the server's message of SCRAM cannot be used"


class Scram:
    """One login, in the form of kafka-python's mechanisms. The ``sasl_oauth_token_provider`` of a connection is a
    :class:`DelegationToken` where name and password are a token's id and HMAC."""

    def __init__(self, **config: Any) -> None:
        self._name: str = config["sasl_plain_username"]
        self._mechanism: str = config["sasl_mechanism"]
        self.client = ScramClient(self._name, config["sasl_plain_password"], self._mechanism)
        self.client.user = self._name.replace("=", "=3D").replace(",", "=2C").encode()
        self._extension = _BY_TOKEN if isinstance(config.get("sasl_oauth_token_provider"), DelegationToken) else b""
        self._received = 0

    def auth_bytes(self) -> bytes:
        """The next message."""
        if self._received:
            return bytes(self.client.final_message())
        message: bytes = self.client.first_message() + self._extension
        # Extensions follow the nonce, and both sides sign them.
        self.client.auth_message += self._extension
        return message

    def receive(self, auth_bytes: bytes) -> bool:
        """Take the broker's message; returns whether it was the last one.

        Raises:
            SaslAuthenticationFailedError: it cannot be used.
        """
        try:
            if self._received:
                self.client.process_server_final_message(auth_bytes)
            else:
                parts = dict(part.partition(b"=")[::2] for part in auth_bytes.split(b","))
                if int(parts[b"i"]) < _LEAST_ITERATIONS:
                    raise ValueError(f"it wants fewer than {_LEAST_ITERATIONS} iterations")
                self.client.process_server_first_message(auth_bytes)
        except KeyError as error:
            raise Errors.SaslAuthenticationFailedError(f"{_UNUSABLE}: it has no {error}") from error
        except ValueError as error:
            raise Errors.SaslAuthenticationFailedError(f"{_UNUSABLE}: {error}") from error
        self._received += 1
        return self.is_done()

    def is_done(self) -> bool:
        """Whether all messages were exchanged."""
        return self._received == 2

    def is_authenticated(self) -> bool:
        """Whether the broker has proved that it knows the password, too."""
        return self.is_done()

    def auth_details(self) -> str:
        """For the library's log."""
        return f"Authenticated as {self._name} via SASL / {self._mechanism}"


for _mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
    register_sasl_mechanism(_mechanism, Scram, overwrite=True)
