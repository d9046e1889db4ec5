"""Clusters that kafka-python serves alone, as it does those with Kerberos."""

from __future__ import annotations

import dataclasses

from srm_common.domain.cluster import ClusterSettings, KerberosLogin


class _ByLink(ClusterSettings):
    """A cluster that counts as one with Kerberos; it logs in as its settings say."""

    @property
    def kerberos(self) -> KerberosLogin | None:
        return KerberosLogin("kafka")


def by_link(cluster: ClusterSettings) -> ClusterSettings:
    """The same cluster, without librdkafka."""
    return _ByLink(**{field.name: getattr(cluster, field.name) for field in dataclasses.fields(cluster)})
