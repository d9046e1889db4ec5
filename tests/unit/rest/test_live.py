from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from srm_common.errors import UnreachableCluster
from srm_common.rest.faults import ApiError
from srm_common.rest.live import LiveCalls, Writing


def test_an_answer_and_an_error_come_through() -> None:
    calls = LiveCalls(60, most=1)

    def fails() -> str:
        raise UnreachableCluster("nobody there")

    assert calls.ask("seven", lambda: 7) == 7
    with pytest.raises(UnreachableCluster, match="nobody there"):
        calls.ask("an error", fails)
    # Both have given their place back.
    assert calls.ask("eight", lambda: 8) == 8


def test_a_call_of_its_own_that_is_out_of_time_is_its_own_error() -> None:
    def fails() -> str:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        LiveCalls(60).ask("an error", fails)


def test_who_waits_too_long_is_told_and_the_call_counts_until_its_end() -> None:
    calls = LiveCalls(0.01, most=1)
    end, ended = threading.Event(), threading.Event()

    def hangs() -> None:
        end.wait(60)
        ended.set()

    with pytest.raises(ApiError, match=r"the plan: .* not responded within 0\.01 s") as late:
        calls.ask("the plan", hangs)
    assert (late.value.status, late.value.fault.code) == (504, "clusters_slow")
    with pytest.raises(ApiError, match="other requests") as busy:
        calls.ask("another", lambda: 1)
    assert (busy.value.status, busy.value.fault.code) == (503, "busy")
    end.set()
    assert ended.wait(60)
    # The place is free again a moment after the call has ended.
    answer = None
    while answer is None:
        with suppress(ApiError):
            answer = calls.ask("another", lambda: 1, seconds=60)
    assert answer == 1


def test_what_is_not_written_when_the_caller_has_gone_is_never_written() -> None:
    """The caller may have done it in another way since."""
    calls, writing = LiveCalls(0.01, most=1), Writing()
    given_up, ended = threading.Event(), threading.Event()
    written, raised = [], []

    def writes() -> None:
        given_up.wait(60)
        try:
            writing.begin()
            written.append(1)
        except ApiError as error:
            raised.append(error)
        ended.set()

    with pytest.raises(ApiError, match=r"not responded within 0\.01 s; nothing was written$") as late:
        calls.ask("the edit", writes, writing=writing)
    assert (late.value.status, late.value.fault.code) == (504, "clusters_slow")
    given_up.set()
    assert ended.wait(60)
    assert (written, len(raised)) == ([], 1)


def test_a_write_that_has_begun_may_still_be_carried_out_and_its_caller_is_told() -> None:
    calls, writing = LiveCalls(0.01), Writing()
    writing.begin()
    end = threading.Event()
    with pytest.raises(ApiError, match="may still be carried out: read the state again before you repeat it"):
        calls.ask("the edit", lambda: end.wait(60), writing=writing)
    end.set()
