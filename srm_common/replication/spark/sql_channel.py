"""How columns get from a slot through Spark's JVM and back, within one Spark task (docs/adr/0016).

    mapInArrow(Relay)  -->  Project: one column, by Spark SQL  -->  mapInArrow(the slot)
          ^                                                              |
          +------------------ local socket, Arrow batches ---------------+

Both Python workers run on the same machine. The socket is a file in a folder that only their user may enter, and the
relay proves by the pass's secret that it belongs to the slot.

Nothing in this pipe ends a batch early: Spark writes rows to a Python worker once there are as many as a batch has, and
a stream once its buffer is full; a Python worker's output is buffered as well. So rows are followed by filling: a row
with a value larger than the buffers, so many empty ones that every batch up to it is complete, and one more large one,
which pushes those out of the relay.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import queue
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from srm_common.domain.transforms.statements import StatementColumns
from srm_common.errors import LostProcess

if TYPE_CHECKING:
    import pyarrow as pa

#: How long the two workers wait for each other: both are started at once, but a machine may be busy.
_MEET_SECONDS = 120.0
_LOOK_SECONDS = 0.005
#: A relay's process id behind the secret.
_HELLO = struct.Struct("!q")
#: Every system takes socket paths of this many bytes.
_LONGEST_PATH = 100
#: Rows that go to the relay at a time.
_ROWS = 4_000
#: What both ends leave in the temporary folder begins with this; after so long, nobody needs it any more.
_PREFIX, _FORGOTTEN_SECONDS = "srm-sql-", 86_400.0
#: Instead of a statement's number: the row is filling.
FILLING = -1


@dataclass(frozen=True)
class SqlPipe:
    """What both ends of the tasks of one pass know.

    ``secret``: of the pass. ``columns``: of the flow's statements, by their numbers. ``batch_rows`` and
    ``buffer_bytes`` are Spark's: after so many rows, or bytes, it passes something on. ``answer_seconds``: how long
    Spark may take for a piece of records.
    """

    secret: bytes = field(repr=False)
    columns: tuple[StatementColumns, ...]
    batch_rows: int
    buffer_bytes: int
    answer_seconds: float

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that some statement reads, in the order in which they go to Spark."""
        return tuple(sorted({name for column in self.columns for name in column.reads}))

    def folder(self, task: int) -> Path:
        """Where the socket of a task (Spark's id of its attempt) is."""
        name = hmac.digest(self.secret, b"folder %d" % task, "sha256").hex()[:16]
        return Path(tempfile.gettempdir()) / f"{_PREFIX}{name}"

    def waiting(self, partition: int) -> Path:
        """Where a slot says what it waits for, while it does: its second attempt tells what the first was doing when
        it was lost."""
        name = hmac.digest(self.secret, b"waiting %d" % partition, "sha256").hex()[:16]
        return Path(tempfile.gettempdir()) / f"{_PREFIX}{name}"

    def proof(self, task: int) -> bytes:
        """What the relay of a task sends first."""
        return hmac.digest(self.secret, b"relay %d" % task, "sha256")


def relay(pipe: SqlPipe, task: int) -> Iterator[pa.RecordBatch]:
    """What the slot of the same task sends, until it closes its end.

    Raises:
        LostProcess: there is no slot.
    """
    import pyarrow as pa

    with _connected(pipe, task) as connection:
        connection.sendall(pipe.proof(task) + _HELLO.pack(os.getpid()))
        with connection.makefile("rb", 1 << 20) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


def _connected(pipe: SqlPipe, task: int) -> socket.socket:
    deadline = time.monotonic() + _MEET_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            with _address(pipe.folder(task)) as address:
                connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline:
                raise LostProcess(f"the slot beside this relay to Spark SQL cannot be reached: {error}") from None
        time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The path of the socket in the folder, in a form that is short enough."""
    path = str(folder / "s")
    if len(path.encode()) <= _LONGEST_PATH or not sys.platform.startswith("linux"):
        yield path
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/s"
    finally:
        os.close(opened)


def waited_for(pipe: SqlPipe, partition: int) -> str | None:
    """What the lost slot of a task's partition waited for, said once; None if it is not known, as on another
    machine."""
    path = pipe.waiting(partition)
    try:
        found = path.read_text(encoding="utf-8")
        path.unlink()
    except (OSError, ValueError):
        return None
    return found


def _remove_forgotten() -> None:
    """Remove what slots of this user have left that were ended, with their whole pass, while they waited."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry) for entry in entries if entry.name.startswith(_PREFIX)]
    for path in found:
        with contextlib.suppress(OSError):  # another slot may be removing it
            status = path.lstat()
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _FORGOTTEN_SECONDS:
                if stat.S_ISDIR(status.st_mode):
                    shutil.rmtree(path)
                else:
                    path.unlink()


class SqlChannel:
    """The slot's end. Use it as a context manager; what the block raises passes through.

    Args:
        task: Spark's id of the task's attempt.
        partition: that of the task.
        results: the batches that come back from Spark, of one column.
    """

    def __init__(self, pipe: SqlPipe, task: int, partition: int, results: Iterator[pa.RecordBatch]) -> None:
        self._pipe = pipe
        self._task = task
        self._waiting = pipe.waiting(partition)
        self._results = results
        self._outgoing: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        self._relay_pid = 0
        self._sent = self._received = 0
        self._lost = ""

    def __enter__(self) -> SqlChannel:
        _remove_forgotten()
        folder = self._pipe.folder(self._task)
        folder.mkdir(mode=0o700)
        try:
            with socket.socket(socket.AF_UNIX) as listener, _address(folder) as address:
                listener.bind(address)
                listener.listen(1)
                self._connection = self._accepted(listener)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._sender = threading.Thread(target=self._send, name="to Spark SQL", daemon=True)
        self._sender.start()
        return self

    def _accepted(self, listener: socket.socket) -> socket.socket:
        """The connection of this task's relay; others are closed."""
        expected = self._pipe.proof(self._task)
        deadline = time.monotonic() + _MEET_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            listener.settimeout(left)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                break
            connection.settimeout(left)
            with contextlib.suppress(OSError), connection.makefile("rb", 0) as file:
                hello = _exactly(file, len(expected) + _HELLO.size)
                if hmac.compare_digest(hello[: len(expected)], expected):
                    connection.settimeout(None)
                    (self._relay_pid,) = _HELLO.unpack(hello[len(expected) :])
                    return connection
            connection.close()
        raise LostProcess("the relay to Spark SQL did not start")

    def __exit__(self, *_: object) -> None:
        """Spark's input ends, and so does what comes back; Spark takes the slot's result only then."""
        with self._within_time("the end of what was sent"):
            self._outgoing.put(None)
            self._sender.join()
            if not self._lost:
                for _ in self._results:
                    pass
        self._connection.close()

    def columns(self, statement: int) -> StatementColumns:
        """What a statement reads and changes."""
        return self._pipe.columns[statement]

    def evaluate(self, statement: int, columns: Mapping[str, pa.Array], rows: int, what: str) -> pa.StructArray:
        """As :class:`srm_common.records.sql_statement.Evaluate` says."""
        import pyarrow as pa

        if self._lost:
            raise LostProcess(self._lost)
        first = self._sent
        self._note(what)
        self._put(statement, columns, rows)
        found: list[pa.StructArray] = []
        with self._within_time(what):
            while self._received < first + rows:
                batch = next(self._results)
                before, self._received = self._received, self._received + batch.num_rows
                start = max(0, first - before)
                end = min(batch.num_rows, first + rows - before)
                if start < end:
                    found.append(batch.column(0).slice(start, end - start))
        # What ends the slot from now on has nothing to do with this piece.
        with contextlib.suppress(OSError):
            self._waiting.unlink()
        return pa.concat_arrays(found)

    def _note(self, what: str) -> None:
        # A full disk is no reason to stop.
        with contextlib.suppress(OSError):
            opened = os.open(self._waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(opened, "w", encoding="utf-8") as file:
                file.write(what)

    def _put(self, statement: int, columns: Mapping[str, pa.Array], rows: int) -> None:
        import pyarrow as pa

        nothing = pa.nulls(rows, pa.binary())
        whole = self._batch(statement, columns, nothing)
        for start in range(0, rows, _ROWS):
            self._outgoing.put(whole.slice(start, _ROWS))
        # Twice as much as the buffers hold.
        large = b"\0" * (2 * self._pipe.buffer_bytes)
        self._outgoing.put(self._batch(FILLING, {}, pa.array([large, *[None] * (self._pipe.batch_rows - 1)])))
        self._outgoing.put(self._batch(FILLING, {}, pa.array([large])))
        self._sent += rows + self._pipe.batch_rows + 1

    def _batch(self, statement: int, columns: Mapping[str, pa.Array], filling: pa.Array) -> pa.RecordBatch:
        import pyarrow as pa

        schema, rows = arrow_schema(self._pipe), len(filling)
        known = {**columns, "statement": pa.repeat(pa.scalar(statement, pa.int32()), rows), "filling": filling}
        return pa.RecordBatch.from_arrays(
            [known.get(one.name, pa.nulls(rows, one.type)) for one in schema], schema=schema
        )

    def _send(self) -> None:
        """In a thread of its own: what comes back has to be read while a piece is sent, or both would wait."""
        import pyarrow as pa

        try:
            with (
                self._connection.makefile("wb", 0) as file,
                pa.ipc.new_stream(file, arrow_schema(self._pipe)) as writer,
            ):
                while (batch := self._outgoing.get()) is not None:
                    writer.write_batch(batch)
        except OSError:
            # The relay has ended; the results do, too, and the slot learns it there.
            pass
        finally:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)

    @contextlib.contextmanager
    def _within_time(self, what: str) -> Iterator[None]:
        """Ends the relay when the block takes too long, and with it the task: nothing else would end the wait."""
        overdue = threading.Event()

        def end() -> None:
            overdue.set()
            with contextlib.suppress(OSError):
                os.kill(self._relay_pid, signal.SIGKILL)

        timer = threading.Timer(self._pipe.answer_seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if overdue.is_set():
                why = f"did not answer within {self._pipe.answer_seconds:g} s"
            else:
                why = f"ended ({type(error).__name__})"
            self._lost = f"Spark SQL {why}; waited for: {what}"
            raise LostProcess(self._lost) from error
        finally:
            timer.cancel()


def _exactly(file: object, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = file.read(size - len(found))  # type: ignore[attr-defined]
        if not more:
            raise OSError("the connection was closed")
        found += more
    return found


def arrow_schema(pipe: SqlPipe) -> pa.Schema:
    """The columns that go to Spark: the statement's number, what statements read, and the filling."""
    import pyarrow as pa

    from srm_common.records.sql_statement import SQL_COLUMNS

    return pa.schema(
        [("statement", pa.int32()), *((name, SQL_COLUMNS[name]) for name in pipe.read), ("filling", pa.binary())]
    )
