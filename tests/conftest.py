"""Fixtures of every layer."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from peers import require
from peers.brokers import kafka, secured_kafka
from peers.security import kerberos
from tests.support.amount import examples
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.member import MemberCluster, member_cluster
from tests.support.outputs import outputs_since
from tests.support.sources.processes import ProcessGuard, leave_no_garbage

# Examples are drawn from a fixed seed: a failure in CI is a failure everywhere.
settings.register_profile(
    "kafkalog",
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("kafkalog")

# Brokers, tools and ZooKeepers of tests end soon: they spend more on compiling well than they gain by it.
kafka.JVM_EXTRA.append("-XX:TieredStopAtLevel=1")
kafka.WITH_CLASS_DATA.update(kafka.VERSIONS)
# Several of them wait in each worker. These halve what a broker uses that has nothing to do: it writes no record of the
# metadata log every half second, and wakes up fewer threads.
kafka.SETTINGS_EXTRA.update({"metadata.max.idle.interval.ms": "0", "num.network.threads": "1", "num.io.threads": "4"})
os.environ.setdefault("JVMFLAGS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A shell's background job ignores SIGINT, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW_FIRST = (
    "spark_kafkalog/jobs",
    "spark_kafkalog/sink/transactional/test_once",
    "spark_kafkalog/load",
    "spark_kafkalog",
    "kafkalog/cli",
    "broker/cli",
    "foreign",
    "kafkalog/client",
)
"""Paths of the slow files among those that declare no time-out. They follow the files that do, so that no worker is
left alone with one of them at the end."""


MARKERS = {"processes": "processes", "spark": "spark", "foreign_programs": "peer"}
"""Fixtures, each with the marker of the tests that request it, directly or by other fixtures."""
WITH_PROCESSES = ("peer", "spark")
"""Markers of tests that start processes, also if a parameter has the marker and no fixture does."""

BASE = pytest.StashKey[Path]()
"""The directory of all directories of tests."""

guard = ProcessGuard()
guard.install()
os.register_at_fork(before=leave_no_garbage)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without a search for garbage, and leave what is there then out of every later search.

    Millions of objects of modules and tests live until the end, and each full search would visit all of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what brokers and other processes have written meanwhile."""
    report = yield
    base = item.config.stash.get(BASE, None)
    if report.failed and base is not None:
        for name, text in outputs_since(base, call.start):
            report.sections.append((f"Last lines of {name}", text))
    return report


@pytest.fixture(scope="session", autouse=True)
def base_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Note where the directories of tests are."""
    request.config.stash[BASE] = tmp_path_factory.getbasetemp()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures, and begin with the files whose tests declare the longest time-outs."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for fixture, marker in MARKERS.items():
            if fixture in fixtures:
                item.add_marker(marker)
        if any(item.get_closest_marker(marker) for marker in WITH_PROCESSES):
            item.add_marker("processes")

    here = Path(__file__).parent
    longest: dict[Path, float] = {}
    for item in items:
        timeout = item.get_closest_marker("timeout")
        if timeout is not None and item.get_closest_marker("soak") is None:
            seconds = timeout.args[0] if timeout.args else timeout.kwargs["timeout"]
            longest[item.path] = max(longest.get(item.path, 0.0), seconds)

    @cache
    def place(path: Path) -> tuple[float, int]:
        name = path.relative_to(here).as_posix()
        rank = next((rank for rank, prefix in enumerate(SLOW_FIRST) if name.startswith(prefix)), len(SLOW_FIRST))
        return -longest.get(path, 0.0), rank

    items.sort(key=lambda item: place(item.path))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Leave out what would begin too late, before any fixture of it is made."""
    until = os.environ.get("KAFKALOG_TESTS_UNTIL")
    if until is not None and time.time() > float(until):
        pytest.skip("the time of this run was over (KAFKALOG_TESTS_UNTIL)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Tests without the marker `processes` start none."""
    guard.test = None if item.get_closest_marker("processes") else item.nodeid
    try:
        return (yield)
    finally:
        guard.test = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Report processes whose refusal the test did not notice, and a signal that the test left ignored.

    Processes of later tests would inherit that, and could not be interrupted.
    """
    try:
        return (yield)
    finally:
        guard.check()
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
                pytest.fail(f"the test left {number.name} ignored")


@pytest.fixture(scope="module")
def checked() -> Iterator[None]:
    """Use the checked kernels for the module's tests: they refuse memory that they were not given."""
    from tests.support.sources.checked_kernels import checked_kernels

    with checked_kernels():
        yield


@pytest.fixture(scope="session")
def processes() -> None:
    """Allow a test, or the tests of a fixture, to start processes: `make check` leaves these tests out."""


@pytest.fixture(scope="session")
def foreign_programs(processes: None) -> None:
    """Mark the tests of a fixture as `peer`: they need a foreign program, and `make test` leaves them out."""


@pytest.fixture(scope="session")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    """Start one broker for all tests that do not stop it."""
    with KafkalogBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def broker_address(request: pytest.FixtureRequest, processes: None) -> str:
    """Return host:port of a running broker, or of the broker that KAFKALOG_TEST_BOOTSTRAP names."""
    given = os.environ.get("KAFKALOG_TEST_BOOTSTRAP")
    if given:
        return given
    running: KafkalogBroker = request.getfixturevalue("broker")
    return running.bootstrap


@pytest.fixture(scope="session")
def over_zookeeper(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberCluster]:
    """Start a ZooKeeper and a broker that is a member of its cluster, for all tests that do not stop them."""
    with member_cluster(tmp_path_factory.mktemp("over-zookeeper")) as running:
        yield running


@pytest.fixture
def start_broker(processes: None, tmp_path: Path) -> Iterator[Callable[..., KafkalogBroker]]:
    """Start brokers that a test may stop, kill or configure; stop all of them after the test."""
    with ExitStack() as stack:
        count = 0

        def start(overrides: dict[str, str] | None = None, directory: Path | None = None) -> KafkalogBroker:
            nonlocal count
            count += 1
            broker = KafkalogBroker(directory or tmp_path / f"broker{count}", overrides)
            stack.callback(broker.kill)
            return broker.start()

        yield start


@pytest.fixture(scope="session")
def krb5_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Name a `krb5.conf` to this process, and to those that it starts later; `kdc` writes it.

    Spark's workers have the environment in which the session starts, so the session requests this, too.
    """
    path = tmp_path_factory.mktemp("kerberos") / "krb5.conf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(path))
        patch.setenv("KRB5CCNAME", str(path.parent / "no.cache"))
        yield path


@pytest.fixture(scope="session")
def kdc(foreign_programs: None, krb5_config: Path) -> Iterator[kerberos.Kdc]:
    """Start a KDC for all tests."""
    require(kerberos.missing())
    with kerberos.Kdc(krb5_config.parent / "kdc", krb5_config) as running:
        yield running


@pytest.fixture(scope="session")
def secured_kafkas(
    foreign_programs: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], secured_kafka.SecuredKafka]]:
    """Return secured brokers of Apache Kafka by version; each is started once, when a test first asks for it."""
    with ExitStack() as stack:

        @cache
        def running(version: str) -> secured_kafka.SecuredKafka:
            require(secured_kafka.missing(version))
            directory = tmp_path_factory.mktemp(f"secured-{version}")
            kdc = None if kerberos.missing() else request.getfixturevalue("kdc")
            return stack.enter_context(secured_kafka.SecuredKafka(version, directory, kdc))

        yield running


@pytest.fixture(params=kafka.VERSIONS)
def secured(
    request: pytest.FixtureRequest, secured_kafkas: Callable[[str], secured_kafka.SecuredKafka]
) -> secured_kafka.SecuredKafka:
    """Return a running secured Apache Kafka; a test runs with each version."""
    return secured_kafkas(request.param)
