"""kafkajs: the jest specs of broker, cluster, producer, consumer and admin client, from its repository."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from conformance import sources
from conformance.formats import jest
from conformance.model import Explained, LeftOut, Outcome, Suite, Target, TestResult
from conformance.runners.pytest_suite import PLUGINS
from conformance.runners.running import run as run_command
from peers.process import tail
from peers.toolchains.node import KAFKAJS as VERSION

DEPENDENCIES = (
    "execa",
    "glob",
    "jest",
    "jest-circus",
    "jest-extended",
    "jsonwebtoken",
    "mockdate",
    "semver",
    "uuid",
)
"""The packages that the tests import, in the versions that the repository names. It installs many more."""
TESTS = "src/(admin|broker|cluster|consumer|network|producer|index\\.spec)"


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the specs. Their helpers name three brokers with three listeners each; they are edited to name one."""
    files = work / "files"
    origin = sources.repository("kafkajs", "https://github.com/tulios/kafkajs.git", f"v{VERSION}")
    shutil.copytree(origin, files, ignore=shutil.ignore_patterns("website", "docs", "logo*"))
    wanted = json.loads((files / "package.json").read_text())["devDependencies"]
    modules = sources.npm_packages("kafkajs-tests", {name: wanted[name] for name in DEPENDENCIES})
    (files / "node_modules").symlink_to(modules)
    _name_the_broker(files, target)
    shutil.copy(PLUGINS / "kafkajs_environment.js", files)
    log, report = work / "jest.log", work / "jest.json"
    env = {
        "CONFORMANCE_LEFT_OUT": json.dumps([asdict(rule) for rule in rules]),
        "KAFKA_VERSION": target.kind.partition(":")[2] or "3.9.2",
        "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
        "KAFKAJS_NO_PARTITIONER_WARNING": "1",
        "NODE_ENV": "test",
    }
    command = [sources.node(), "node_modules/jest/bin/jest.js", "--ci", "--runInBand", "--no-watchman", "--forceExit"]
    command += ["--reporters=default", "--json", f"--outputFile={report}", "--env=./kafkajs_environment.js"]
    run_command([*command, f"--testPathPattern=^{files}/{TESTS}"], files, log, env=env)
    if not report.exists():
        return [TestResult("jest", Outcome.FAILED, tail(log, 2000))]
    return jest.parse(report.read_text(), files, rules)


def _name_the_broker(files: Path, target: Target) -> None:
    host, port = target.host, target.port
    sources.edit(
        files / "testHelpers" / "index.js",
        {
            "getHost = () => 'localhost'": f"getHost = () => '{host}'",
            "[`${host}:9092`, `${host}:9095`, `${host}:9098`]": f"[`${{host}}:{port}`]",
            "  port: 9092,": f"  port: {port},",
            "[`${getHost()}:9092`]": f"[`${{getHost()}}:{port}`]",
        },
    )
    for spec in ("findGroupCoordinator", "metadata"):
        sources.edit(
            files / "src" / "broker" / "__tests__" / f"{spec}.spec.js", {"host: 'localhost'": f"host: '{host}'"}
        )
    shutil.copy(PLUGINS / "kafkajs_add_partitions.js", files / "scripts" / "addPartitions.js")
    (files / "scripts" / "addPartitions.sh").write_text("#!/bin/sh\nexec node scripts/addPartitions.js\n")


SUITE = Suite(
    name="kafkajs",
    version=VERSION,
    tests="The jest specs of broker, cluster, network, producer, consumer and admin client, from its repository.",
    run=run,
    explained=(
        Explained("respect the requestTimeout", "the response is faster than the time-out of 50 ms"),
        Explained("emits (the )?request timeout event", "the response is faster than the time-out of 1 ms"),
        Explained("ignores invalid transaction fields", "written before transactions were verified (KIP-890)"),
        Explained(
            r"OffsetCommit request|OffsetFetch request|Heartbeat request|recovers from offset out of range",
            "joins a group with a rebalance time-out of 0, which expires first",
        ),
        Explained(
            r"(brokerPool|findBroker|describeGroups|fetchTopicMetadata)\.spec",
            "requests a topic right after its creation; Apache Kafka's metadata may lack it still",
        ),
        Explained("use the default replication factor", "sends requests to broker 0; Apache Kafka's is broker 1 here"),
        Explained(r"describeConfigs\.spec", "expects exactly the response of Kafka 2.4"),
    ),
    left_out=(
        LeftOut(
            r"(create|delete|describe)Acls\.spec|reauthenticate\.spec|SSL connections|#connect SSL|SASL (PLAIN|SCRAM)|"
            r"(PLAIN|SCRAM) is configured|mechanism isn't supported|session lifetime",
            "needs a broker with TLS, SASL and an authorizer",
        ),
        LeftOut(
            r"admin/.*PartitionReassignments\.spec\.js.* (valid|ongoing|reassign|invalid broker)|"
            r"broker/.*PartitionReassignments\.spec|createTopics\.spec\.js.*manual replica assignment|"
            r"brokerPool\.spec\.js.*(different seed|if it has connected|#removeBroker|true if any of the brokers|"
            r"updates the list of brokers|cleans up unused|connects the broker if)|"
            r"deleteTopicRecords\.spec\.js.*(tries again from the last|at least 1 broker error|if all broker errors)|"
            r"(alterConfigs|describeConfigs)\.spec\.js.*broker configs|not the partition leader|describeCluster\.spec|"
            r"idempotentProduceMessages\.spec\.js.*retriable error|findGroupCoordinator\.spec\.js.*all brokers",
            "needs three brokers",
        ),
    ),
    # The same as in kafkajs's docker-compose files.
    broker_settings={"num.partitions": "2", "auto.create.topics.enable": "true"},
)
