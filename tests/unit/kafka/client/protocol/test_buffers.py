"""Leased receive buffers: reused, counted, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.kafka.client.protocol.buffers import Lease, Leases


def test_the_same_buffer_is_used_again() -> None:
    lease = Lease(1000)
    first = lease.room_for(1000)
    first[:5] = b"first"
    assert len(lease.room_for(5)) == 5
    assert bytes(lease.room_for(5)) == b"first"


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_room_is_exact(size: int) -> None:
    assert len(Lease(1000).room_for(size)) == size


def test_it_grows_for_one_large_answer_and_shrinks_again() -> None:
    lease = Lease(1000)
    large = lease.room_for(5000)
    assert len(large) == 5000
    assert len(lease.room_for(1000)) == 1000
    assert lease.room_for(1).obj is not large.obj
    assert len(bytes(lease.room_for(1).obj)) == 1000  # no more than usual is kept


def test_a_view_that_is_still_read_survives_growth() -> None:
    lease = Lease(4)
    small = lease.room_for(4)
    small[:] = b"data"
    lease.room_for(100)
    assert bytes(small) == b"data"


def test_users_are_counted() -> None:
    lease = Lease(10)
    seen = [lease.in_use]
    for step in (lease.hold, lease.hold, lease.release, lease.release):
        step()
        seen.append(lease.in_use)
    assert seen == [False, True, True, True, False]


def test_one_release_too_many_is_a_fault() -> None:
    lease = Lease(10)
    lease.hold()
    lease.release()
    with pytest.raises(AssertionError, match="released more often"):
        lease.release()


def test_each_node_has_two_leases_of_its_share() -> None:
    leases = Leases(16 << 20)
    nodes = {1, 2}
    assert leases.share(nodes) == 8 << 20
    for node in (1, 2):
        for _ in range(2):
            lease = leases.free(node, nodes)
            assert lease is not None
            lease.hold()
        assert leases.free(node, nodes) is None
    assert leases.held_bytes == 32 << 20


def test_a_lease_that_was_given_back_is_used_again() -> None:
    leases = Leases(16 << 20)
    first = leases.free(1, {1})
    assert first is not None
    assert leases.free(1, {1}) is first
    first.hold()
    second = leases.free(1, {1})
    assert second is not None
    assert second is not first
    first.release()
    assert leases.free(1, {1}) is first


def test_a_large_answer_takes_memory_only_while_it_is_used() -> None:
    lease = Lease(1000)
    lease.hold()
    large = lease.room_for(5000)
    assert (lease.size, lease.has_grown) == (5000, True)
    large[:4] = b"data"
    lease.release()
    assert (lease.size, lease.has_grown, lease.has_memory) == (1000, False, False)
    assert bytes(large[:4]) == b"data"


def test_a_node_is_not_read_ahead_while_large_answers_fill_the_memory() -> None:
    leases, nodes = Leases(4 << 20), {1, 2}
    held = []
    for node in (1, 2):
        lease = leases.free(node, nodes)
        assert lease is not None
        lease.hold()
        held.append(lease)
    held[0].room_for(5 << 19)
    held[1].room_for(1 << 20)
    # Two of them fit beside the other node's.
    assert leases.free(1, nodes) is not None
    held[0].room_for(5 << 20)
    assert leases.free(1, nodes) is None
    assert leases.free(2, nodes) is not None
    held[0].release()
    assert leases.free(1, nodes) is not None


@given(st.lists(st.tuples(st.sets(st.integers(1, 6), min_size=1), st.booleans()), max_size=40))
def test_buffers_keep_what_was_promised_while_leaders_move(steps: list[tuple[set[int], bool]]) -> None:
    total = 8 << 20
    leases = Leases(total)
    in_use: list[Lease] = []
    for nodes, give_back in steps:
        if give_back:
            while in_use:
                in_use.pop().release()
        for node in sorted(nodes):
            lease = leases.free(node, nodes)
            if lease is not None:
                lease.hold()
                in_use.append(lease)
        assert leases.held_bytes <= 2 * total
        assert in_use
    while in_use:
        in_use.pop().release()
    assert all(leases.free(node, {1, 2, 3}) is not None for node in (1, 2, 3))
