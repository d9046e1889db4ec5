"""What a slot raises becomes the error of its partitions, with the sentence and kind that operators and Airflow use."""

from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, CopyRange, SlotResult, SlotTask
from srm_common.errors import ConfigError, installing
from srm_common.replication.spark.slot_work import copied, not_copied

NOWHERE = ClusterSettings("a", "localhost:9", {}, {})
JOB = CopyJob("a->b", "a", NOWHERE, NOWHERE, "o", 1, "s", 1)
TASK = SlotTask(3, None, tuple(CopyRange("t", "a.t", partition, 5, 9) for partition in range(2)))


def raising(error: Exception) -> SlotResult:
    def copy(job: CopyJob, task: SlotTask) -> SlotResult:
        raise error

    return copied(copy, JOB, TASK)


def test_an_error_of_ours_keeps_its_sentence_and_its_kind() -> None:
    sentence = f"flow a->b has transforms, which need numba where slots run: {installing('transforms')} there"
    result = raising(ConfigError(sentence))
    assert [(one.position, one.error, one.error_kind) for one in result.ranges] == [(5, sentence, "ConfigError")] * 2
    assert result.needs_new_epoch
    assert result.notes == (sentence,)


def test_an_unforeseen_fault_says_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    result = raising(ValueError("odd"))
    (sentence,) = result.notes
    assert sentence.startswith("ValueError at test_slot_work.py:")
    assert sentence.endswith(": odd")
    assert [(one.error, one.error_kind) for one in result.ranges] == [(sentence, "SrmError")] * 2
    assert "Traceback" in capsys.readouterr().err


def test_a_task_that_copied_nothing_has_no_error() -> None:
    result = not_copied(TASK)
    assert [one.error_kind for one in result.ranges] == [None, None]
    assert (result.needs_new_epoch, result.notes) == (True, ())
