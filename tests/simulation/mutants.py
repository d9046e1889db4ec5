"""Places that exactly-once depends on, each switched off in turn: what the simulation must notice.

A mutant is the product with one piece of one module's source replaced, in a process of its own.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

_PRODUCER = "srm_common.kafka.transactions.producer"
_SLOT = "srm_common.replication.slots.slot"
_CHUNK = "srm_common.replication.slots.chunk"
_SENDING = "srm_common.replication.slots.sending"
_FETCHING = "srm_common.replication.slots.fetching"
_ANSWERS = "srm_common.replication.slots.answers"
_LINKS = "srm_common.replication.slots.slot_links"
_RANGES = "srm_common.replication.slots.ranges"
_OWNERSHIP = "srm_common.replication.driver.ownership"
_SOURCE_VIEW = "srm_common.replication.driver.source_view"
_PASSES = "srm_common.replication.driver.passes"
_OFFSETS = "srm_common.kafka.state.source_offsets"
_VISIBILITY = "srm_common.wire.batches.visibility"
_BUFFERS = "srm_common.kafka.client.protocol.buffers"
_REPACK = "srm_common.wire.reencoding.repack"

_SENDING_TESTS = "tests/unit/replication/slots/test_sending.py"
_EPOCH_TESTS = "tests/faults/test_epochs.py"
_CREATED_AGAIN_TESTS = "tests/unit/replication/slots/test_created_again.py"
_LINKS_TESTS = "tests/unit/replication/slots/test_slot_links.py"
_TAILING_TESTS = "tests/unit/replication/slots/test_tailing_faults.py"
_PASS_TESTS = "tests/unit/replication/driver/test_passes.py"


@dataclass(frozen=True)
class Mutant:
    """``before`` occurs once in the module's source; ``after`` takes its place. ``test``: the test of another ring that
    fails then, where no seed is likely to show it."""

    name: str
    module: str
    before: str
    after: str
    test: str = ""

    def source(self) -> str:
        """The module's, as it is."""
        return _path(self.module).read_text(encoding="utf-8")


def _path(module: str) -> Path:
    """Without an import of what is to be replaced."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


MUTANTS = (
    # ---- the producer: epochs and sequences
    Mutant(
        "sequences continue after the epoch was bumped",
        _PRODUCER,
        "self._sequences.clear()\n        self._added.clear()\n\n    async def end_empty",
        "self._added.clear()\n\n    async def end_empty",
    ),
    Mutant(
        "partitions of an aborted transaction count as added",
        _PRODUCER,
        "self._sequences.clear()\n        self._added.clear()\n\n    async def end_empty",
        "self._sequences.clear()\n\n    async def end_empty",
        f"{_TAILING_TESTS}::test_a_slot_ends_and_both_sides_are_equal_whatever_was_refused",
    ),
    Mutant(
        "partitions of a committed transaction count as added to the next",
        _PRODUCER,
        "self._added.clear()\n        return asked > 1",
        "return asked > 1",
    ),
    Mutant(
        "sequences continue under the epoch of the next transaction",
        _PRODUCER,
        "                self._sequences.clear()\n            self.producer_id, self.epoch = int",
        "                pass\n            self.producer_id, self.epoch = int",
    ),
    Mutant(
        "the epoch that a commit hands out is not taken",
        _PRODUCER,
        "self.producer_id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)",
        "pass",
    ),
    Mutant(
        "a repeated commit may arrive late in the next transaction",
        _PRODUCER,
        "self._commit_on_its_way |= sent and not self._v2",
        "pass",
    ),
    Mutant(
        "a slot takes ownership instead of bumping its own epoch",
        _PRODUCER,
        "producer_id=self.producer_id if keeps else -1,\n            epoch=self.epoch if keeps else -1,",
        "producer_id=-1,\n            epoch=-1,",
    ),
    Mutant(
        "an identity is used again although its sequences are spent",
        _PRODUCER,
        "self.transactional_id is None or self._sequences or self._in_doubt",
        "self.transactional_id is None or self._in_doubt",
    ),
    Mutant(
        "a commit whose answer was lost counts as done",
        _PRODUCER,
        'self._link.forget_coordinator(self.transactional_id or "")\n                if time.monotonic() > deadline:\n'
        "                    raise UncertainCommit(",
        "return True\n                if time.monotonic() > deadline:\n                    raise UncertainCommit(",
    ),
    Mutant(
        "a commit that was refused counts as done",
        _PRODUCER,
        'raise UncertainCommit(f"{self.transactional_id}: {codes.name(code)}")',
        "return True",
        f"{_EPOCH_TESTS}::test_lost_commit_that_meets_a_timed_out_transaction_is_in_doubt_at_once",
    ),
    Mutant(
        "a commit by an older epoch counts as done",
        _PRODUCER,
        "if code in codes.ENDED_ELSEWHERE and asked == 1:\n                raise Fenced(",
        "if code in codes.ENDED_ELSEWHERE and asked == 1:\n                return False\n                raise Fenced(",
    ),
    Mutant(
        "a transaction is aborted by request while requests of it may arrive",
        _PRODUCER,
        "if self.aborts_by_request and answered:",
        "if self.aborts_by_request:",
        f"{_EPOCH_TESTS}::test_unanswered_chunk_needs_the_driver_where_a_late_batch_could_be_stored",
    ),
    # ---- the slot: starting over
    Mutant(
        "an unknown outcome of a commit is not reported",
        _SLOT,
        "except UncertainCommit as error:\n            self._needs_new_epoch = True",
        "except UncertainCommit as error:\n            pass",
    ),
    Mutant(
        "a failed chunk is started over under the same epoch",
        _SLOT,
        "        await producer.renew(answered=answered)\n",
        "",
    ),
    Mutant(
        "a failed chunk is continued where it was",
        _SLOT,
        "        for state in self._states:\n            state.start_over(keep_acknowledged=keep)\n",
        "",
    ),
    Mutant(
        "a failed chunk keeps what was acknowledged",
        _SLOT,
        "keep = not producer.transactional",
        "keep = True",
    ),
    Mutant(
        "what was fetched for a failed chunk goes into the next",
        _SLOT,
        '        self._watch.doing = "a new epoch after a failed chunk"\n        self._discard(fetching)\n',
        '        self._watch.doing = "a new epoch after a failed chunk"\n',
    ),
    Mutant(
        "a fault of a chunk is passed over",
        _SLOT,
        "                await self._start_over(producer, fetching, chunk, failure)\n",
        "                chunk._sending.start()\n",
    ),
    Mutant(
        "a slot that was disturbed leaves what it has under way to the next one",
        _LINKS,
        "keep = self.pooled and self._nothing_in_flight",
        "keep = self.pooled",
        f"{_LINKS_TESTS}::test_a_slot_that_was_fenced_leaves_nothing",
    ),
    Mutant(
        "a request of a slot that waits to be sent is sent beside the next one",
        _FETCHING,
        "self._source.loop.cancel(task)",
        "pass",
    ),
    Mutant(
        "a topic that was created again is taken for the one that was copied",
        _FETCHING,
        "        self._leave_replaced()\n",
        "",
        f"{_CREATED_AGAIN_TESTS}::test_nor_is_it_when_it_was_created_before_the_slot_began",
    ),
    # ---- the chunk: the order inside a transaction
    Mutant(
        "the commit does not wait for the acknowledgements of records",
        _CHUNK,
        "        await self._sending.finish()\n        moved = [",
        "        moved = [",
    ),
    Mutant(
        "the commit does not wait for the acknowledgements of offsets",
        _CHUNK,
        "                await self._send_state(leader, some, owners)\n        await self._sending.finish()\n",
        "                await self._send_state(leader, some, owners)\n",
    ),
    Mutant(
        "offsets are not written",
        _CHUNK,
        "            records[place].append((key, source_offset_value(last), headers))\n",
        "            records[place] += []\n",
    ),
    Mutant(
        "an offset names the record after the last one",
        _CHUNK,
        "last = share.upstream_end - 1\n",
        "last = share.upstream_end\n",
    ),
    Mutant(
        "an offset is committed without its transaction",
        _CHUNK,
        "            repeated = await self._producer.commit()\n",
        "            pass\n",
    ),
    # ---- requests in flight
    Mutant(
        "connections with unanswered requests stay open",
        _SENDING,
        "                self._target.disconnect(leader)\n",
        "                pass\n",
        f"{_SENDING_TESTS}::test_a_chunk_hears_nothing_of_requests_that_the_one_before_has_given_up",
    ),
    Mutant(
        "an answer of a chunk that was given up counts for the next",
        _SENDING,
        "        if request.epoch != self._epoch:\n            return []\n",
        "",
        f"{_SENDING_TESTS}::test_a_chunk_hears_nothing_of_requests_that_the_one_before_has_given_up",
    ),
    Mutant(
        "a refused batch is passed over",
        _SENDING,
        "                self.refuse(error_code, part.error_message, batch.partition, batch.states, offset)\n",
        "                pass\n",
    ),
    Mutant(
        "a request without an answer counts as acknowledged",
        _SENDING,
        "            self._fail(ChunkFailed(reason, request.states))\n\n    def refuse",
        "            pass\n\n    def refuse",
    ),
    Mutant(
        "a batch follows the first of its partition before that is stored",
        _SENDING,
        "            or (self._opening and not self._opening.isdisjoint(partitions))\n",
        "",
        f"{_SENDING_TESTS}::test_a_batch_that_is_refused_as_too_early_is_not_overtaken",
    ),
    # ---- reading
    Mutant(
        "an answer to a Fetch from before the chunk was started over is taken",
        _FETCHING,
        "        if generation != self._generation:\n            lease.release()\n        else:",
        "        if False:\n            lease.release()\n        else:",
        f"{_SENDING_TESTS}::test_a_batch_that_is_refused_as_too_early_is_not_overtaken",
    ),
    Mutant(
        "records are read that are not committed yet",
        _FETCHING,
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
        _FETCHING,
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
    # ---- ownership
    Mutant(
        "only the slots in use are fenced",
        _OWNERSHIP,
        "for slot in range(slots)}",
        "for slot in range(1)}",
    ),
    Mutant(
        "the number of slots is recorded without a transaction",
        "srm_common.usecases.flows.slot_count",
        "            write_transaction(clusters.flow, owner.identities[0], [record], clusters.target.links)\n",
        '            clusters.state.write(StateKey.SLOTS, {"highest": slots})\n',
        "tests/unit/usecases/runs/test_competing_runs.py::"
        "test_a_run_that_was_overtaken_does_not_record_its_number_of_slots",
    ),
    Mutant(
        "taking the flow fences no slot of the run before",
        _OWNERSHIP,
        "            self._identities[one] = ProducerIdentity(one, producer_id, epoch)\n",
        "            self._identities[one] = ProducerIdentity(one, producer_id, max(epoch - 1, 0))\n",
    ),
    Mutant(
        "a run goes on that another one has fenced",
        _OWNERSHIP,
        "        except Fenced as error:\n            raise taken_over(self._flow) from error\n        try:",
        "        except Fenced as error:\n            return True\n        try:",
    ),
    # ---- passes
    Mutant(
        "only metadata tell which epoch a leader has",
        _SOURCE_VIEW,
        "self._leading.update((place, end.leader_epoch) for place, end in ends.items())",
        "pass",
        "tests/unit/replication/driver/test_source_view.py::test_a_new_leader_on_the_same_node_is_known_by_the_end_that_it_lists",
    ),
    Mutant(
        "nothing is fenced after an uncertain pass",
        _PASSES,
        "self.owner.refence()\n            self._identities = [*self.owner.identities]\n        if self.points",
        "pass\n        if self.points",
        f"{_PASS_TESTS}::test_after_an_uncertain_pass_all_slots_are_fenced_before_anything_is_read_or_copied",
    ),
    Mutant(
        "committed offsets are not read again after an uncertain pass",
        _PASSES,
        "        if self.points.read_again(self.tracks.values()):\n            self._fruitless = 0\n",
        "",
        f"{_PASS_TESTS}::test_each_record_arrives_once_and_in_order_whatever_happens_to_slots",
    ),
    Mutant(
        "a lost worker is taken for a slot that has done nothing",
        _PASSES,
        "            return self._mark_uncertain(str(error), ready, moved=False)\n        happened",
        "            return PassOutcome.COPIED\n        happened",
        f"{_PASS_TESTS}::test_each_record_arrives_once_and_in_order_whatever_happens_to_slots",
    ),
    Mutant(
        "offsets are read while transactions are open",
        _OFFSETS,
        "        if held is None:\n            return stable\n",
        "        return stable\n",
        "tests/kafka/state/test_state_topics.py::test_an_open_transaction_on_the_offsets_is_not_read_past",
    ),
)


def become(number: int) -> Mutant:
    """Let this process, which has imported nothing of the product yet, be a mutant of it."""
    mutant = MUTANTS[number]
    source = mutant.source()
    if source.count(mutant.before) != 1:
        raise SystemExit(f"mutant {number} ({mutant.name}): its place occurs {source.count(mutant.before)} times")
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[mutant.module] = module
    exec(compile(source.replace(mutant.before, mutant.after), str(_path(mutant.module)), "exec"), module.__dict__)
    parent, _, name = mutant.module.rpartition(".")
    setattr(sys.modules[parent], name, module)
    return mutant
