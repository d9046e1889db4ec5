"""Runs a command and accounts for all it starts: ``python -I launch.py REPORT COMMAND...``

It makes itself the reaper of orphans (PR_SET_CHILD_SUBREAPER), so no process of the command's tree, daemons included,
ends up elsewhere. When the last one has ended, RUSAGE_CHILDREN therefore holds the CPU time of the whole tree, except
what the kernel attributes to no process (bench/process_tree.py). It is written to the report file with the ids of the
processes reaped here. Standard library only, so that it costs next to nothing itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Exit code: the command's."""
    report, command = sys.argv[1], sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) or libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    child = subprocess.Popen(command, start_new_session=True)

    def forward(number: int, _frame: object) -> None:
        os.killpg(child.pid, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    code = 1
    reaped = []
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        reaped.append(pid)
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(report, "w") as file:
        json.dump({"cpu_seconds": usage.ru_utime + usage.ru_stime, "exit_code": code, "reaped": reaped}, file)
    return code if 0 <= code < 256 else 1


if __name__ == "__main__":
    sys.exit(main())
