"""``make fuzz MINUTES=20 [TARGET=repack]``, or ``python -m tests.fuzz TARGET FILE`` for one input."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz import campaign

_FOLDER = Path("test-logs/fuzz")


def main() -> int:
    """The code to exit with: 1 after findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", help="one of them; all without")
    parser.add_argument("file", nargs="?", type=Path, help="one input to read")
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together, of one core")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is random")
    parser.add_argument("--random", action="store_true", help="without atheris")
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)  # the process of one target
    asked = parser.parse_args()
    if asked.file is not None:
        from tests.fuzz.targets import TARGETS

        campaign.warm_up(TARGETS[asked.target])
        print("it is read" if TARGETS[asked.target].accepts(asked.file.read_bytes()) else "it is refused")
        return 0
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if asked.seconds is not None:
        if campaign.has_atheris() and not asked.random:
            campaign.by_coverage(asked.target, max(1, int(asked.seconds)), asked.seed, _FOLDER)
        return campaign.at_random(asked.target, asked.seconds, asked.seed, _FOLDER) > 0
    from tests.fuzz.targets import TARGETS

    names = [asked.target] if asked.target else list(TARGETS)
    seconds = asked.minutes * 60 / len(names)
    print(f"{len(names)} targets, {seconds:.0f} s each, --seed {asked.seed}", flush=True)
    failed = [name for name in names if not _run(name, seconds, asked)]
    print(f"findings in: {', '.join(failed)}; inputs are in {_FOLDER}" if failed else "no findings")
    return bool(failed)


def _run(name: str, seconds: float, asked: argparse.Namespace) -> bool:
    command = [sys.executable, "-m", "tests.fuzz", name, f"--seconds={seconds}", f"--seed={asked.seed}"]
    command += ["--random"] * asked.random
    try:
        # Twenty times the seconds: other processes may have the cores.
        done = subprocess.run(command, timeout=20 * seconds + 300, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        print(f"{name}: does not end; its last input is in {_FOLDER / f'{name}.last'}", flush=True)
        return False
    told = [line for line in done.stdout.splitlines() if "INFO" not in line]
    told += [line for line in done.stderr.splitlines() if done.returncode or "number_of_executed_units" in line]
    print(
        "\n".join([f"{name}:", *told[-40:]]) if done.returncode or len(told) != 1 else f"{name}: {told[0]}", flush=True
    )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
