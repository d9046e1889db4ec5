import pytest

from srm_common.wire.murmur2 import murmur2, partition_for


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
