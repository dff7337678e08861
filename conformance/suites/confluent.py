"""confluent-kafka-python: the integration tests, from its repository (the source distribution has no tests)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance import sources
from conformance.model import Explained, LeftOut, Suite, Target, TestResult
from conformance.runners.pytest_suite import run_pytest

VERSION = "2.15.0"
REQUIREMENTS = (
    f"confluent-kafka[avro,schemaregistry]=={VERSION}",
    "async-timeout",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "requests-mock",
    "respx",
    "trivup",
)
TESTS = ("admin", "consumer", "producer")


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the tests. Their fixtures use the running cluster that BROKERS names."""
    python = sources.python_environment("confluent-kafka", REQUIREMENTS)
    files = work / "files"
    url = "https://github.com/confluentinc/confluent-kafka-python.git"
    origin = sources.repository("confluent-kafka-python", url, f"v{VERSION}")
    shutil.copytree(origin / "tests", files / "tests")
    # The version of the cluster that the fixtures would start. Tests of newer brokers are skipped.
    version = target.kind.partition(":")[2] or "3.9.2"
    sources.edit(files / "tests" / "common" / "__init__.py", {"return '4.2.0'": f"return '{version}'"})
    env = {"BROKERS": target.bootstrap}
    return run_pytest(python, files, [f"tests/integration/{name}" for name in TESTS], work, rules, env=env)


SUITE = Suite(
    name="confluent-kafka-python",
    version=VERSION,
    tests="Integration tests of admin client, consumer and producer, of librdkafka underneath.",
    run=run,
    left_out=(LeftOut("test_user_scram_credentials|sasl", "needs a cluster with SASL that the test starts itself"),),
    explained=(Explained("test_basic_operations", "creates ACLs, which need a broker with an authorizer"),),
    broker_settings={"num.partitions": "4", "auto.create.topics.enable": "true"},
)
