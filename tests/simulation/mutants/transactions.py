"""Mutants of what slots write: epochs and sequences, the order inside a transaction, requests in flight."""

from __future__ import annotations

from tests.simulation.mutants.mutant import FETCHING, SENDING_TESTS, Mutant

_PRODUCER = "srm_common.kafka.transactions.producer"
_SLOT = "srm_common.replication.slots.slot"
_CHUNK = "srm_common.replication.slots.chunk"
_SENDING = "srm_common.replication.slots.sending"
_LINKS = "srm_common.replication.slots.slot_links"

_EPOCH_TESTS = "tests/faults/test_epochs.py"
_CREATED_AGAIN_TESTS = "tests/unit/replication/slots/test_created_again.py"
_LINKS_TESTS = "tests/unit/replication/slots/test_slot_links.py"
_TAILING_TESTS = "tests/unit/replication/slots/test_tailing_faults.py"

TRANSACTIONS = (
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
        FETCHING,
        "self._source.loop.cancel(task)",
        "pass",
    ),
    Mutant(
        "a topic that was created again is taken for the one that was copied",
        FETCHING,
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
        f"{SENDING_TESTS}::test_a_chunk_hears_nothing_of_requests_that_the_one_before_has_given_up",
    ),
    Mutant(
        "an answer of a chunk that was given up counts for the next",
        _SENDING,
        "        if request.epoch != self._epoch:\n            return []\n",
        "",
        f"{SENDING_TESTS}::test_a_chunk_hears_nothing_of_requests_that_the_one_before_has_given_up",
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
        "            self._fail(ChunkFailed(reason, () if too_large else request.states))\n",
        "            pass\n",
    ),
    Mutant(
        "a batch follows the first of its partition before that is stored",
        _SENDING,
        "            or (self._opening and not self._opening.isdisjoint(partitions))\n",
        "",
        f"{SENDING_TESTS}::test_a_batch_that_is_refused_as_too_early_is_not_overtaken",
    ),
)
