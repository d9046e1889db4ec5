"""Competing runs of a flow: of another installation, of this one, or of a MirrorMaker 2 that was not stopped."""

from __future__ import annotations

import logging
import socket

from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import Installation, other_installation
from srm_common.errors import ClusterError, SrmError
from srm_common.kafka.state.driver_presence import PREFIX
from srm_common.kafka.transactions.active_writers import mirror_maker_workers
from srm_common.usecases.flows.flow_clusters import FlowClusters

_LOG = logging.getLogger(__name__)
_KEY = "installation"


def competing_runs(clusters: FlowClusters, run: RunOptions) -> list[str]:
    """A message for each sign of a competing replicator; announces this run in the flow's state.

    Runs without an installation, as those of the command line, are not recorded and get no notes.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers where the flow's state is.
    """
    flow, store = clusters.flow, clusters.state
    try:
        signs = mirror_maker_workers(flow)
    except ClusterError as error:
        # A broker that is just away: no reason not to copy.
        _LOG.info("%s: it is unknown whether MirrorMaker 2 is running: %s", flow.name, error)
        signs = []
    notes = [f"{sign}, since both copy, and then run: srm-control takeover" for sign in signs]
    if run.installation is not None:
        own = Installation(run.installation, socket.gethostname(), run.run_id, clusters.now_ms())
        other = other_installation(flow.name, Installation.from_json(store.read(_KEY)), own)
        notes += [other] if other is not None else []
        store.write(_KEY, own.to_json())
    return notes


def new_owner(clusters: FlowClusters) -> str | None:
    """Who took the flow from a run of ours that has ended, in one sentence; None if that is unknown."""
    try:
        found = list(clusters.state.read_all(prefix=PREFIX).values())
    except SrmError:
        # The reason to stop counts more than who it was.
        return None
    if not found:
        return None
    who = found[-1]
    installation = f" of installation '{who['installation']}'" if who.get("installation") else ""
    return (
        f"another run took over flow {clusters.flow.name}: '{who['run_id']}'{installation} on {who['host']} (process "
        f"{who['pid']}); this one stopped and changed nothing more"
    )
