"""``python -m demo.verify``: copies are proved, then damaged in thirteen ways, and ``srm-control verify`` names each.

Two real clusters and no Airflow. The damage is real, too: files of a broker are changed while it is down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo import stage
from demo.chapters import Chapters
from demo.ending import signals_as_interrupt
from demo.planting import IN_FILES, LIVE, Gardener, Planting
from demo.producer import TopicWriter
from demo.topics import TOPICS
from srm_common.domain.verification.verification import PartitionVerified, Verdict
from srm_common.errors import SrmError, UnreachableCluster
from srm_common.testing.airflow_client import wait_until
from srm_common.usecases.flows.flow_clusters import clusters_of
from srm_common.usecases.flows.idle_flow import idle_flow

#: Topics of the shop alone, so that what is counted is what was written.
KEYS = """
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
"""
#: Each run is a segment of the offset map, and each burst a batch in it.
RUNS, BURSTS_A_RUN, BURST_SECONDS = 3, 3, 2.0
LIMIT_SECONDS = 180.0
COMPACTED = "profiles"
#: The log cleaner leaves the newest segment of a log alone: how long records go to the same one, at first and later.
_ONE_SEGMENT, _NEXT_SEGMENT = {"segment.ms": "86400000"}, {"segment.ms": "1000"}
_EMERGENCIES = 0
_PROGRAM = Path(sys.executable).with_name("srm-control")
_WIDE = 200
_CONTROL = "import sys; from srm_common.cli.main import main; sys.exit(main())"
_REPORT = stage.FOLDER / "verification.json"


class Story:
    """Tells and does, one chapter after the other. Raises DemoError if something does not go as it should."""

    def __init__(self, clusters: stage.Clusters, console: Console) -> None:
        self._clusters = clusters
        self._console = console
        self._gardener = Gardener(clusters)
        told = Chapters(console)
        self._chapter, self._say, self._show = told.chapter, told.say, told.show
        self._writers: dict[str, TopicWriter] = {}

    def tell(self) -> None:
        self._chapter(
            f"East has the {len(TOPICS)} topics of a shop. A flow copies them to west, in {RUNS} runs, first by Spark."
        )
        self._copy()

        self._chapter("Does west have what east had? The fingerprints in the offset map prove it; east is not read.")
        self._expect(self._verify(), Verdict.PROVED)

        self._chapter(f"West's log cleaner compacts the copy of {COMPACTED}, as the settings of the topic ask for.")
        self._compact()
        self._expect(self._verify("--topic", COMPACTED), Verdict.PARTLY)
        self._say(
            "What a cleaner leaves has no fingerprint: there is no difference, but it is not proved either. The source "
            "can prove it: the newest value of each key is the same on both sides."
        )
        self._expect(self._verify("--against", "source", "--topic", COMPACTED), Verdict.PROVED)

        self._chapter(
            f"West is stopped, {len(IN_FILES)} of its log files are damaged, and it is started again. "
            f"Then {len(LIVE)} more things go wrong. No broker complains."
        )
        places = self._damage()

        self._chapter("What does srm-control verify say?")
        found = self._verify(expected=1)

        self._chapter("How can it be repaired? Nothing is, unless you do it.")
        self._control("repair", "--flow", stage.FLOW, "--plan", expected=1)

        self._sum_up(places, found)

    # ---- inside

    def _copy(self) -> None:
        for topic in TOPICS:
            self._clusters.east.create_topic(topic.name, topic.partitions, config={**topic.config, **_ONE_SEGMENT})
            self._writers[topic.name] = TopicWriter(
                topic, self._clusters.east.bootstrap_servers, log_level=_EMERGENCIES
            )
        for _ in range(RUNS):
            records = sum(writer.burst(BURST_SECONDS) for _ in range(BURSTS_A_RUN) for writer in self._writers.values())
            self._say(f"{records:,} records are written at east")
            self._run()

    def _compact(self) -> None:
        """Another segment of each log begins, and the cleaner takes the first one."""
        east, west, copy = self._clusters.east, self._clusters.west, self._gardener.copy(COMPACTED)
        resource = ConfigResource(ResourceType.TOPIC, COMPACTED)
        for name, value in _NEXT_SEGMENT.items():
            resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        east.admin().incremental_alter_configs([resource])[resource].result(LIMIT_SECONDS)
        partitions = range(next(topic.partitions for topic in TOPICS if topic.name == COMPACTED))
        before = [west.segment_files(copy, number)[0].stat().st_size for number in partitions]
        time.sleep(int(_NEXT_SEGMENT["segment.ms"]) / 1000)
        self._say(f"{self._writers[COMPACTED].burst(BURST_SECONDS):,} more records are written to {COMPACTED} at east")
        self._run()

        def compacted() -> bool:
            files = [west.segment_files(copy, number) for number in partitions]
            return all(some[0].stat().st_size < size for some, size in zip(files, before, strict=True))

        wait_until(compacted, LIMIT_SECONDS, f"west to compact {copy}")

    def _damage(self) -> dict[Planting, str]:
        """Where each fault is."""
        self._writers.clear()
        west = self._clusters.west
        west.stop()
        places = {file: self._gardener.plant(file) for file in IN_FILES}
        west.start()
        with clusters_of(self._clusters.flow) as both:

            def is_up() -> bool:
                try:
                    with idle_flow(both, "west has been down"):
                        return True
                except UnreachableCluster:
                    return False

            wait_until(is_up, LIMIT_SECONDS, "the leaders and coordinators of west to return")
        places |= {one: self._gardener.plant(one) for one in LIVE}
        table = _table("PLANTED", "IN", "AT", "SO THAT")
        for one, where in places.items():
            table.add_row(one.fault, self._name(one), where, one.meaning)
        self._show(table)
        return places

    def _sum_up(self, places: Mapping[Planting, str], found: Sequence[PartitionVerified]) -> None:
        by_place = {(one.topic, one.partition): one for one in found}
        table = _table("PLANTED", "IN", "AT", "VERIFY SAYS", "")
        named = 0
        for one, where in places.items():
            kinds = by_place[one.place].findings.counts if one.place in by_place else {}
            good = one.named in kinds
            named += good
            said = ", ".join(str(kind) for kind in kinds) or "nothing"
            mark = Text("named", "bold green") if good else Text(f"not named: it is {one.named}", "bold red")
            table.add_row(one.fault, self._name(one), where, said, mark)
        sound = [one for place, one in by_place.items() if place not in {one.place for one in places}]
        proved = sum(one.verdict is (Verdict.PARTLY if one.topic == COMPACTED else Verdict.PROVED) for one in sound)
        self._chapter(
            f"{named} of {len(places)} planted faults are found and named; {proved} of {len(sound)} partitions without "
            "any show no difference."
        )
        self._show(table)
        if (named, proved) != (len(places), len(sound)):
            raise stage.DemoError(f"a verification is not what it should be; see {_REPORT}")

    def _expect(self, found: Sequence[PartitionVerified], verdict: Verdict) -> None:
        """Raises DemoError where a partition has another verdict, or none has any."""
        wrong = [one for one in found if one.verdict is not verdict]
        if wrong or not found:
            said = ", ".join(f"{one.copy}-{one.partition} is {one.verdict}" for one in wrong) or "there are no copies"
            raise stage.DemoError(f"not {verdict}: {said}; see {_REPORT}")

    def _verify(self, *arguments: str, expected: int = 0) -> list[PartitionVerified]:
        """Run it for people to read, and take its results from a report."""
        self._control("verify", "--flow", stage.FLOW, *arguments, expected=expected, report=("--report", str(_REPORT)))
        loads = json.loads(_REPORT.read_text())
        return [PartitionVerified.from_json(one) for one in loads["partitions"]]

    def _run(self) -> None:
        """The last line says what was copied; the tables above it are as long as a page."""
        said = self._control("run", "--flow", stage.FLOW, capture=True)
        self._say(said.strip().splitlines()[-1])

    def _control(self, *arguments: str, expected: int = 0, report: Sequence[str] = (), capture: bool = False) -> str:
        """Run ``srm-control``, in a process of its own, as a person would. What it prints goes where we print, unless
        it is captured."""
        told = "srm-control " + " ".join(f'"{argument}"' if ">" in argument else argument for argument in arguments)
        self._say(f"$ {told}", "cyan")
        sys.stdout.flush()
        ended = subprocess.run(
            [sys.executable, "-c", _CONTROL, *arguments, *report],
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.STDOUT if capture else None,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(stage.ROOT),
                "SRM_CONFIG": str(self._clusters.configuration),
                "XDG_DATA_HOME": str(stage.FOLDER / "data"),
            },
            check=False,
        )
        if ended.returncode != expected:
            raise stage.DemoError(
                f"{told} ended with {ended.returncode}, not {expected}: {ended.stdout or 'see above'}"
            )
        return ended.stdout or ""

    def _name(self, one: Planting) -> str:
        return f"{self._gardener.copy(one.topic)}-{one.partition}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column in ("PLANTED", "IN"))
    return table


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.verify", description=__doc__)
    parser.parse_args(arguments)
    # In a pipe, width does not matter.
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    began = time.monotonic()
    try:
        with signals_as_interrupt():
            console.print("starting two Kafka clusters (a few seconds) ...")
            with stage.clusters(more_keys=KEYS) as clusters:
                Story(clusters, console).tell()
                console.print(f"\nThat took {time.monotonic() - began:.0f} s.", highlight=False)
                if console.is_terminal:
                    console.print("Evidence that can be filed, from another terminal:", highlight=False)
                    # No variable, which would still name these clusters when they are gone.
                    command = f'{_PROGRAM} --config {clusters.configuration} verify --flow "{stage.FLOW}"'
                    console.print(f"{command} --report evidence.html", style="cyan", highlight=False, soft_wrap=True)
                    console.print("Ctrl-C ends the demo.")
                    while True:
                        time.sleep(1)
    except KeyboardInterrupt:
        print("the demo has ended")
    except SrmError as error:
        print(f"srm: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
