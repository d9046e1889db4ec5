from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from srm_common.domain.transforms.chain import PredicateKind, StepKind, parse_chain
from srm_common.domain.transforms.field_steps import FIELD_TRANSFORMS
from srm_common.domain.transforms.step_settings import settings_of

#: What each class must have.
REQUIRED = {
    "Cast": {"spec": "a:int8"},
    "DropHeaders": {"headers": "h"},
    "ExtractField": {"field": "a"},
    "HeaderFrom": {"fields": "a", "headers": "h", "operation": "copy"},
    "HoistField": {"field": "a"},
    "InsertField": {"static.field": "a", "static.value": "b"},
    "InsertHeader": {"header": "h", "value.literal": "1"},
    "MaskField": {"fields": "a"},
    "SetSchemaMetadata": {"schema.name": "a"},
    "TimestampConverter": {"target.type": "unix"},
    "ValueToKey": {"fields": "a"},
}
STEPS = [*FIELD_TRANSFORMS, *(kind.value for kind in StepKind if kind is not StepKind.FIELDS)]


class Asked(Mapping[str, str]):
    """Settings that know which of them were asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values_, self.names = values, set[str]()

    def __getitem__(self, key: str) -> str:
        self.names.add(key)
        return self.values_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


@pytest.mark.parametrize("name", STEPS)
def test_a_class_has_the_settings_that_its_parser_asks_for(name: str) -> None:
    written = name if name in ("Filter", "InsertHeader", "DropHeaders", "ValueToKey") else f"{name}$Value"
    own = {f"transforms.t.{setting}": value for setting, value in REQUIRED.get(name, {}).items()}
    asked = Asked(
        {"transforms": "t", "transforms.t.type": written, "value.format": "json", "key.format": "json", **own}
    )
    parse_chain(asked)
    names = {key.removeprefix("transforms.t.") for key in asked.names if key.startswith("transforms.t.")}
    assert names == {*(settings_of("transforms", f"org.apache.kafka.connect.transforms.{written}") or ())} - {
        "plugin.version"
    }


@pytest.mark.parametrize("kind", PredicateKind)
def test_a_predicate_has_the_settings_that_its_parser_asks_for(kind: PredicateKind) -> None:
    own = {"predicates.p.name": "h", "predicates.p.pattern": "t"}
    asked = Asked({"predicates": "p", "predicates.p.type": kind.value, **own})
    parse_chain(asked)
    names = {key.removeprefix("predicates.p.") for key in asked.names if key.startswith("predicates.p.")}
    assert names == {*(settings_of("predicates", kind.value) or ())} - {"plugin.version"}


def test_a_class_that_is_not_known_may_have_any_settings() -> None:
    assert settings_of("transforms", "com.example.Any") is None
