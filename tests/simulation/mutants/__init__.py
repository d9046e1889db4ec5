"""Places that exactly-once depends on, each switched off in turn: what the simulation must notice."""

from __future__ import annotations

import importlib.util
import sys

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.reading import READING
from tests.simulation.mutants.runs import RUNS
from tests.simulation.mutants.transactions import TRANSACTIONS

MUTANTS = (*TRANSACTIONS, *READING, *RUNS)


def become(number: int) -> Mutant:
    """Let this process, which has imported nothing of the product yet, be a mutant of it."""
    mutant = MUTANTS[number]
    source = mutant.source()
    if source.count(mutant.before) != 1:
        raise SystemExit(f"mutant {number} ({mutant.name}): its place occurs {source.count(mutant.before)} times")
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[mutant.module] = module
    exec(compile(source.replace(mutant.before, mutant.after), str(mutant.path()), "exec"), module.__dict__)
    parent, _, name = mutant.module.rpartition(".")
    setattr(sys.modules[parent], name, module)
    return mutant
