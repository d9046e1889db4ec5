"""Plans of faults that have gone wrong once, cut down to what it takes: the ring plays each of them.

A seed means another run as soon as the simulation gets one more kind of fault; a plan names its faults, and stays.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.faults import Planned


class Plan(NamedTuple):
    """``shows``: what went wrong. ``without``: the mutant of the product that it shows, empty for the product itself as
    it once was."""

    seed: int
    faults: tuple[Planned, ...]
    shows: str
    without: str = ""


PLANS: tuple[Plan, ...] = (
    Plan(
        36,
        (Planned(0, "answers cut off", 1.042, None, 5), Planned(1, "struck at a commit", 8.464, "Fetch", 3)),
        "40 batches were refused by sequence, epoch or state, after 2 faults",
        "sequences continue after the epoch was bumped",
    ),
    Plan(
        36,
        (Planned(0, "answers cut off", 1.042, None, 5), Planned(1, "struck at a commit", 8.464, "Fetch", 3)),
        "22 records are not in the copy: their transaction was aborted while the slot was stopped",
        "a commit by an older epoch counts as done",
    ),
    Plan(
        32,
        (Planned(1, "struck at a commit", 8.624, "AddPartitionsToTxn", 14),),
        "a record is in the copy twice: its commit had been carried out, and the offsets were not read again",
        "an unknown outcome of a commit is not reported",
    ),
    Plan(
        8,
        (Planned(6, "requests lost", 3.5, "EndTxn", 7),),
        "14 records are not in the copy: the request for their commit had not arrived",
        "a commit whose answer was lost counts as done",
    ),
    Plan(
        15,
        (Planned(2, "driver killed", 2.949, "EndTxn", 17), Planned(4, "second driver", 0.902, "Fetch", 14)),
        "a record is in the copy twice: two runs owned the slot",
        "a slot takes ownership instead of bumping its own epoch",
    ),
    Plan(
        238,
        (Planned(2, "second driver", 0.969, None, 19),),
        "39 batches were refused by sequence, epoch or state, after 1 faults",
        "a run goes on that another one has fenced",
    ),
    Plan(
        27,
        (Planned(2, "struck at a commit", 4.732, "EndTxn", 4),),
        "38 batches were refused by sequence, epoch or state, after 1 faults",
        "a failed chunk is started over under the same epoch",
    ),
    Plan(
        8,
        (Planned(1, "requests refused", 6.987, "InitProducerId", 8),),
        "16 records are not in the copy: what came after a batch that was refused went on behind it",
        "a failed chunk is continued where it was",
    ),
    Plan(
        11680,
        (
            Planned(1, "driver stopped", 7.223, "ListOffsets", 14),
            Planned(3, "second driver", 1.696, "Fetch", 5),
            Planned(4, "retention", 12.42, "Fetch", 18),
        ),
        "records are in the copy twice: a run that others had overtaken remembered where to start after a loss",
    ),
    Plan(
        17800,
        (
            Planned(1, "log cut", 1.35, "Produce", 2),
            Planned(2, "controller away", 3.42, "ListOffsets", 12),
            Planned(3, "requests refused", 5.015, "Fetch", 3),
        ),
        "a record is not in the copy: a chunk was started over while the slot asked where the log had been cut",
    ),
    Plan(
        1751,
        (Planned(1, "log cut", 3.307, None, 14),),
        "a record is not in the copy: the log had got it after a cut, before its new leader was known",
    ),
    Plan(
        92500,
        (
            Planned(0, "connections reset", 7.472, "AddPartitionsToTxn", 5),
            Planned(2, "broker down", 7.351, "Produce", 2),
            Planned(3, "coordinator moved", 9.59, "Fetch", 3),
            Planned(5, "connections stuck", 10.166, "Produce", 5),
        ),
        "a record is in the copy twice: a request to commit arrived after its repetition, and committed the next chunk",
        "a repeated commit may arrive late in the next transaction",
    ),
    Plan(
        75328,
        (Planned(0, "log cut", 17.987, None, 13), Planned(1, "partition", 0.478, "EndTxn", 7)),
        "a record is not in the copy: the log had got it after a cut, at its end, by a new leader on the same node",
    ),
    Plan(
        89227,
        (
            Planned(0, "log cut", 13.228, "Produce", 3),
            Planned(3, "retention", 4.762, "EndTxn", 3),
            Planned(5, "partition", 13.241, "Produce", 6),
        ),
        "a log parted from the copy, and retention removed the place before the slot had asked where: no run said so",
    ),
    Plan(
        51062,
        (
            Planned(1, "silence", 0.059, "Produce", 12),
            Planned(2, "log cut", 10.487, "EndTxn", 15),
            Planned(3, "slow network", 4.461, "Produce", 25),
            Planned(4, "requests delayed", 4.413, "Produce", 9),
            Planned(6, "driver killed", 0.256, "ListOffsets", 9),
        ),
        "a run to the end of the logs waited for an end that a truncated log no longer had",
    ),
    Plan(
        491,
        (Planned(1, "connections reset", 6.991, None, 11), Planned(4, "broker isolated", 8.341, "EndTxn", 3)),
        "a slot had 42,270,720 bytes of answers in use, where 33,947,648 are the most",
        "a broker that is not asked any more gives its buffers to another one while they are in use",
    ),
    Plan(
        369,
        (Planned(0, "log cut", 12.543, "InitProducerId", 27), Planned(1, "driver killed", 12.974, "EndTxn", 17)),
        "3 records are not in the copy, from 621 on",
        "logs are not compared where Fetch does not do that",
    ),
    Plan(
        866,
        (Planned(1, "broker isolated", 7.605, "Fetch", 19),),
        "a record is in the copy twice: the committed offsets were those of a broker that was cut off",
    ),
)
