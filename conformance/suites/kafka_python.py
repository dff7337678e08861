"""kafka-python: the integration tests, from its source distribution, against a running broker."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance import sources
from conformance.model import Explained, LeftOut, Suite, Target, TestResult
from conformance.runners.pytest_suite import PLUGINS, run_pytest

VERSION = "3.0.12"
REQUIREMENTS = (
    f"kafka-python=={VERSION}",
    "crc32c",
    "lz4",
    "py",
    "pytest",
    "pytest-mock",
    "pytest-timeout",
    "python-snappy",
    "zstandard",
)
TESTS = ("admin", "consumer", "producer")


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the tests. Their fixtures use the running broker that KAFKA_URI names, the first of a cluster.

    With a cluster their topics are edited to have three replicas.

    The distribution lacks the module that would start a broker; `kafka_python_service` replaces it.
    """
    python = sources.python_environment("kafka-python", REQUIREMENTS)
    files = work / "files"
    shutil.copytree(sources.python_sdist("kafka-python", VERSION) / "test", files / "test")
    shutil.copy(PLUGINS / "kafka_python_service.py", files / "test" / "service.py")
    (files / "test" / "__init__.py").touch()
    replicas = {"replicas=1, partitions=4": f"replicas={target.replicas}, partitions=4"}
    sources.edit(files / "test" / "integration" / "fixtures.py", replicas)
    env = {
        "KAFKA_URI": f"plaintext://{target.brokers[0]}",
        "ZOOKEEPER_URI": f"zookeeper://{target.brokers[0]}",
        # With 4.x the fixtures need no ZooKeeper; the client still asks the broker for its versions.
        "KAFKA_VERSION": "4.0.0" if "4." in target.kind else "3.9.0",
        "KAFKA_ROOT": str(work),
    }
    tests = [f"test/integration/test_{name}_integration.py" for name in TESTS]
    return run_pytest(python, files, tests, work, rules, env=env)


SUITE = Suite(
    name="kafka-python",
    version=VERSION,
    tests="Integration tests of consumer, producer and admin client, from the source distribution.",
    run=run,
    explained=(
        Explained("describe_configs_broker_resource", "expects that advertised.listeners changes while a broker runs"),
        Explained("test_create_partitions", "assigns partitions to broker 0; Apache Kafka's is broker 1 here"),
        Explained("test_delete_records$", "expects that one poll has the records of all partitions"),
    ),
    left_out=(LeftOut("acls", "needs a broker with an authorizer"),),
    # The same as in the properties of kafka-python's own brokers.
    broker_settings={
        "num.partitions": "4",
        "offsets.topic.num.partitions": "2",
        "group.min.session.timeout.ms": "1000",
        "default.replication.factor": "1",
    },
    cluster_settings={"default.replication.factor": "3"},
)
