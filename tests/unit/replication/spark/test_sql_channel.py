"""From a slot through Spark and back, with a process that stands for Spark and the relay."""

from __future__ import annotations

import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from srm_common.domain.transforms.statements import StatementColumns
from srm_common.errors import LostProcess
from srm_common.replication.spark import sql_channel
from srm_common.replication.spark.sql_channel import SqlChannel, SqlPipe, waited_for

#: Echoes values, and collects rows to batches as Spark does; what it is told to do at its first batch is its argument.
_RELAY = """
import pickle, sys, os, signal
import pyarrow as pa
from srm_common.replication.spark.sql_channel import relay
pipe, task, first = pickle.loads(bytes.fromhex(sys.argv[1]))
columns = [("kept", pa.bool_()), ("value", pa.binary()), ("filling", pa.binary())]
writer = pa.ipc.new_stream(sys.stdout.buffer, pa.schema([("record", pa.struct(columns))]))
pending = []
for batch in relay(pipe, task):
    if first == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if first == "end":
        sys.exit(3)
    rows = batch.num_rows
    real = pa.array([number >= 0 for number in batch.column("statement").to_pylist()])
    columns = [real, batch.column("value"), batch.column("filling")]
    record = pa.StructArray.from_arrays(columns, ["kept", "value", "filling"])
    out = pa.record_batch([record], names=["record"])
    pending.append(out)
    table = pa.Table.from_batches(pending).combine_chunks()
    while table.num_rows >= pipe.batch_rows:
        writer.write_batch(table.slice(0, pipe.batch_rows).to_batches()[0])
        table = table.slice(pipe.batch_rows)
    pending = table.to_batches()
    sys.stdout.buffer.flush()
for out in pending:
    writer.write_batch(out)
writer.close()
"""


def pipe_of(answer_seconds: float = 120.0) -> SqlPipe:
    return SqlPipe(os.urandom(32), (StatementColumns(("value",), ("value",)),), 50, 1 << 16, answer_seconds)


@contextmanager
def relayed(pipe: SqlPipe, first: str = "") -> Iterator[tuple[subprocess.Popen[bytes], Iterator[pa.RecordBatch]]]:
    """The process, and what it lets through."""
    told = pickle.dumps((pipe, 7, first)).hex()
    process = subprocess.Popen([sys.executable, "-c", _RELAY, told], stdout=subprocess.PIPE)
    assert process.stdout is not None

    def results() -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(process.stdout) as reader:
            yield from reader

    try:
        yield process, results()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def asked(channel: SqlChannel, values: list[bytes]) -> list[bytes]:
    column = pa.array(values, pa.binary())
    result = channel.evaluate(0, {"value": column}, len(values), "transforms.sql for offsets 0 to 9 of orders-0")
    assert result.field("kept").to_pylist() == [True] * len(values)
    found: list[bytes] = result.field("value").to_pylist()
    return found


def test_rows_come_back_in_their_number_and_order() -> None:
    pipe = pipe_of()
    with relayed(pipe) as (process, results):
        with SqlChannel(pipe, 7, 3, results) as channel:
            assert not pipe.folder(7).exists()
            # Less than a batch, as much as some, more than a write at a time, and more than all buffers together.
            for size, count in ((3, 1), (3, 49), (3, 50), (3, 51), (3, 5000), (100_000, 300), (3, 1)):
                values = [b"%d" % number + b"x" * size for number in range(count)]
                assert asked(channel, values) == values
        assert waited_for(pipe, 3) is None
        assert process.wait(60) == 0


@pytest.mark.parametrize("first", ["stop", "end"])
def test_a_relay_that_stands_still_or_ends_is_told_in_a_sentence(first: str) -> None:
    """It is ended, and so is everything that waits for it."""
    pipe = pipe_of(1.0 if first == "stop" else 120.0)
    why = "did not answer within 1 s" if first == "stop" else "ended"
    with relayed(pipe, first) as (process, results):
        told = f"Spark SQL {why}.*; waited for: transforms.sql for offsets 0 to 9"
        with pytest.raises(LostProcess, match=told), SqlChannel(pipe, 7, 3, results) as channel:
            asked(channel, [b"a"])
        assert process.wait(60) == (-signal.SIGKILL if first == "stop" else 3)
    assert waited_for(pipe, 4) is None
    assert stat.S_IMODE(pipe.waiting(3).stat().st_mode) == 0o600
    assert waited_for(pipe, 3) == "transforms.sql for offsets 0 to 9 of orders-0"
    assert waited_for(pipe, 3) is None, "it is said once, and nothing is left"


def test_a_piece_that_is_back_is_not_what_a_slot_was_lost_by() -> None:
    """A worker that is killed later, while it fetches for instance, gets no chance to say so."""
    pipe = pipe_of()
    with relayed(pipe) as (_, results), SqlChannel(pipe, 7, 3, results) as channel:
        assert asked(channel, [b"a"]) == [b"a"]
        assert waited_for(pipe, 3) is None


def test_what_ended_slots_have_left_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody asks what a cancelled pass was doing."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(sql_channel, "_MEET_SECONDS", 0.0)
    old, older = pipe_of(), pipe_of()
    old.waiting(3).write_text("of today")
    older.waiting(3).write_text("of another day")
    older.folder(7).mkdir()
    for path in (older.waiting(3), older.folder(7)):
        os.utime(path, (0, 0))
    (tmp_path / "another's").touch()
    os.utime(tmp_path / "another's", (0, 0))
    with pytest.raises(LostProcess), SqlChannel(pipe_of(), 7, 3, iter(())):
        pass
    assert set(tmp_path.iterdir()) == {old.waiting(3), tmp_path / "another's"}


def test_what_the_slot_raises_passes_through_and_ends_the_relay() -> None:
    pipe = pipe_of()
    with relayed(pipe) as (process, results):
        with pytest.raises(KeyError), SqlChannel(pipe, 7, 3, results):
            raise KeyError("the slot's own")
        assert process.wait(60) == 0


def test_no_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_channel, "_MEET_SECONDS", 0.1)
    pipe = pipe_of()
    with pytest.raises(LostProcess, match="the relay to Spark SQL did not start"), SqlChannel(pipe, 7, 3, iter(())):
        pass
    assert not pipe.folder(7).exists()
    with pytest.raises(LostProcess, match="the slot beside this relay to Spark SQL cannot be reached"):
        next(sql_channel.relay(pipe, 7))


@pytest.mark.parametrize("deep", [False, True], ids=["short path", "path too long for a socket"])
def test_only_this_user_and_only_the_relay_of_the_pass_get_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, deep: bool
) -> None:
    home = tmp_path / ("d" * 120) if deep else tmp_path
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", None)
    pipe = pipe_of()
    modes: list[int] = []
    turned_away = threading.Event()

    def stranger() -> None:
        with sql_channel._connected(pipe, 7) as connection:
            modes.append(stat.S_IMODE(pipe.folder(7).stat().st_mode))
            connection.sendall(b"\0" * 40)
            if not connection.recv(1):
                turned_away.set()

    batches: list[Iterator[pa.RecordBatch]] = []

    def results() -> Iterator[pa.RecordBatch]:
        yield from batches[0]

    first = threading.Thread(target=stranger)
    first.start()
    later = ExitStack()

    def relay_then() -> None:
        assert turned_away.wait(120)
        batches.append(later.enter_context(relayed(pipe))[1])

    second = threading.Thread(target=relay_then)
    second.start()
    with later, SqlChannel(pipe, 7, 3, results()) as channel:
        second.join()
        assert asked(channel, [b"a"]) == [b"a"]
    first.join()
    assert modes == [0o700]
