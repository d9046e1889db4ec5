"""The file system of one node of three becomes read-only, as after an error of its disk, and is repaired later."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from tests.faults.run import PATIENCE, Run
from tests.faults.scenario import Scenario, survive
from tests.kafka.records import eventually

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.soak]

#: The node that has it.
NODE = 2


class Disk:
    """An ext4 file system in a file, mounted at ``place`` (Linux, as root)."""

    def __init__(self, image: Path, place: Path) -> None:
        self._image, self._place = image, place
        with image.open("wb") as file:
            file.truncate(1 << 30)
        place.mkdir(parents=True)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        self._mount()
        # Kafka takes each folder there for a partition's.
        (place / "lost+found").rmdir()

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self._image), str(self._place)], check=True, capture_output=True)

    def fail(self) -> None:
        """What the kernel does after an error of the disk: the file system takes no more, and what was not yet written
        to the disk is lost."""
        subprocess.run(["mount", "-o", "remount,abort", str(self._place)], check=True, capture_output=True)

    def repair(self) -> None:
        self.close()
        checked = subprocess.run(["e2fsck", "-f", "-y", str(self._image)], check=False, capture_output=True, text=True)
        # 1: errors were corrected (e2fsck(8)).
        assert checked.returncode in (0, 1), checked.stdout
        self._mount()
        if (found := self._place / "lost+found").exists():
            shutil.rmtree(found)

    def close(self) -> None:
        subprocess.run(["umount", str(self._place)], check=True)


@pytest.fixture(params=["source", "target"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LocalKafka, LocalKafka, LocalKafka, Disk]]:
    """Source, target, and the one of them that has three nodes, one of them on a disk of its own."""
    folder = tmp_path / request.param
    with ExitStack() as stack:
        try:
            disk = Disk(tmp_path / "disk", folder / f"node-{NODE}" / "data")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"a file system cannot be mounted here (needs root): {error}")
        stack.callback(disk.close)
        broken = stack.enter_context(LocalKafka(nodes=3, name=request.param, directory=folder))
        other = stack.enter_context(LocalKafka(name="other"))
        yield (*((broken, other) if request.param == "source" else (other, broken)), broken, disk)


def test_the_disk_of_a_node_becomes_read_only(
    stage: tuple[LocalKafka, LocalKafka, LocalKafka, Disk], scenario: Callable[..., Scenario]
) -> None:
    """The node ends; the run goes on with the other two, and when the node is back without its last records."""
    source, target, broken, disk = stage

    def fail(one: Scenario, run: Run) -> None:
        disk.fail()
        eventually(lambda: not broken.running(NODE), PATIENCE, "the node goes on without a disk")
        before = one.copied_offsets()
        one.wait_for_copied(run, before + 1)
        one.note(f"goes on without node {NODE}")
        disk.repair()
        broken.restart(NODE)

    survive(scenario(source, target), fail)
