"""Which refusals of the fake cluster a run of pytest has seen: ``pytest -p tests.contract.answered --answered FILE``.

The file has JSON: the places in the fake's source that have refused something, and the error codes of answers by API.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from srm_common.testing import fake_cluster
from srm_common.testing.fake_cluster.messages import Answer, Call, Protocol, Refused

_FOLDER = Path(fake_cluster.__file__).parent
_CODES = ("error_code", "partition_error_code")


class Site(NamedTuple):
    """A ``Refused(...)`` in the fake's source, by what stays when lines move."""

    module: str
    function: str
    code: str
    #: The how-manieth of the function with this code.
    number: int


class Answered(NamedTuple):
    """What a run has seen."""

    sites: set[Site]
    #: API and code.
    pairs: set[tuple[str, int]]
    #: The APIs that the fake has answers to.
    served: set[str]

    @classmethod
    def read(cls, path: Path) -> Answered:
        loads = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            {Site(*one) for one in loads["sites"]}, {(api, code) for api, code in loads["pairs"]}, set(loads["served"])
        )


def sites() -> dict[tuple[str, int], Site]:
    """All places where the fake refuses something, by module and line."""
    found = {}
    for path in sorted(_FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
        for function in functions:
            counts: Counter[str] = Counter()
            calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
            for call in sorted(calls, key=lambda one: one.lineno):
                if isinstance(call.func, ast.Name) and call.func.id == Refused.__name__:
                    code = ast.unparse(call.args[0]).removeprefix("_")
                    counts[code] += 1
                    found[path.stem, call.lineno] = Site(path.stem, function.name, code, counts[code])
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--answered", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    known = sites()
    seen = Answered(set(), set(), set())
    config.stash[_SEEN] = seen
    init, write = Refused.__init__, Protocol.write

    def noted(self: Refused, code: int, message: str | None = None) -> None:
        frame = sys._getframe(1)
        place = (Path(frame.f_code.co_filename).stem, frame.f_lineno)
        if Path(frame.f_code.co_filename).parent == _FOLDER:
            seen.sites.add(known[place])
        init(self, code, message)

    def written(self: Protocol, call: Call, correlation_id: int, answer: Answer) -> bytes:
        seen.served.update(self.versions)
        seen.pairs.update((call.api, code) for code in _codes(answer))
        return write(self, call, correlation_id, answer)

    Refused.__init__ = noted  # type: ignore[method-assign]
    Protocol.write = written  # type: ignore[method-assign]


def pytest_sessionfinish(session: pytest.Session) -> None:
    seen = session.config.stash[_SEEN]
    text = json.dumps({"sites": sorted(seen.sites), "pairs": sorted(seen.pairs), "served": sorted(seen.served)})
    session.config.getoption("--answered").write_text(text, encoding="utf-8")


_SEEN = pytest.StashKey[Answered]()


def _codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key in _CODES:
                yield value
            else:
                yield from _codes(value)
    elif isinstance(answer, list):
        for one in answer:
            yield from _codes(one)
