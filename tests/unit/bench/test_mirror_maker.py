from bench.mirror_maker import mirror_maker_properties
from bench.sides import Flow

EXACTLY_ONCE = Flow("east1", "bench-1k-lz4", "lz4", 1024, exactly_once=True)
AT_LEAST_ONCE = Flow("east1", "bench-1k-lz4", "lz4", 1024, exactly_once=False)


def test_settings_stand_at_the_level_where_mirror_maker_reads_them() -> None:
    properties = mirror_maker_properties(EXACTLY_ONCE, "a:1", "b:2", 8083)
    assert properties["backup.exactly.once.source.support"] == "enabled"
    assert properties["dedicated.mode.enable.internal.rest"] == "true"
    assert properties["east1->backup.transaction.boundary"] == "poll"
    assert properties["east1.consumer.isolation.level"] == "read_committed"
    assert properties["backup.producer.compression.type"] == "lz4"
    assert properties["backup.producer.batch.size"] == "131072"
    assert properties["tasks.max"] == "2"


def test_at_least_once_leaves_transactions_out() -> None:
    properties = mirror_maker_properties(AT_LEAST_ONCE, "a:1", "b:2", 8083)
    assert not [key for key in properties if "exactly.once" in key or "transaction" in key or key == "listeners"]


def test_a_poll_has_about_four_megabytes_whatever_the_record_size() -> None:
    small = Flow("east1", "bench-100b-lz4", "lz4", 100, exactly_once=True)
    assert mirror_maker_properties(EXACTLY_ONCE, "a", "b", 1)["east1.consumer.max.poll.records"] == "4096"
    assert mirror_maker_properties(small, "a", "b", 1)["east1.consumer.max.poll.records"] == "41943"
