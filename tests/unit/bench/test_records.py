import json

import cramjam
import pytest

from bench.records import KEY_BYTES, key_of, value_pool


@pytest.mark.parametrize("record_bytes", [100, 1024])
def test_values_are_json_of_the_stated_size_and_all_different(record_bytes: int) -> None:
    pool = value_pool(record_bytes, 500)
    assert {len(value) + KEY_BYTES for value in pool} == {record_bytes}
    assert len(set(pool)) == 500
    assert all(isinstance(json.loads(value), dict) for value in pool)


def test_the_same_seed_gives_the_same_values() -> None:
    assert value_pool(1024, 5, seed=3) == value_pool(1024, 5, seed=3)
    assert value_pool(1024, 5, seed=3) != value_pool(1024, 5, seed=4)


@pytest.mark.parametrize(("record_bytes", "batch_bytes"), [(100, 16_384), (1024, 131_072)])
def test_a_batch_compresses_as_real_data_do(record_bytes: int, batch_bytes: int) -> None:
    batch = b"".join(value_pool(record_bytes, batch_bytes // record_bytes))
    factor = len(batch) / len(cramjam.lz4.compress(batch))
    assert 2.5 < factor < 5


def test_keys_have_one_size() -> None:
    assert {len(key_of(number)) for number in (0, 1, 10**15)} == {KEY_BYTES}


def test_a_record_too_small_for_its_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        value_pool(50, 1)
