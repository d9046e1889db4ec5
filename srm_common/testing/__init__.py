"""Real Kafka and the real MirrorMaker 2 on this machine, for tests, demos and benchmarks; anybody may use them."""

from srm_common.testing.local_kafka import LocalKafka
from srm_common.testing.local_mirror_maker import LocalMirrorMaker
from srm_common.testing.ports import ReservedPort

__all__ = ["LocalKafka", "LocalMirrorMaker", "ReservedPort"]
