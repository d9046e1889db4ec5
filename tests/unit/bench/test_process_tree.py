import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench import launch
from bench.process_tree import ProcessTree, ignores_children, parse_memory, parse_stat

TICKS = os.sysconf("SC_CLK_TCK")
#: A little more than is asked for below: the kernel counts in ticks of a hundredth of a second.
BURN = "import time\nend = time.process_time() + 0.45\nwhile time.process_time() < end: pass"


def test_stat_counts_own_time_and_that_of_children_waited_for() -> None:
    fields = ["S", "1", *["0"] * 9, str(TICKS), str(2 * TICKS), str(3 * TICKS), str(4 * TICKS), "20", "0"]
    assert parse_stat(f"4711 (a (strange) name) {' '.join(fields)}") == 10.0


def test_memory_is_the_proportional_set_size() -> None:
    assert parse_memory("00400000-7ff rollup\nRss:   900 kB\nPss:   300 kB\nPss_Dirty: 20 kB\n") == 300 * 1024
    assert parse_memory("") == 0


def test_the_launcher_accounts_for_daemons_that_left_their_parent(tmp_path: Path) -> None:
    report = tmp_path / "usage.json"
    daemon = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {BURN!r}], start_new_session=True)"
    done = subprocess.run([sys.executable, "-I", launch.__file__, str(report), sys.executable, "-c", daemon])
    assert done.returncode == 0
    loads = json.loads(report.read_text())
    assert loads["exit_code"] == 0
    assert loads["cpu_seconds"] >= 0.4


def test_the_launcher_passes_the_exit_code_on(tmp_path: Path) -> None:
    report = tmp_path / "usage.json"
    done = subprocess.run([sys.executable, "-I", launch.__file__, str(report), sys.executable, "-c", "exit(7)"])
    assert done.returncode == 7
    assert json.loads(report.read_text())["exit_code"] == 7


def test_time_of_children_that_came_and_went_is_not_lost() -> None:
    parent = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\nprint('x', flush=True)\ninput()"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with ProcessTree(process.pid, memory_interval_seconds=0.05) as tree:
            assert tree.cpu_seconds() >= 0.4
            assert tree.memory_bytes() > 1_000_000
        process.communicate(b"\n")
    assert tree.peak_bytes > 1_000_000
    assert tree.memory_bytes() == 0
    assert tree.cpu_seconds() >= 0.4, "what was seen once is not forgotten"


def test_a_parent_that_ignores_its_children_is_recognised() -> None:
    assert ignores_children("Name:\tx\nSigIgn:\t0000000000011000\n")  # 17 is SIGCHLD
    assert not ignores_children("Name:\tx\nSigIgn:\t0000000000001000\n")


def test_time_of_children_that_the_kernel_reaps_is_kept(tmp_path: Path) -> None:
    parent = (
        "import signal, subprocess, sys, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', {BURN + chr(10) + 'input()'!r}]).wait()"
    )
    report = tmp_path / "usage.json"
    command = [sys.executable, "-I", launch.__file__, str(report), sys.executable, "-c", parent]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as process,
        ProcessTree(process.pid, without_root=True, memory_interval_seconds=0.05, cpu_interval_seconds=0.05) as tree,
    ):
        # It lives until it was looked at.
        while tree.cpu_seconds() < 0.4:
            time.sleep(0.05)
        process.communicate(b"\n")
    charged = json.loads(report.read_text())["cpu_seconds"]
    assert charged < 0.4, "that of the parent alone"
    assert tree.uncharged_seconds() >= 0.39
