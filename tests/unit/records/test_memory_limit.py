"""What a user's code may take: of the machine, and of the container around the slot."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

import pytest

from srm_common.records.memory_limit import free_bytes, limited_memory

MIB = 1 << 20


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    write(tmp_path / "proc", meminfo="MemTotal:  9000 kB\nMemAvailable:  4096 kB\nHugePages_Total: 0\n")
    write(tmp_path / "proc/self", cgroup="0::/user.slice/job\n")
    return tmp_path / "proc"


def test_of_a_machine_what_is_available(proc: Path, tmp_path: Path) -> None:
    assert free_bytes(proc, tmp_path / "none") == 4 * MIB
    write(tmp_path / "group/user.slice/job", memory__max="max\n", memory__current="5\n")
    assert free_bytes(proc, tmp_path / "group") == 4 * MIB
    assert free_bytes(tmp_path / "other", tmp_path / "group") is None


@pytest.mark.parametrize("folder", ["group/user.slice/job", "group"])
def test_of_a_container_what_it_has_left_and_could_drop(proc: Path, tmp_path: Path, folder: str) -> None:
    stat = f"anon 7\ninactive_file {MIB}\nfile_mapped 3\n"
    write(tmp_path / folder, memory__max=f"{9 * MIB}", memory__current=f"{8 * MIB}\n", memory__stat=stat)
    assert free_bytes(proc, tmp_path / "group") == 2 * MIB


def test_of_containers_by_the_first_version_of_cgroups(proc: Path, tmp_path: Path) -> None:
    older = tmp_path / "group/memory"
    write(older, memory__limit_in_bytes=f"{9 * MIB}", memory__usage_in_bytes=f"{8 * MIB}")
    assert free_bytes(proc, tmp_path / "group") == MIB
    write(older, memory__limit_in_bytes="9223372036854771712")
    assert free_bytes(proc, tmp_path / "group") == 4 * MIB


def test_the_limit_is_there_until_the_last_one_has_left() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with limited_memory():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with limited_memory() as allowed:
        thread.start()
        assert entered.wait(60)
        limit, hard = resource.getrlimit(resource.RLIMIT_AS)
        assert (limit > allowed >= 512 * MIB, hard) == (True, before[1])
    assert resource.getrlimit(resource.RLIMIT_AS) == (limit, hard)
    leave.set()
    thread.join(60)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
