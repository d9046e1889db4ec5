"""Leased receive buffers: reused, counted, bounded."""

from __future__ import annotations

import pytest

from srm_common.kafka.buffers import Lease


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
