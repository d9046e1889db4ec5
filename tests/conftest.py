"""What all rings share: one pair of real brokers a session, unique names, configuration files."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from srm_common.testing import BrokerJvm, LocalKafka
from tests import slot_worker, temporary_files
from tests.examples import QUICK_EXAMPLES

# How long an example takes says something about the machine only, and how many a generator throws away within the
# first sixty says as much about luck; one that finds none at all still fails.
# The examples are the same each time, so that a change is judged by what it changes.
settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# For the loop of a developer: fewer examples than each test says, and new ones each time.
settings.register_profile("quick", settings.get_profile("any machine"), derandomize=False, max_examples=QUICK_EXAMPLES)
# For the long tests.
settings.register_profile("new examples", settings.get_profile("any machine"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "any machine"))

# A shell starts what it puts into the background with SIGINT ignored, and so are its children; some tests interrupt
# theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("tests.contract")

temporary_files.of_session()

_failed = pytest.StashKey[bool]()
_numbers = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the process ends: the garbage collector need not look at them again and again, which
    takes each process of the unit ring a second while it collects tests, and more while it runs them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # the shared brokers' logs stay when any test of the session failed
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        item.config.stash[_failed] = True
    return report  # type: ignore[return-value]


@pytest.fixture(scope="session", autouse=True)
def _own_data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where runs by hand keep their reports: not where those of this user are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
        yield


@pytest.fixture(autouse=True)
def _own_connections() -> Iterator[None]:
    """What slots that ran in this process have kept ends with the test."""
    yield
    slot_worker.forget()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:  # after fixtures have ended what they had started
    temporary_files.check(session)


@pytest.fixture(scope="session", autouse=True)
def _no_topic_by_accident() -> Iterator[None]:
    """Brokers make the topics that a client asks about, and nothing here may ask so. A test whose topic is to come into
    being like that has ``on-demand`` in its name."""
    close = LocalKafka.close

    def closing(kafka: LocalKafka, *, failed: bool = False) -> None:
        made = sorted(topic for topic in kafka.made_on_demand() if "on-demand" not in topic)
        close(kafka, failed=failed)
        assert failed or not made, f"a client made brokers of {kafka.name} create {', '.join(made)} by asking about it"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalKafka, "close", closing)
        yield


def _shared(name: str, jvm: BrokerJvm, config: pytest.Config) -> Iterator[LocalKafka]:
    kafka = LocalKafka(name=name, jvm=jvm)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.close(failed=config.stash.get(_failed, False))


@pytest.fixture(scope="session")
def broker_jvm(pytestconfig: pytest.Config) -> Iterator[BrokerJvm]:
    """For clusters of one node of the newest version that no test kills, pauses or gives options of Java."""
    jvm = BrokerJvm()
    try:
        yield jvm.start()
    finally:
        jvm.close(failed=pytestconfig.stash.get(_failed, False))


@pytest.fixture(scope="session")
def source_kafka(broker_jvm: BrokerJvm, pytestconfig: pytest.Config) -> Iterator[LocalKafka]:
    """The cluster ``source``: one node of the newest version, shared by the session. Use topic names of your own."""
    yield from _shared("source", broker_jvm, pytestconfig)


@pytest.fixture(scope="session")
def target_kafka(broker_jvm: BrokerJvm, pytestconfig: pytest.Config) -> Iterator[LocalKafka]:
    """The cluster ``target``: one node of the newest version, shared by the session. Use topic names of your own."""
    yield from _shared("target", broker_jvm, pytestconfig)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test of the session uses, fit for topics, groups and cluster aliases."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.originalname.removeprefix("test_").lower()).strip("-")
    return f"{stem[:40].rstrip('-')}-{next(_numbers)}"


@pytest.fixture
def configuration_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a properties file: ``configuration_file({"clusters": "a, b", ...})`` -> its path."""

    def write(properties: Mapping[str, object], name: str = "srm.properties") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        return path

    return write
