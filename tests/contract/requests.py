"""Any request of Kafka's protocol, from plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from srm_common.kafka.client.library import messages
from srm_common.kafka.client.links.link import ClusterLink


def request(api: str, version: int, values: Mapping[str, Any]) -> Any:
    """``values``: fields in snake case, structs as mappings; what is left out has the default of Kafka's schema."""
    kind = messages()[api][0]
    return kind(version=version, **{name: _value(kind.fields[name], value) for name, value in values.items()})


def ask(link: ClusterLink, node: int, api: str, version: int, **values: Any) -> Any:
    """The answer of a node, whatever it says."""
    return link.run(lambda: link.send(node, request(api, version, values)))


def codes(answer: Any) -> list[int]:
    """All error codes of an answer, in the order of its fields."""
    return list(_codes(answer.to_dict()))


def _value(field: Any, value: Any) -> Any:
    if not field.is_struct_array():
        return value
    return [field.data_class(**{name: _value(field.fields[name], one[name]) for name in one}) for one in value]


def _codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key.endswith("error_code"):
                yield value
            else:
                yield from _codes(value)
    elif isinstance(answer, list):
        for one in answer:
            yield from _codes(one)
