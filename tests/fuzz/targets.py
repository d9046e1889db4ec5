"""All targets."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz import answer_targets, batch_targets, http_targets, state_targets, text_targets, value_targets
from tests.fuzz.target import Target

TARGETS: Mapping[str, Target] = {
    target.name: target
    for module in (batch_targets, state_targets, answer_targets, http_targets, value_targets, text_targets)
    for target in module.TARGETS
}
