"""Fixtures of every layer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from peers import kafka
from tests.support.kafkalog_broker import KafkalogBroker

# Examples are drawn from a fixed seed: a failure in CI is a failure everywhere.
settings.register_profile(
    "kafkalog", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("kafkalog")

# Brokers and tools of tests end soon: they spend more on compiling well than they gain by it.
kafka.JVM_EXTRA.append("-XX:TieredStopAtLevel=1")

# A shell's background job ignores SIGINT, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW_FIRST = (
    "spark/jobs",
    "spark/test_exactly_once",
    "spark/sink/test_once",
    "spark/test_notebooks",
    "load",
    "spark",
    "cli",
    "foreign",
    "client",
    "history/test_history",
)
"""Where the slow files are: begun first, so that of several workers none is left alone with them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        name = item.path.relative_to(here).as_posix()
        return next((rank for rank, prefix in enumerate(SLOW_FIRST) if name.startswith(prefix)), len(SLOW_FIRST))

    items.sort(key=place)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    """One running broker for all tests that need not stop it."""
    with KafkalogBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def broker_address(request: pytest.FixtureRequest) -> str:
    """host:port of a running broker; KAFKALOG_TEST_BOOTSTRAP names another one to run the same tests against."""
    given = os.environ.get("KAFKALOG_TEST_BOOTSTRAP")
    if given:
        return given
    running: KafkalogBroker = request.getfixturevalue("broker")
    return running.bootstrap


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., KafkalogBroker]]:
    """Starts brokers that the test stops, kills or configures as it likes; all are gone when it ends."""
    with ExitStack() as stack:
        count = 0

        def start(overrides: dict[str, str] | None = None, directory: Path | None = None) -> KafkalogBroker:
            nonlocal count
            count += 1
            broker = KafkalogBroker(directory or tmp_path / f"broker{count}", overrides)
            stack.callback(broker.kill)
            return broker.start()

        yield start
