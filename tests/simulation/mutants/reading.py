"""Mutants of what slots read: fetched batches, positions in logs, buffers, and the state of ranges."""

from __future__ import annotations

from tests.simulation.mutants.mutant import FETCHING, SENDING_TESTS, Mutant

_ANSWERS = "srm_common.replication.slots.answers"
_RANGES = "srm_common.replication.slots.ranges"
_BUFFERS = "srm_common.kafka.client.protocol.buffers"
_REPACK = "srm_common.wire.reencoding.repack"

READING = (
    # ---- reading
    Mutant(
        "an answer to a Fetch from before the chunk was started over is taken",
        FETCHING,
        "        if generation != self._generation:\n            lease.release()\n        else:",
        "        if False:\n            lease.release()\n        else:",
        f"{SENDING_TESTS}::test_a_batch_that_is_refused_as_too_early_is_not_overtaken",
    ),
    Mutant(
        "records are read that are not committed yet",
        FETCHING,
        "committed=self._job.read_committed,",
        "committed=False,",
        "tests/unit/replication/slots/test_range_bounds.py::test_brokers_are_asked_for_committed_records",
    ),
    Mutant(
        "aborted records are copied",
        _ANSWERS,
        "part.aborted if self._job.read_committed else None",
        "None",
    ),
    Mutant(
        "records of a transaction are copied before its marker was seen",
        _ANSWERS,
        "return any(portion.unproved for portion in portions)",
        "return False",
    ),
    Mutant(
        "a log that was cut is read on",
        _ANSWERS,
        "            elif part.diverging is not None:\n"
        "                self._parted(state, part, EpochEnd(*part.diverging), node)\n",
        "            elif part.diverging is not None:\n                pass\n",
    ),
    Mutant(
        "requests say nothing of the log that they continue",
        FETCHING,
        "last = state.epochs.at(state.fetched - 1) if leading >= 0 else -1",
        "leading, last = -1, -1",
        "tests/unit/usecases/runs/test_regrown_log.py::test_a_slot_notices_it_while_it_copies",
    ),
    Mutant(
        "a position that is not in the log is none of the flow's business",
        "srm_common.domain.runs.data_loss",
        "    if bookmark.offset < log.start:\n        return Finding(",
        "    if bookmark.offset < log.start:\n        return None\n        return Finding(",
    ),
    Mutant(
        "where topics start is stored without a transaction",
        "srm_common.usecases.runs.replicate",
        "        if identity is None:\n            for key",
        "        if True:\n            for key",
        "tests/unit/usecases/runs/test_competing_runs.py::"
        "test_a_run_that_was_overtaken_does_not_replace_where_topics_start",
    ),
    Mutant(
        "leader epochs of what was copied are not compared",
        "srm_common.domain.runs.data_loss",
        "    if _diverges(bookmark, log):\n",
        "    if False:\n",
        "tests/unit/domain/runs/test_data_loss.py::test_a_log_that_parts_before_the_position_is_copied_again_from_there",
    ),
    Mutant(
        "a batch that begins before the position is copied as a whole",
        _REPACK,
        "inside = start >= first_offset and",
        "inside =",
    ),
    Mutant(
        "batches before the position are copied again",
        _ANSWERS,
        "        if after <= first:\n            continue\n",
        "",
        "tests/unit/replication/slots/test_answers.py::test_a_row_moves_a_range_on_as_its_batches_do",
    ),
    Mutant(
        "logs are not compared where Fetch does not do that",
        "srm_common.kafka.log.compared_logs",
        "            if end is None or (end.epoch >= one.last_epoch and end.offset >= one.offset):\n",
        "            if True:\n",
    ),
    # ---- memory
    Mutant(
        "answers are read ahead without a bound",
        _BUFFERS,
        "        if len(own) >= _LEASES_PER_NODE:\n            return None\n"
        "        # Another node's free lease may be needed by it at any time; "
        "with nothing in use there is always room.\n"
        "        if self._leases and self.held_bytes + size > "
        "max(2 * self._total, _LEASES_PER_NODE * size * len(nodes)):\n"
        "            return None\n",
        "",
    ),
    Mutant(
        "a broker that is not asked any more gives its buffers to another one while they are in use",
        _BUFFERS,
        "            if lease.in_use or (holder in nodes and bytes_ == size)\n",
        "            if holder in nodes and bytes_ == size\n",
    ),
    # ---- the state of ranges and the offset map
    Mutant(
        "a chunk that failed moves the position on",
        _RANGES,
        "            self.share = None\n            self.fetched = self.committed\n",
        "            self.share = None\n",
    ),
)
