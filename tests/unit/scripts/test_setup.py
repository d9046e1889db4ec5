"""scripts/setup.sh and scripts/test.sh: quick when nothing changed, and clear about what is missing."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from srm_common.testing.airflow_client import wait_until

ROOT = Path(__file__).parents[3]
# What the script itself calls; the machine of a test has nothing else.
TOOLS = [
    "bash",
    "sh",
    "cat",
    "dirname",
    "sed",
    "head",
    "stat",
    "readlink",
    "sha256sum",
    "pwd",
    "rm",
    "grep",
    "ls",
    "id",
    "mktemp",
    "chmod",
    "sleep",
    "touch",
]


def machine(folder: Path, **programs: str) -> dict[str, str]:
    """Environment of a machine with the basic tools and the given shell scripts as programs."""
    folder.mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (folder / tool).symlink_to(found)
    for name, script in programs.items():
        program = folder / name.replace("_", "-")
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder), "VENV": str(folder / "venv"), "SRM_CACHE": str(folder / "cache")}


def setup(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(shutil.which("bash")), str(ROOT / "scripts/setup.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_what_is_missing_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    done = setup(machine(tmp_path / "bin"))
    assert done.returncode == 1
    assert "missing: python java" in done.stderr
    assert "dnf install" in done.stderr
    assert "Java 17 or newer" in done.stderr


def test_on_debian_without_root_the_commands_are_apts(tmp_path: Path) -> None:
    done = setup(machine(tmp_path / "bin", apt_get="exit 9", id="echo 1000"))
    assert done.returncode == 1
    assert "sudo apt-get install -y python3 python3-venv" in done.stderr
    assert "sudo apt-get install -y openjdk-17-jre-headless" in done.stderr


def test_on_debian_as_root_it_is_installed(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    done = setup(
        machine(
            tmp_path / "bin",
            apt_get=f'echo "apt-get $*" >> {calls}',
            apt_cache="case $2 in python3) echo '  Candidate: 3.11.2-1' ;; *) echo '  Candidate: 17.0.1' ;; esac",
            id="echo 0",
        )
    )
    assert done.returncode == 1  # this apt-get only pretends
    assert "still no Python 3.11 to 3.13 with venv" in done.stderr
    update, install = calls.read_text().splitlines()
    assert update == "apt-get update -q"
    assert {"python3", "python3-venv", "openjdk-17-jre-headless"} <= set(install.split())


@pytest.mark.parametrize(
    ("offered", "packages"),
    [
        ("python3 python3.11", "python3.11 python3.11-venv"),
        ("python3 python3.12 python3.13", "python3.12 python3.12-venv"),
    ],
)
def test_on_a_debian_whose_python3_does_not_fit_another_is_taken(tmp_path: Path, offered: str, packages: str) -> None:
    calls = tmp_path / "calls"
    apt_cache = (
        f"""case " {offered} " in *" $2 "*) echo "  Candidate: 3.10.6-1" ;; *) echo "  Candidate: (none)" ;; esac"""
    )
    apt_get = f'echo "$*" >> {calls}'
    said = setup(machine(tmp_path / "user", apt_get=apt_get, apt_cache=apt_cache, id="echo 1000")).stderr
    assert f"sudo apt-get install -y {packages}\n" in said
    setup(machine(tmp_path / "root", apt_get=apt_get, apt_cache=apt_cache, id="echo 0"))
    assert f" {packages} " in calls.read_text()


def test_on_a_debian_without_a_python_that_fits_it_says_so(tmp_path: Path) -> None:
    apt_cache = "[ $2 != python3 ] || echo '  Candidate: 3.14.0-1'"
    for who in ("1000", "0"):
        done = setup(machine(tmp_path / who, apt_get="exit 0", apt_cache=apt_cache, id=f"echo {who}"))
        assert done.returncode == 1
        assert "no package of Python 3.11 to 3.13; install one otherwise, and set PYTHON=" in done.stderr


@pytest.mark.parametrize(("words", "fits"), [('openjdk version "11.0.2"', False), ('openjdk version "21.0.2"', True)])
def test_an_old_java_counts_as_missing(tmp_path: Path, words: str, fits: bool) -> None:
    done = setup(machine(tmp_path / "bin", java=f"echo '{words}' >&2"))
    assert done.returncode == 1
    assert ("missing: python\n" if fits else "missing: python java\n") in done.stderr


def test_java_home_without_java_is_named(tmp_path: Path) -> None:
    """Spark takes it as it is, so that there is a Java on the PATH does not help."""
    there = machine(tmp_path / "bin", java="echo 'openjdk version \"17.0.1\"' >&2", python3="exit 0")
    done = setup(there | {"JAVA_HOME": "/no/java"})
    assert done.returncode == 1
    assert done.stderr == "setup: JAVA_HOME is /no/java, where there is no bin/java; correct or unset it\n"


def test_a_browser_is_for_tests_only_and_its_lack_stops_nothing(tmp_path: Path) -> None:
    bare = machine(tmp_path / "bare", apt_get="exit 9", id="echo 1000")
    assert "Chromium" not in setup(bare).stderr
    said = setup(bare, "--tests").stderr
    assert "sudo apt-get install -y --no-install-recommends chromium" in said
    assert "missing: python java" in said, "it goes on with the rest"

    assert "is /no/chrome, and no program" in setup(bare | {"SRM_CHROMIUM": "/no/chrome"}, "--tests").stderr
    equipped = machine(tmp_path / "equipped", chromium="exit 0", apt_get="exit 9", id="echo 1000")
    assert "Chromium" not in setup(equipped, "--tests").stderr


def test_on_debian_as_root_the_browser_is_installed(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    root = machine(tmp_path / "bin", apt_get=f'echo "apt-get $*" >> {calls}', apt_cache="exit 0", id="echo 0")
    setup(root, "--tests")
    installed = [call for call in calls.read_text().splitlines() if " install " in call]
    assert "chromium" in installed[0].split()
    assert "fonts-inter" in installed[0].split(), "without a font there is no text to see"


def test_all_that_tests_need_is_named_with_what_installs_it(tmp_path: Path) -> None:
    said = setup(machine(tmp_path / "bare"), "--tests").stderr
    for what in ("Chromium", "Prometheus with promtool", "Java compiler", "Docker Compose 2"):
        assert f"setup: no {what}: the tests that need it are skipped. Install it:\nsetup:   " in said
    old = "echo '  Candidate: 1.29.2-3'"
    debian = machine(tmp_path / "debian", apt_get="exit 9", id="echo 1000", apt_cache=old, docker_compose="echo 1.29.2")
    said = setup(debian, "--tests").stderr
    assert "sudo apt-get install -y --no-install-recommends prometheus\n" in said
    assert "https://docs.docker.com/compose/install/" in said, "version 1 does not do"
    new = machine(tmp_path / "new", apt_get="exit 9", id="echo 1000", apt_cache="echo '  Candidate: 2.26.1-4'")
    assert "--no-install-recommends docker-compose-v2\n" in setup(new, "--tests").stderr
    server = "echo prometheus, version 2.42.0"
    equipped = machine(tmp_path / "equipped", docker_compose="echo 2.26.1", promtool="", prometheus=server, javac="")
    said = setup(equipped, "--tests").stderr
    assert "Compose" not in said
    assert "Prometheus" not in said
    no_server = machine(tmp_path / "no-server", promtool="", prometheus="")
    assert "Prometheus" in setup(no_server, "--tests").stderr, "the script of its service has its name"
    assert "compiler" not in said


def test_of_packages_with_services_only_the_programs_are_taken(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    setup(machine(tmp_path / "bin", apt_get=f'echo "$*" >> {calls}', apt_cache="exit 0", id="echo 0"), "--tests")
    asked = calls.read_text().splitlines()
    assert asked.count("update -q") == 2, "once for these, once for Python and Java"
    assert any(one.startswith("download") and one.endswith(" prometheus") for one in asked)
    assert not [one for one in asked if one.startswith("install") and "prometheus" in one]


def test_packages_for_tests_come_while_the_environment_is_made(tmp_path: Path) -> None:
    """Each of the two waits for the other to begin, and where the environment fails, packages are installed first."""
    at = tmp_path / "at"
    at.mkdir()
    environment = machine(
        tmp_path / "bin",
        apt_get=f'touch {at}/packages; while [ ! -e {at}/environment ]; do sleep 0.05; done; echo "apt-get $*"',
        apt_cache="exit 0",
        id="echo 0",
        java="echo 'openjdk version \"17.0.1\"' >&2",
        python3=f"""case "$*" in
            '-m venv'*) touch {at}/environment; while [ ! -e {at}/packages ]; do sleep 0.05; done; exit 3 ;;
        esac""",
    )
    done = setup(environment, "--tests")
    assert done.returncode == 3
    assert done.stderr.index("creating") < done.stderr.index("apt-get update -q")
    assert "--no-install-recommends chromium" in done.stderr


@pytest.mark.parametrize(("pip", "said"), [("exit 1", "creating"), ("exit 0", "bringing")])
def test_an_environment_whose_making_was_cut_off_is_made_anew(tmp_path: Path, pip: str, said: str) -> None:
    """``python -m venv`` puts the interpreter there first, and pip seconds later."""
    java = "echo 'openjdk version \"17.0.1\"' >&2"
    environment = machine(tmp_path / "bin", java=java, python3="case $* in '-m venv'*) exit 3 ;; esac", sleep="exit 0")
    python = tmp_path / "bin/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ncase $* in '-m pip --version') {pip} ;; '-m pip'*) exit 1 ;; esac\n")
    python.chmod(0o755)
    assert f"setup: {said} {tmp_path}/bin/venv" in setup(environment).stderr


def with_environment(folder: Path, python: str) -> dict[str, str]:
    """A machine with an environment, in which all succeeds but for what ``python`` does with its arguments ``$*``."""
    java = "echo 'openjdk version \"17.0.1\"' >&2"
    there = machine(folder, java=java, sleep="exit 0", mkdir=f'exec {shutil.which("mkdir")} "$@"', mv="exit 0")
    (folder / "cache/wheels").mkdir(parents=True)
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.startswith("pyspark=="):
            (folder / f"cache/wheels/pyspark-{line.partition('==')[2]}-py2.py3-none-any.whl").touch()
    (folder / "venv/bin").mkdir(parents=True)
    program = folder / "venv/bin/python"
    program.write_text(f"#!/bin/sh\ncase $* in {python} esac\n")
    program.chmod(0o755)
    return there


def test_macos_has_other_tools(tmp_path: Path) -> None:
    """Its stat has other options, and it may have no sha256sum."""
    there = with_environment(tmp_path / "bin", "'-c from srm_common'*) echo /dev/null ;;")
    (tmp_path / "bin/sha256sum").unlink()
    for tool, script in (("stat", '[ "$2" = -f ] && echo 1 2'), ("shasum", "cat > /dev/null; echo checksum")):
        (tmp_path / "bin" / tool).unlink(missing_ok=True)
        (tmp_path / "bin" / tool).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    there["SRM_SETUP_KAFKA"] = "0"
    done = setup(there)
    assert (done.returncode, done.stderr) == (0, f"setup: bringing {tmp_path}/bin/venv up to date\n")
    assert (tmp_path / "bin/venv/.setup-stamp").read_text() == "checksum\n"
    assert (tmp_path / "bin/venv/.java-stamp").read_text().endswith(" 1 2")
    assert (setup(there).returncode, setup(there, "--check").returncode) == (0, 0)


def test_no_empty_array_is_read_as_bash_3_cannot() -> None:
    """With ``set -u``, it takes one for a variable that is not set."""
    text = (ROOT / "scripts/test.sh").read_text()
    maybe_empty = set(re.findall(r"\b(\w+)=\(\)", text)) - {"summary", "skipped"}  # read where there is something
    assert {"rings", "lanes", "before"} <= maybe_empty
    for name in (*maybe_empty, "beside"):
        for use in re.finditer(rf'"\$\{{{name}\[[@*]\](-?)\}}"', text):
            assert use[1] or text[: use.start()].endswith(f"${{{name}[@]+"), name
    assert "BASHPID" not in text


def test_jars_that_cannot_be_fetched_fail_with_the_ways_to_get_them(tmp_path: Path) -> None:
    there = with_environment(tmp_path / "bin", "'-m srm_common.testing fetch'*) echo no way out >&2; exit 2 ;;")
    done = setup(there)
    assert done.returncode == 1
    assert "no way out\nsetup: the jars of kafka " in done.stderr
    assert "SRM_IVY_SETTINGS" in done.stderr
    assert "HTTPS_PROXY" in done.stderr


def test_a_cache_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    there = with_environment(tmp_path / "bin", "")
    done = setup(there | {"SRM_CACHE": "/dev/null/cache"})
    assert done.returncode == 1
    assert (
        "setup: /dev/null/cache, where downloads are kept for all clones, cannot be written to; set SRM_CACHE"
        in done.stderr
    )


@pytest.mark.parametrize("folder", ["kept", "nowhere"])
def test_classes_are_not_kept_where_nothing_can_be(tmp_path: Path, folder: str) -> None:
    """A cache may be shared for reading; what cannot be kept would be made again at each ``make``."""
    (tmp_path / "kept").mkdir()
    there = with_environment(tmp_path / "bin", f"'-c from srm_common'*) echo {tmp_path}/{folder}/spark.jsa ;;")
    (tmp_path / "bin/venv/bin/srm-control").symlink_to("python")
    for kind in ("kafka", "mirror-maker", "tools", "tiered"):
        (tmp_path / "bin/cache" / kind / "9.9.9").mkdir(parents=True)
        (tmp_path / "bin/cache" / kind / "9.9.9/.complete.json").touch()
    done = setup(there | {"SRM_KAFKA_VERSION": "9.9.9"})
    assert done.returncode == 0
    assert ("keeping the classes of Spark" in done.stderr) == (folder == "kept")


def test_a_second_run_is_quick() -> None:
    if subprocess.run([ROOT / "scripts/setup.sh", "--check"], timeout=300).returncode != 0:
        pytest.skip("the set-up is not current; make setup")
    environment = {**os.environ, "SRM_SETUP_KAFKA": "0"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([ROOT / "scripts/setup.sh"], check=True, env=environment, capture_output=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout + done.stderr == b"", "it says what it does"
    # Of processor time, which is the same on a busy machine; pip alone would need more to find that all is there.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3


def test_an_unknown_ring_is_refused() -> None:
    done = subprocess.run([ROOT / "scripts/test.sh", "nonsense"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "there is no ring 'nonsense'" in done.stderr
    assert "rings: lint unit simulation smoke store kafka spark airflow browser faults worlds soak" in done.stderr


def rings(folder: Path, *names: str, **programs: str) -> tuple[int, list[str]]:
    """What scripts/test.sh comes to with these programs: its exit code, and its summary."""
    (folder / "bin").mkdir()
    for name, script in programs.items():
        program = folder / "bin" / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\necho {name} >> {folder}/calls\n{script}\n")
        program.chmod(0o755)
    environment = {**os.environ, "VENV": str(folder)}
    done = subprocess.run(
        [ROOT / "scripts/test.sh", *names], capture_output=True, text=True, env=environment, timeout=300
    )
    summary = done.stdout.partition("== summary")[2].strip().splitlines()
    return done.returncode, [" ".join(line.split()[:2]) for line in summary]


def test_a_ring_that_fails_fails_the_whole_and_the_others_still_run(tmp_path: Path) -> None:
    python = "echo '1 failed, 2 passed in 3s'; exit 3"
    code, summary = rings(tmp_path, "lint", "kafka", ruff="exit 1", mypy="", lint_imports="", python=python)
    assert code == 1
    assert (tmp_path / "calls").read_text().split() == ["ruff", "ruff", "mypy", "lint_imports", "python", "python"]
    assert summary == ["ruff FAILED", "format FAILED", "mypy ok", "imports ok", "dependencies FAILED", "kafka FAILED"]


def test_rings_after_a_plus_run_beside_the_others(tmp_path: Path) -> None:
    """The first ring of each lane waits for those of the others."""
    python = f"""
    for word in "$@"; do case $word in tests/*) name=${{word#tests/}};; esac; done
    touch {tmp_path}/$name; nice > {tmp_path}/$name.nice
    while [ ! -e {tmp_path}/kafka ] || [ ! -e {tmp_path}/airflow ] || [ ! -e {tmp_path}/unit ]; do sleep 0.05; done
    echo '1 passed in 1s'"""
    code, summary = rings(tmp_path, "kafka", "faults", "+", "airflow", "store", "+", "unit", "spark", python=python)
    assert (code, summary) == (
        0,
        ["kafka ok", "faults ok", "airflow ok", "store ok", "unit ok", "spark ok"],
    )
    priorities = {
        ring: (tmp_path / f"{ring}.nice").read_text().strip() for ring in ("kafka", "airflow", "unit", "spark")
    }
    usual = priorities["kafka"]
    assert priorities == {"kafka": usual, "airflow": usual, "unit": "19", "spark": usual}


def test_an_end_from_outside_ends_all_lanes(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f"#!/bin/bash\ntrap 'kill $!; exit 2' INT\necho $$ >> {tmp_path}/pids\nsleep 300 & wait\n")
    python.chmod(0o755)
    environment = {**os.environ, "VENV": str(tmp_path)}
    command = [str(ROOT / "scripts/test.sh"), "kafka", "+", "airflow", "+", "unit"]
    with subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL) as script:
        pids = tmp_path / "pids"
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 3, 300, "all rings")
        os.killpg(script.pid, signal.SIGINT)
    for pid in pids.read_text().split():
        wait_until(partial(_gone, pid), 60, f"the end of {pid}")


def _gone(pid: str) -> bool:
    return not Path("/proc", pid).exists()


def test_what_did_not_run_is_named_last(tmp_path: Path) -> None:
    reason = "SKIPPED [2] tests/store/test_postgres.py:30: no PostgreSQL server; scripts/setup.sh --tests installs it"
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f"#!/bin/sh\necho '{reason}'\necho '2 skipped in 1s'\n")
    python.chmod(0o755)
    environment = {**os.environ, "VENV": str(tmp_path)}
    done = subprocess.run(
        [ROOT / "scripts/test.sh", "store"], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0
    assert done.stdout.rpartition("== not run, and what would make them run\n")[2].split(maxsplit=2) == [
        "store",
        "[2]",
        reason.partition("] ")[2] + "\n",
    ]


def test_make_explains_itself() -> None:
    done = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, timeout=300)
    for target in ("setup", "demo", "demo-stop", "test", "lint", "bench", "soak"):
        assert f"make {target} " in done.stdout
