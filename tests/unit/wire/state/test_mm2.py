import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.errors import CorruptRecord
from srm_common.wire.state import mm2
from srm_common.wire.state.mm2 import copied_to_headers, copied_to_in, murmur2, partition_for
from srm_common.wire.state.plain_records import write_headers

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(0, (1 << 31) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize(
    ("beat", "key", "value"),
    [
        (
            Heartbeat("source-1", "target-2", 1234567890),
            "0008 736f757263652d31  0008 7461726765742d32",
            "0000  00000000499602d2",
        ),
        (Heartbeat("A", "B", 1700000000000), "0001 41  0001 42", "0000  0000018bcfe56800"),
    ],
)
def test_heartbeat_bytes(beat: Heartbeat, key: str, value: str) -> None:
    assert mm2.encode_heartbeat(beat) == (bytes.fromhex(key), bytes.fromhex(value))
    assert mm2.decode_heartbeat(bytes.fromhex(key), bytes.fromhex(value)) == beat


@pytest.mark.parametrize(
    ("checkpoint", "key", "value"),
    [
        (
            Checkpoint("group-1", "topic-2", 3, 4, 5, "metadata-6"),
            "0007 67726f75702d31  0007 746f7069632d32  00000003",
            "0000  0000000000000004  0000000000000005  000a 6d657461646174612d36",
        ),
        (
            Checkpoint("g1", "A.foo", 0, 250, 201),
            "0002 6731  0005 412e666f6f  00000000",
            "0000  00000000000000fa  00000000000000c9  0000",
        ),
    ],
)
def test_checkpoint_bytes(checkpoint: Checkpoint, key: str, value: str) -> None:
    assert mm2.encode_checkpoint(checkpoint) == (bytes.fromhex(key), bytes.fromhex(value))
    assert mm2.decode_checkpoint(bytes.fromhex(key), bytes.fromhex(value)) == checkpoint


@pytest.mark.parametrize(
    ("sync", "key", "value"),
    [
        (
            OffsetSync("topic-1", 2, 3, 4),
            "0007 746f7069632d31  00000002",
            "0000000000000003 0000000000000004",
        ),
        (OffsetSync("foo", 0, 100, 200), "0003 666f6f  00000000", "0000000000000064  00000000000000c8"),
        (
            OffsetSync("café", 1, -1, 9000000000),
            "0005 636166c3a9  00000001",
            "ffffffffffffffff  0000000218711a00",
        ),
    ],
)
def test_offset_sync_bytes(sync: OffsetSync, key: str, value: str) -> None:
    assert mm2.encode_offset_sync(sync) == (bytes.fromhex(key), bytes.fromhex(value))
    assert mm2.decode_offset_sync(bytes.fromhex(key), bytes.fromhex(value)) == sync


@given(st.builds(Checkpoint, TEXT, TEXT, INT32, INT64, INT64, TEXT), st.binary(max_size=5))
def test_checkpoint_round_trip_with_trailing_bytes(checkpoint: Checkpoint, tail: bytes) -> None:
    key, value = mm2.encode_checkpoint(checkpoint)
    assert mm2.decode_checkpoint(key + tail, value + tail) == checkpoint


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_garbage_is_refused_or_read_but_never_crashes(key: bytes, value: bytes) -> None:
    for decode in (mm2.decode_checkpoint, mm2.decode_heartbeat, mm2.decode_offset_sync):
        try:
            decode(key, value)
        except CorruptRecord:
            continue


@pytest.mark.parametrize("cut", range(20))
def test_truncated_values_are_refused(cut: int) -> None:
    key, value = mm2.encode_checkpoint(Checkpoint("g1", "A.foo", 0, 250, 201))
    with pytest.raises(CorruptRecord):
        mm2.decode_checkpoint(key, value[:cut])


def test_other_versions_are_refused() -> None:
    key, value = mm2.encode_checkpoint(Checkpoint("g1", "A.foo", 0, 250, 201))
    with pytest.raises(CorruptRecord, match="version 1"):
        mm2.decode_checkpoint(key, b"\x00\x01" + value[2:])


def test_tombstones_are_refused_with_a_sentence() -> None:
    with pytest.raises(CorruptRecord, match="the checkpoint value is null"):
        mm2.decode_checkpoint(b"", None)


def test_strings_above_32767_bytes_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="32767"):
        mm2.encode_heartbeat(Heartbeat("x" * 32768, "B", 0))


def test_source_offset_key_bytes() -> None:
    key = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"foo"}]'
    assert mm2.source_offset_key("A", "foo", 0) == key
    assert mm2.parse_source_offset_key(key) == ("MirrorSourceConnector", "A", "foo", 0)


def test_source_offset_key_escapes_as_jackson_does() -> None:
    key = mm2.source_offset_key('q"b\\\b\t\n\f\r\x0f\x7f/<é\U0001f600', "t", 3, connector="my one")
    alias = 'q\\"b\\\\\\b\\t\\n\\f\\r\\u000F\x7f/<é\\uD83D\\uDE00'
    assert key == f'["my one",{{"cluster":"{alias}","partition":3,"topic":"t"}}]'.encode()


@given(TEXT, TEXT, INT32, TEXT)
def test_source_offset_key_round_trip(alias: str, topic: str, partition: int, connector: str) -> None:
    key = mm2.source_offset_key(alias, topic, partition, connector)
    assert mm2.parse_source_offset_key(key) == (connector, alias, topic, partition)


@pytest.mark.parametrize(
    "key",
    [
        b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.foo","group":"g1"}]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        b'["MirrorSourceConnector", {"cluster":"A","partition":0,"topic":"foo"}]',
        b'["MirrorSourceConnector",{"partition":0,"cluster":"A","topic":"foo"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":true,"topic":"foo"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"\\uD800"}]',
        b"[",
        b"\xff",
        None,
    ],
)
def test_keys_that_mirror_maker_would_not_find(key: bytes | None) -> None:
    assert mm2.parse_source_offset_key(key) is None


def test_source_offset_value_bytes() -> None:
    assert mm2.source_offset_value(41) == b'{"offset":41}'
    assert mm2.parse_source_offset_value(b'{"offset":41}') == 41


@pytest.mark.parametrize("value", [None, b"null", b"{}", b'{"offset":null}', b'{"offset":-1}'])
def test_values_that_mean_no_position(value: bytes | None) -> None:
    assert mm2.parse_source_offset_value(value) is None


@pytest.mark.parametrize(
    "value",
    [b"", b"x", b"\xff", b"[1]", b"7"]
    + [b'{"offset":%b}' % bad for bad in (b'"7"', b"1.5", b"true", b"1e3", b"9223372036854775808")],
)
def test_unreadable_values_are_refused(value: bytes) -> None:
    with pytest.raises(CorruptRecord):
        mm2.parse_source_offset_value(value)


def signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # org.apache.kafka.common.utils.UtilsTest#testMurmur2
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
        ('["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"foo"}]', 381650641),
        ('["MirrorSourceConnector",{"cluster":"A","partition":1,"topic":"foo"}]', -483875131),
    ],
)
def test_hash_equals_kafkas(text: str, expected: int) -> None:
    assert signed(murmur2(text.encode())) == expected


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ('["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"foo"}]', 16),
        ('["MirrorSourceConnector",{"cluster":"A","partition":1,"topic":"foo"}]', 17),
        ('["MirrorSourceConnector",{"cluster":"primary","partition":0,"topic":"test-topic-1"}]', 14),
        ('["MirrorCheckpointConnector",{"partition":0,"topic":"A.foo","group":"g1"}]', 18),
        ('["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', 0),
    ],
)
def test_partition_of_25_equals_kafkas(key: str, partition: int) -> None:
    assert partition_for(key.encode(), 25) == partition


def test_empty_key_has_a_partition() -> None:
    assert 0 <= partition_for(b"", 7) < 7


@pytest.mark.parametrize(
    ("copied_to", "value"), [(CopiedTo(20, 21), b"21"), (CopiedTo(19, 30), b"30,19"), (CopiedTo(99, 0), b"0,99")]
)
def test_where_the_copy_ends_is_a_header_of_a_source_offset(copied_to: CopiedTo, value: bytes) -> None:
    headers = copied_to_headers(copied_to, 20)
    assert headers == ((b"srm.copied.to", value),)
    assert copied_to_in(write_headers(headers), 20) == copied_to


@pytest.mark.parametrize("value", [b"", b"-1", b"1,", b"x", b"1,x", b"1,2,3", b"9" * 20])
def test_what_does_not_say_where_the_copy_ends_is_passed_over(value: bytes) -> None:
    assert copied_to_headers(None, 20) == ()
    assert copied_to_in(b"", 20) is None
    assert copied_to_in(write_headers([(b"srm.copied.to", value)]), 20) is None


def test_source_offsets_that_are_nested_without_end() -> None:
    deep = b"[" * 100_000
    assert mm2.parse_source_offset_key(deep) is None
    with pytest.raises(CorruptRecord, match="is not JSON"):
        mm2.parse_source_offset_value(deep)
