"""When the certificates of a cluster expire: those that its brokers present, those of the authorities that signed
them, and our own."""

from __future__ import annotations

import logging

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.monitoring.certificates import CertificateEnd
from srm_common.errors import SrmError
from srm_common.kafka.client.connections.dialing import place_text
from srm_common.kafka.client.library import ApiVersionsRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.logins.security import own_chain

_LOG = logging.getLogger(__name__)
_TIMEOUT_MS = 5_000


def certificate_end(cluster: ClusterSettings) -> CertificateEnd | None:
    """The first of them to expire. None where no broker could be asked; other requests to the cluster report why.

    Each broker is connected to once, with the login of the cluster's admin clients.
    """
    settings = cluster.of_client(Client.ADMIN)
    if "SSL" not in str(settings.kafka_python.get("security_protocol")):
        return CertificateEnd(cluster.alias)
    try:
        with ClusterLink(settings, part="certificates", at_most_ms=_TIMEOUT_MS) as link:
            seen, complete = link.run(lambda: _shown(link))
        seen += _own(settings)
    except (SrmError, RetriableFault):
        return None
    if not seen:
        return None
    ends_ms, holder = min(seen)
    return CertificateEnd(cluster.alias, ends_ms, holder, complete)


async def _shown(link: ClusterLink) -> tuple[list[tuple[int, str]], bool]:
    """(end, holder) of every certificate in the brokers' verified chains; and whether all brokers answered."""
    from srm_common.wire.keystores.certificates import of_der  # few clusters need its library, which takes a while

    await link.open(timeout_seconds=_TIMEOUT_MS / 1000)
    answers = await link.ask_each(
        lambda: ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")
    )
    found: list[tuple[int, str]] = []
    complete = True
    for node, answer in answers.items():
        connection = link.connection(node)
        if isinstance(answer, Exception) or connection is None:
            complete = False
            continue
        broker = link.manager.cluster.broker_metadata(node)
        server = place_text((broker.host, broker.port))
        try:
            own, *above = of_der(connection.transport.verified_chain())
        except ValueError as error:  # the connection itself does not need what cannot be read
            _LOG.warning("the certificates of broker %s of cluster '%s' cannot be read: %s", server, link.alias, error)
            complete = False
            continue
        found.append((own.ends_ms, f"the certificate of broker {server} ({own.subject})"))
        found += [
            (
                certificate.ends_ms,
                f"the certificate authority {certificate.subject}, which vouches for broker {server},",
            )
            for certificate in above
        ]
    return found, complete


def _own(settings: ClusterSettings) -> list[tuple[int, str]]:
    """(end, holder) of our certificate and those that come with it."""
    from srm_common.wire.keystores.certificates import of_pem

    chain = own_chain(settings)
    try:
        certificates = of_pem(chain)
    except ValueError as error:
        _LOG.warning("the client certificate for cluster '%s' cannot be read: %s", settings.alias, error)
        return []
    return [
        (certificate.ends_ms, f"the client certificate ({certificate.subject}) for the brokers")
        for certificate in certificates
    ]
