"""Mutants of what holds for a run as a whole: who owns the flow, and what its passes may rely on."""

from __future__ import annotations

from tests.simulation.mutants.mutant import Mutant

_OWNERSHIP = "srm_common.replication.driver.ownership"
_PASSES = "srm_common.replication.driver.passes"
_OFFSETS = "srm_common.kafka.state.source_offsets"

_PASS_TESTS = "tests/unit/replication/driver/test_passes.py"

RUNS = (
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
        "srm_common.kafka.client.links.link",
        "self.manager.cluster.saw(one, part.leader_epoch, node)",
        "pass",
        "tests/unit/replication/driver/test_source_view.py::test_a_new_leader_on_the_same_node_is_known_by_the_end_that_it_lists",
    ),
    Mutant(
        "nothing is fenced after an uncertain pass",
        _PASSES,
        "self.owner.refence()\n            self._identities = [*self.owner.identities]\n        further",
        "pass\n        further",
        f"{_PASS_TESTS}::test_after_an_uncertain_pass_all_slots_are_fenced_before_anything_is_read_or_copied",
    ),
    Mutant(
        "committed offsets are not read again after an uncertain pass",
        _PASSES,
        "        further = self.points.read_again(self.tracks.values())\n",
        "        further: list[PartitionTrack] = []\n",
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
        "committed offsets are read from any broker that says that it leads",
        "srm_common.kafka.client.links.link",
        "            await cluster.agree()\n",
        "            pass\n",
        "tests/unit/usecases/runs/test_isolated_brokers.py::"
        "test_committed_offsets_of_a_deposed_leader_are_not_copied_from_again",
    ),
    Mutant(
        "the metadata of a broker that is cut off replace newer ones",
        "srm_common.kafka.client.connections.link_metadata",
        "                if not 0 <= described.leader_epoch < newest:\n",
        "                if True:\n",
        "tests/unit/kafka/client/connections/test_link_metadata.py::test_an_earlier_leader_is_not_believed",
    ),
    Mutant(
        "a deposed leader of the source passes for a loss",
        "srm_common.replication.driver.starting_points",
        "        copied = {topic: self.memory.topic_id(topic) for topic in ids}\n",
        "        copied = {}\n",
        "tests/unit/usecases/runs/test_isolated_brokers.py::test_a_deposed_leader_of_the_source_is_no_loss",
    ),
    Mutant(
        "offsets are read while transactions are open",
        _OFFSETS,
        "        if held is None:\n            return stable\n",
        "        return stable\n",
        "tests/kafka/state/test_state_topics.py::test_an_open_transaction_on_the_offsets_is_not_read_past",
    ),
)
