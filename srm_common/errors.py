"""Every error of the project, grouped by what the caller should do.

    SrmError
     +-- ConfigError              fix the file, key or option that the message names; nothing was changed
     |    +-- UnknownFlow         the flow or alias is not in the file
     +-- ClusterError             one cluster answered badly or not at all
     |    +-- UnreachableCluster  no broker answered; check addresses and the network, then run again
     |    +-- AccessDenied        a login or a permission is missing, or a policy of the brokers forbids a topic
     |    +-- UnsupportedBroker   the broker is older than the oldest supported version
     +-- StateError               a state topic cannot be believed
     |    +-- StateTopicInvalid   it exists with settings that would lose state
     |    +-- StateUnavailable    it cannot be read to its end now; run again
     |    +-- CorruptRecord       one of its records cannot be read
     +-- OwnershipError           another run owns the flow; this one has stopped and changed nothing more
     |    +-- FlowOwnedElsewhere
     |    +-- FlowRunning         the flow is active, and must be idle for this
     |    +-- Fenced              a slot's producer was fenced
     +-- PartitionError           one partition cannot continue; the others do
     |    +-- DataLost            records disappeared at the source before they were copied
     |    +-- RecordTooLarge      a single record is larger than the target takes
     |    +-- CorruptBatch        a batch's checksum or layout is wrong
     |    +-- TransformFailed     a step of the flow's transforms cannot handle a record
     |    +-- NoSuchPartition     the topic or partition does not exist (any more)
     +-- StoreError               the metrics store cannot be used now; replication continues without it
     |    +-- StoreTooNew         its schema is newer than this software
     +-- PeerError                another service did not respond, or not in a form that can be read
     |    +-- PeerSilent          it did not respond in time
     +-- RegistryError            a schema registry did not respond, refused, or answered what cannot be read
     +-- AirflowError             Airflow does not respond, refuses the login, or lacks what was asked for
     +-- EditConflict             a concurrent edit; check the current state, then repeat the edit
     +-- LostProcess              a worker process died; its work is done again
     +-- SparkFailed              Spark did not start, or its application has ended; start the run again
     +-- RunFailed                at least one partition failed; its run record says which
     +-- LocalKafkaError          a broker or MirrorMaker of srm_common.testing could not be fetched or started
     +-- LocalAirflowError        the Airflow of srm_common.testing could not be started, or answered with an error

Exit codes of the commands are here too, so that one place knows them.
"""

from __future__ import annotations

from srm_common import __version__


def installing(*extras: str) -> str:
    """What a message tells to run where a package of these extras is missing. It names the wheel's file: this project
    is not in the package index, and whoever put something there under its name would run it on machines with Kafka's
    credentials."""
    return f"pip install 'srm_kafka-{__version__}-py3-none-any.whl[{','.join(extras)}]'"


class SrmError(Exception):
    """Root of all errors; the text is one sentence for a person."""

    exit_code = 1


class ConfigError(SrmError):
    """A setting is wrong. ``file`` and ``line`` say where, when they are known.

    ``parts`` are the single faults when there are several.
    """

    exit_code = 2
    parts: tuple[ConfigError, ...] = ()

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + message)
        self.reason = message
        self.file = file
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_config_error, (type(self), self.reason, self.file, self.line))


def _rebuild_config_error(kind: type[ConfigError], reason: str, file: str | None, line: int | None) -> ConfigError:
    return kind(reason, file=file, line=line)


class UnknownFlow(ConfigError):
    """The flow or alias is not in the configuration."""


class ClusterError(SrmError):
    """A cluster answered with an error that no retry fixes."""

    exit_code = 3


class UnreachableCluster(ClusterError):
    """No broker of the cluster answered in time."""


class AccessDenied(ClusterError):
    """Authentication failed, a permission is missing, or a policy of the brokers forbids a topic."""


class UnsupportedBroker(ClusterError):
    """A broker is older than the oldest supported version."""


class StateError(SrmError):
    """A state topic cannot be believed."""

    exit_code = 4


class StateTopicInvalid(StateError):
    """A state topic exists with settings that would lose state."""


class StateUnavailable(StateError):
    """A state topic cannot be read to its end at the moment."""


class CorruptRecord(StateError):
    """A record of a state topic cannot be read."""


class OwnershipError(SrmError):
    """Another run owns the flow."""

    exit_code = 5


class FlowOwnedElsewhere(OwnershipError):
    """A newer run fenced this one."""


class FlowRunning(OwnershipError):
    """A run, or MirrorMaker 2, is active on a flow that must be idle for what was asked."""


class Fenced(OwnershipError):
    """The producer of a slot was fenced by a newer owner; final, never retried."""


class PartitionError(SrmError):
    """One partition cannot continue; others are not affected."""


class DataLost(PartitionError):
    """Records disappeared at the source before they were copied."""


class RecordTooLarge(PartitionError):
    """A single record is larger than the target's ``max.message.bytes``, or a batch than a request may be."""


class CorruptBatch(PartitionError):
    """A record batch fails its checksum or cannot be parsed; it is never copied."""


class TransformFailed(PartitionError):
    """A step of the flow's transforms cannot handle a record; what comes before it was copied."""


class NoSuchPartition(PartitionError):
    """A topic or partition does not exist, or does not any more."""


class StoreError(SrmError):
    """The metrics store is down, locked or damaged. Nothing but history depends on it."""

    exit_code = 3


class StoreTooNew(StoreError):
    """The store's schema was created by newer software."""


class PeerError(SrmError):
    """Another replication service did not respond in time, refused, or returned an unreadable response."""

    exit_code = 3


class PeerSilent(PeerError):
    """Another replication service did not respond in time."""


class RegistryError(SrmError):
    """A schema registry did not respond, refused a request, or answered what cannot be read.

    ``status`` is the HTTP status, None without a refusal; ``code`` is the registry's own error code, such as 40403;
    ``silent`` that no address responded, so that any other question would be in vain, too.
    """

    exit_code = 3

    def __init__(
        self, message: str, *, status: int | None = None, code: int | None = None, silent: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.silent = silent


class AirflowError(SrmError):
    """Airflow cannot be queried, or refuses."""

    exit_code = 3


class EditConflict(SrmError):
    """There was a concurrent edit; this one changed nothing."""


class LostProcess(SrmError):
    """A worker process died; the driver fences and continues."""


class SparkFailed(SrmError):
    """Spark did not start, or its application has ended."""


class RunFailed(SrmError):
    """At least one partition failed."""


class LocalKafkaError(SrmError):
    """A Kafka of :mod:`srm_common.testing` could not be fetched, started or reached."""


class LocalAirflowError(SrmError):
    """The Airflow of :mod:`srm_common.testing` could not start, or refused a request (``status``: its HTTP code)."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
