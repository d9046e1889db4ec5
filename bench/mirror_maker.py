"""The other side: MirrorMaker 2 with the best settings we know for bulk copying."""

from __future__ import annotations

from pathlib import Path

from bench.process_tree import ProcessTree
from bench.sides import Clusters, Flow, flow_properties
from srm_common.testing import LocalMirrorMaker, ReservedPort

_POLL_BYTES = 4 << 20


def mirror_maker_properties(flow: Flow, source_servers: str, target_servers: str, rest_port: int) -> dict[str, str]:
    """``mm2.properties`` of one flow.

    Where a key stands matters: worker and data producer settings count at target level, consumer settings at source
    level, transaction boundaries at flow level; elsewhere they are ignored without a word (KIP-382, KIP-710).
    """
    source, target = flow.alias, flow.target_alias
    arrow = f"{source}->{target}"
    properties = {
        **flow_properties(flow, source_servers, target_servers),
        "refresh.topics.interval.seconds": "600",
        # Large reads, few polls: a poll is a transaction. About 4 MB of records, the best of 2, 4, 8 and 20 (measured).
        f"{source}.consumer.fetch.max.bytes": str(16 << 20),
        f"{source}.consumer.max.partition.fetch.bytes": str(4 << 20),
        f"{source}.consumer.receive.buffer.bytes": str(1 << 20),
        f"{source}.consumer.max.poll.records": str(_POLL_BYTES // flow.record_bytes),
        # Large writes in the source's own codec: anything else would be recompressed or needlessly large.
        f"{target}.producer.compression.type": flow.codec,
        f"{target}.producer.batch.size": "131072",
        f"{target}.producer.linger.ms": "50",
        f"{target}.producer.buffer.memory": str(128 << 20),
        f"{target}.producer.max.request.size": str(4 << 20),
        f"{target}.producer.send.buffer.bytes": str(1 << 20),
        f"{target}.producer.max.in.flight.requests.per.connection": "5",
        f"{target}.producer.enable.idempotence": "true",
        f"{target}.offset.flush.interval.ms": "5000",
    }
    properties |= {f"{arrow}.{key}": value for key, value in flow.transforms.items()}
    if flow.run_seconds:
        # Records come one by one: nothing should wait for more of them.
        properties[f"{target}.producer.linger.ms"] = "0"
    if flow.exactly_once:
        properties |= {
            f"{target}.exactly.once.source.support": "enabled",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://127.0.0.1:{rest_port}",
            # By interval, MirrorMaker holds more records in memory and needs a third more CPU time (measured).
            f"{arrow}.transaction.boundary": "poll",
        }
    return properties


class MirrorMakerSide:
    """One life of a MirrorMaker process, from start to a stop by SIGTERM."""

    name = "mm2"

    def __init__(self) -> None:
        self._process: LocalMirrorMaker | None = None
        self._port: ReservedPort | None = None

    def start(self, clusters: Clusters, flow: Flow, folder: Path) -> None:
        self._port = ReservedPort()
        properties = mirror_maker_properties(
            flow, clusters.source.bootstrap_servers, clusters.target.bootstrap_servers, self._port.number
        )
        self._process = LocalMirrorMaker(properties, directory=folder, heap="2g", tuned_for="throughput").start()

    @property
    def process(self) -> LocalMirrorMaker:
        if self._process is None:
            raise RuntimeError("MirrorMaker was not started")
        return self._process

    def tree(self) -> ProcessTree:
        return ProcessTree(self.process.pid)

    def running(self) -> bool:
        return self.process.running

    def log_tail(self) -> str:
        return "\n".join(self.process.log_path.read_text(errors="replace").splitlines()[-15:])

    def finish(self) -> float:
        self.process.stop()
        self._release()
        return self.process.cpu_seconds()

    def abandon(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._release()

    def _release(self) -> None:
        if self._port is not None:
            self._port.release()
            self._port = None
