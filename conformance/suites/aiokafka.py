"""aiokafka: the tests that need a broker, from its repository (the source distribution has no tests)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance import sources
from conformance.model import LeftOut, Suite, Target, TestResult
from conformance.runners.pytest_suite import PLUGINS, run_pytest

VERSION = "0.14.0"
REQUIREMENTS = (
    # gssapi must be compiled against Kerberos, so it is missing here, and tests that need it are left out.
    f"aiokafka[lz4,snappy,zstd]=={VERSION}",
    "docker",
    "pytest",
    "pytest-asyncio",
    "pytest-mock",
    "pytest-timeout",
    "setuptools",
)
TESTS = (
    "test_admin.py",
    "test_client.py",
    "test_conn.py",
    "test_consumer.py",
    "test_coordinator.py",
    "test_fetcher.py",
    "test_pep492.py",
    "test_producer.py",
    "test_sasl.py",
    "test_sender.py",
    "test_transactional_consumer.py",
    "test_transactional_producer.py",
)


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the tests. Our conftest replaces aiokafka's, which starts a container; ours names the running broker."""
    python = sources.python_environment("aiokafka", REQUIREMENTS)
    files = work / "files"
    origin = sources.repository("aiokafka", "https://github.com/aio-libs/aiokafka.git", f"v{VERSION}")
    shutil.copytree(origin / "tests", files / "tests")
    shutil.copy(PLUGINS / "aiokafka_conftest.py", files / "tests" / "conftest.py")
    env = {
        "CONFORMANCE_BOOTSTRAP": target.bootstrap,
        "CONFORMANCE_KAFKA_VERSION": target.kind.partition(":")[2] or "3.9.2",
    }
    return run_pytest(python, files, [f"tests/{name}" for name in TESTS], work, rules, env=env)


SUITE = Suite(
    name="aiokafka",
    version=VERSION,
    tests="Tests of client, consumer, group coordinator, fetcher, producer, transactions and admin client.",
    run=run,
    left_out=(
        LeftOut(r"test_sasl\.py", "needs a broker with SASL (Kerberos, SCRAM) and ACLs"),
        LeftOut(r"(?i)ssl", "needs a broker with TLS"),
    ),
    broker_settings={"num.partitions": "2"},
)
