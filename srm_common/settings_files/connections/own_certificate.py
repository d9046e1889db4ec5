"""The client certificate of a cluster, as the settings name it: a PEM text, a PEM file, or a Java key store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from srm_common.domain.cluster import JavaStore


@dataclass(frozen=True)
class ConfiguredCertificate:
    """One of the three. Picklable; read lazily."""

    text: str | None = field(default=None, repr=False)
    file: str | None = None
    store: JavaStore | None = None

    @classmethod
    def of(cls, confluent: Mapping[str, str], store: JavaStore | None) -> Self | None:
        """The one among librdkafka's settings, or in Java's key store; None where there is none."""
        text, file = confluent.get("ssl.certificate.pem"), confluent.get("ssl.certificate.location")
        return None if text is None and file is None and store is None else cls(text, file, store)

    @property
    def place(self) -> str:
        """The path of the file, or the key that has the text."""
        return (self.store.location if self.store is not None else self.file) or "ssl.keystore.certificate.chain"

    def chain(self) -> str:
        """The certificate and the rest of its chain, as PEM.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a key store, or not text.
        """
        if self.store is not None:
            from srm_common.wire.keystores.java_stores import read_java_store  # few settings need its library

            store = self.store
            return read_java_store(Path(store.location).read_bytes(), store.password, store.key_password).chain or ""
        return self.text if self.text is not None else Path(self.file or "").read_text()

    def subject(self) -> str | None:
        """Its subject, as Java writes it; None if it cannot be read, which a connection will report."""
        from srm_common.wire.keystores.certificates import java_subject

        try:
            return java_subject(self.chain())
        except (OSError, ValueError):
            return None
