"""That another service answers for a flow."""

from __future__ import annotations

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.service_advertisement import Advertisement


class ToldElsewhere(Exception):
    """The flow is another service's, which answers for it: :func:`srm_common.rest.peers.details.pass_on`."""

    def __init__(self, flow: FlowName, peer: Advertisement) -> None:
        super().__init__(f"service '{peer.name}' tells of {flow}")
        self.flow = flow
        self.peer = peer
