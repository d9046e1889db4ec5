"""A run announces itself, so that its offsets are not edited in the meantime.

It writes its own record before it takes ownership of the flow, renews it every few seconds, and deletes it at its end.
A record that is not renewed belongs to a run that died. Clocks are not used: the reader waits for the next renewal.

Presence only protects against mistakes. Fencing protects the data: once there is a new owner of the flow, the target
refuses everything that the run still sends.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any, Self

from srm_common.domain.flow.names import StateKey
from srm_common.errors import SrmError
from srm_common.kafka.state.flow_state import FlowState

_LOG = logging.getLogger(__name__)
BEAT_SECONDS = 5.0
#: How long to watch to find out whether a run is alive: two beats, and some time for slow brokers.
WATCH_SECONDS = 12.0
_LOOK_SECONDS = 0.5


class DriverPresence:
    """A context manager around a run.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from entering, as the target answers.
    """

    def __init__(self, store: FlowState, run_id: str, installation: str | None = None) -> None:
        self._store = store
        self._key = f"{StateKey.DRIVER}{uuid.uuid4().hex}"
        self._about = {
            "run_id": run_id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "installation": installation,
        }
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="srm-presence", daemon=True)
        self._beat = 0

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        try:
            self._store.write(self._key, None)
        except SrmError as fault:
            # The run's own result matters more. Whoever edits offsets next waits for a renewal that never comes.
            _LOG.warning("the end of the run could not be recorded: %s", fault)

    def forget_others(self, drivers: Mapping[str, Any]) -> None:
        """Delete the records of runs that died; the caller must own the flow. A live run writes its own again."""
        for key in drivers:
            if key != self._key:
                self._store.write(key, None)

    def _renew(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self._beat += 1
            try:
                self._write()
            except SrmError as fault:
                _LOG.warning("the run could not renew its presence on the target: %s", fault)

    def _write(self) -> None:
        self._store.write(self._key, {**self._about, "beat": self._beat})


def drivers(known: Mapping[str, Any]) -> dict[str, Any]:
    """The records of runs among those of a flow's state."""
    return {key: value for key, value in known.items() if key.startswith(StateKey.DRIVER)}


def living_driver(store: FlowState, seen: Mapping[str, Any], seconds: float = WATCH_SECONDS) -> str | None:
    """Watch the flow: which run owns it, in words; None when all records are known to be of runs that died.

    Args:
        seen: records as :func:`drivers` found them; runs whose record changes, or is not among them, are alive.
        seconds: how long to watch while there are any; with 0 they are read once.
    """
    deadline = time.monotonic() + seconds
    while True:
        now = store.read_all(prefix=StateKey.DRIVER)
        for key, value in now.items():
            if seen.get(key) != value:
                return f"run '{value['run_id']}' on {value['host']} (process {value['pid']})"
        if not now or time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_SECONDS)
