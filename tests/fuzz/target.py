"""A decoder under fuzz: what it reads, and how it may say that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests.fuzz.limits import MOST_BYTES, limits
from tests.fuzz.mutation import mutated


def as_it_is(data: bytes, _chance: Random) -> bytes:
    """For formats without anything that has to fit the rest."""
    return data


@dataclass(frozen=True)
class Target:
    """``name``: for reports and the command line.

    ``seeds``: real inputs, which are read without an error. ``read``: reads one; asserts what must hold of what it
    read. ``named``: the errors that it may raise. ``fitted``: makes checksums and lengths fit a changed input, mostly,
    so that what lies behind them is reached. ``keep``: bytes at the beginning that mostly stay. ``most_bytes``: of
    memory for one input.
    """

    name: str
    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    named: tuple[type[Exception], ...]
    fitted: Callable[[bytes, Random], bytes] = as_it_is
    keep: int = 0
    most_bytes: int = MOST_BYTES

    def changed(self, data: bytes, chance: Random) -> bytes:
        """One more input, made of ``data``."""
        return self.fitted(mutated(chance, data, self.seeds, self.keep), chance)

    def input(self, chance: Random) -> bytes:
        """One more input, made of a seed."""
        return self.changed(chance.choice(self.seeds), chance)

    def warm_up(self) -> None:
        """Read the seeds: what is imported and compiled for the first of them is no cost of an input."""
        for seed in self.seeds:
            with suppress(*self.named):
                self.read(seed)

    def accepts(self, data: bytes) -> bool:
        """Whether ``data`` was read; False where a named error says that it cannot be.

        Raises:
            Exception: any other error: a finding.
            TookTooLong, MemoryError: beyond the limits of one input: a finding, too.
        """
        try:
            with limits(self.most_bytes):
                self.read(data)
        except self.named:
            return False
        return True
