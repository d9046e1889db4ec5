"""The shortest plan of faults by which a seed still goes wrong."""

from __future__ import annotations

from tests.simulation.scenario import Outcome, Scenario


def shrunk(outcome: Outcome) -> Outcome:
    """Of the same seed, with as few faults: one after the other is left out, as long as it goes wrong all the same."""
    for fault in outcome.faults:
        fewer = tuple(planned for planned in outcome.faults if planned is not fault)
        tried = Scenario(outcome.seed, fewer).play()
        if tried.wrong is not None:
            outcome = tried
    return outcome
