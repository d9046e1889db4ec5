"""The leader epoch of the last offset copied: a header of the record of a source offset.

MirrorMaker 2 and Kafka Connect read the keys and values of these records only, which stay as they write them. So
records written by them, by an operator or by software without this header have no epoch, and nothing is checked then.
"""

from __future__ import annotations

from srm_common.wire.plain_records import Headers, read_headers

NAME = b"srm.leader.epoch"
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
