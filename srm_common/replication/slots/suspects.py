"""Suspects: ranges that made a chunk fail. They are retried in chunks of their own, so that they do not delay others.

Invariant: a chunk carries suspects or others, never both; suspects are tried only when no other records wait for their
commit; and short trials take at most a fifth of the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from srm_common.replication.slots.ranges import RangeState

#: After a failed trial the others get this many times its duration, but no more than this many seconds.
_OTHERS_TURN, _LONGEST_TURN_SECONDS = 4, 15.0


class Suspects:
    """The suspects among a slot's ranges."""

    def __init__(self, states: Sequence[RangeState]) -> None:
        self._states = states
        #: In the order in which they failed.
        self._suspects: dict[RangeState, None] = {}
        self._tried: dict[RangeState, None] = {}
        self._trial_began = 0.0

    @property
    def on_trial(self) -> bool:
        """Whether the chunk in work is one of suspects."""
        return bool(self._tried)

    def accuse(self, states: Iterable[RangeState]) -> None:
        """These made a chunk fail: they wait until the others have committed theirs."""
        self._suspects |= dict.fromkeys(states)
        if self._suspects:
            self._hold()

    def due(self) -> list[RangeState]:
        """Those that may be tried now; empty during a trial."""
        if self._tried or not self._suspects:
            return []
        self._suspects = {state: None for state in self._suspects if not state.settled}
        return [state for state in self._suspects if not state.paused]

    def try_them(self, states: Sequence[RangeState]) -> None:
        """The next chunk is that of ``states``, which :meth:`due` has named."""
        self._tried = dict.fromkeys(states)
        self._trial_began = time.monotonic()
        self._hold()

    def acquit(self) -> None:
        """The trial ended well: those that were tried are like all others again."""
        self._suspects = {state: None for state in self._suspects if state not in self._tried}
        self._tried = {}
        self._hold()

    def convict(self) -> None:
        """The trial's chunk failed: its paused ranges wait at least until the others have had their turn."""
        now = time.monotonic()
        rest = now + min(_OTHERS_TURN * (now - self._trial_began), _LONGEST_TURN_SECONDS)
        for state in self._tried:
            if state.paused:
                state.pause_until = max(state.pause_until, rest)
        self._tried = {}
        self._hold()

    def _hold(self) -> None:
        """During a trial only those on trial are read, else all but the suspects."""
        for state in self._states:
            state.held = self.on_trial
        for state in self._suspects:
            state.held = True
        for state in self._tried:
            state.held = False


__all__ = ["Suspects"]
