"""Fuzzes one target in this process: by coverage with atheris where it is installed, else at random.

An input that is read neither nor refused is written to a file, which ``python -m tests.fuzz TARGET FILE`` reads again.
"""

from __future__ import annotations

import faulthandler
import importlib
import sys
import tempfile
import time
import traceback
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import srm_common
from tests.fuzz.limits import TookTooLong

#: For libFuzzer, behind the limits of one input: where a parser does not hear of them.
_MOST_SECONDS, _MOST_MEGABYTES = 30, 4096
_LOOPS = Path(srm_common.__file__).parent / "wire" / "reencoding"
#: Compiled by numba, which does not take instructions that count.
_COMPILED = [
    f"srm_common.wire.reencoding.{file.stem}"
    for file in sorted(_LOOPS.glob("*.py"))
    if file.stem == "machine_code" or "@compiled" in file.read_text(encoding="utf-8")
]


def warm_up(target: Any) -> None:
    """Load the compiled loops, and read the target's seeds."""
    # Not before: what is imported from here on is counted.
    from srm_common.wire.reencoding import merging

    merging.load()
    target.warm_up()


def at_random(name: str, seconds: float, seed: int, folder: Path) -> int:
    """Returns how many kinds of findings there are; prints them and the number of runs."""
    target = importlib.import_module("tests.fuzz.targets").TARGETS[name]
    warm_up(target)
    faulthandler.enable()
    chance, end, runs, taken = Random(seed), time.process_time() + seconds, 0, 0
    found: dict[tuple[str, str], str] = {}
    # Whoever looks after this process finds here what ended it.
    last = folder / f"{name}.last"
    with last.open("wb", buffering=0) as stream:
        while time.process_time() < end:
            data = target.input(chance)
            runs += 1
            stream.seek(0)
            stream.truncate()
            stream.write(data)
            try:
                taken += target.accepts(data)
            except (Exception, TookTooLong) as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                kind = type(error).__name__, f"{place.filename}:{place.lineno}"
                if kind not in found:
                    found[kind] = repr(error)[:200]
                    (folder / f"{name}.{len(found)}").write_bytes(data)
    last.unlink()
    print(f"{name}: {runs} runs, of which {taken} were read, {len(found)} findings", flush=True)
    for number, (kind, text) in enumerate(found.items(), 1):
        print(f"    {folder / f'{name}.{number}'}: {' at '.join(kind)}: {text}", flush=True)
    return len(found)


def by_coverage(name: str, seconds: int, seed: int, folder: Path) -> None:
    """libFuzzer ends the process itself, by a code of its own after a finding, and prints how many runs there were."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["srm_common"], exclude=_COMPILED):
        target = importlib.import_module("tests.fuzz.targets").TARGETS[name]
        warm_up(target)

    def change(data: bytes, most: int, number: int) -> bytes:
        chance = Random(number)
        if chance.random() < 0.1:
            return bytes(target.fitted(atheris.Mutate(data, most), chance)[:most])
        return bytes(target.changed(data, chance)[:most])

    with tempfile.TemporaryDirectory() as corpus:
        for number, one in enumerate(target.seeds):
            (Path(corpus) / str(number)).write_bytes(one)
        options = [f"-max_total_time={seconds}", f"-timeout={_MOST_SECONDS}", f"-rss_limit_mb={_MOST_MEGABYTES}"]
        options += [f"-seed={seed}", f"-artifact_prefix={folder / name}.", "-max_len=262144", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *options, corpus], target.accepts, custom_mutator=change)
        atheris.Fuzz()


def has_atheris() -> bool:
    """Whether inputs can be chosen by what they reach."""
    return find_spec("atheris") is not None
