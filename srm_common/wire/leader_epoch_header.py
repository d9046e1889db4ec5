"""Headers of the record of a source offset: the leader epoch of the last offset copied, and a position of 0.

MirrorMaker 2 and Kafka Connect read the keys and values of these records only, which stay as they write them. So
records written by them, by an operator or by software without these headers have no epoch, and nothing is checked then.

A value names the last offset copied, so it cannot say that offset 0 is the next one: without an offset it means "no
position", for which a rule says where to begin. The second header makes that difference.
"""

from __future__ import annotations

from srm_common.wire.plain_records import Headers, read_headers

NAME = b"srm.leader.epoch"
_FIRST = b"srm.first.offset"
#: To a value without an offset: copying goes on at offset 0, and what is missing there is lost data.
FROM_ZERO: Headers = ((_FIRST, b"0"),)
_LARGEST = (1 << 31) - 1


def epoch_headers(epoch: int) -> Headers:
    """The headers to write; none where the epoch is not known (-1)."""
    return ((NAME, b"%d" % epoch),) if epoch >= 0 else ()


def epoch_in(headers: bytes) -> int:
    """The epoch that a record's headers tell; -1 where they tell none.

    Raises:
        CorruptBatch: they cannot be read.
    """
    text = read_headers(headers).get(NAME, b"")
    return int(text) if text.isdigit() and int(text) <= _LARGEST else -1


def from_zero(headers: bytes) -> bool:
    """Whether a record's headers are :data:`FROM_ZERO`.

    Raises:
        CorruptBatch: they cannot be read.
    """
    return read_headers(headers).get(_FIRST) == b"0"
