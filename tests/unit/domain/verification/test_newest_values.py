from __future__ import annotations

from srm_common.domain.verification.newest_values import KeyedRecord, NewestValues


def test_the_last_of_a_thousand_classes_has_keys_too() -> None:
    values = NewestValues(1023, 1024)
    values.take(KeyedRecord(offset, b"key-%d" % offset, b"value") for offset in range(8192))
    assert 0 < len(values) < 64
