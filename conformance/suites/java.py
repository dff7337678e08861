"""Apache Kafka's Java tools, and our own program with its Java clients: groups, offsets, transactions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

from conformance.model import LeftOut, Suite, Target, TestResult
from conformance.runners.checks import run_checks
from conformance.runners.java_program import run_java_program
from peers.brokers import kafka
from peers.cache import MissingPeerError

VERSION = kafka.KAFKA_3
_TOOLS = "org.apache.kafka.tools."
_GROUPS = f"{_TOOLS}consumer.group.ConsumerGroupCommand"


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run each tool in its own JVM, and the program once with each version of the clients."""
    for version in kafka.VERSIONS:
        if reason := kafka.missing(version):
            raise MissingPeerError(reason)
    results = run_checks(CHECKS, target, rules)
    for version in reversed(kafka.VERSIONS):
        results += run_java_program(target, version, work)
    return results


def _name() -> str:
    return f"java-{uuid.uuid4().hex[:8]}"


def _tool(main: str, target: Target, *args: str, stdin: str | None = None) -> str:
    return kafka.run_java_tool(
        main, ["--bootstrap-server", target.bootstrap, *args], VERSION, stdin=stdin, timeout_s=180
    )


def _topics(target: Target, *args: str) -> str:
    return _tool(f"{_TOOLS}TopicCommand", target, *args)


def _create(target: Target, partitions: int = 3) -> str:
    topic = _name()
    _topics(target, "--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "1")
    return topic


def _write(target: Target, topic: str, count: int) -> None:
    out = _tool(f"{_TOOLS}VerifiableProducer", target, "--topic", topic, "--max-messages", str(count))
    assert json.loads(out.splitlines()[-1])["acked"] == count, out[-500:]


def _read(target: Target, topic: str, count: int, *args: str) -> list[str]:
    console = f"{_TOOLS}consumer.ConsoleConsumer"
    options = ["--topic", topic, "--from-beginning", "--timeout-ms", "20000", "--max-messages", str(count)]
    return _tool(console, target, *options, *args).splitlines()


def creates_describes_alters_and_deletes_a_topic(target: Target) -> None:
    topic = _create(target)
    assert "PartitionCount: 3" in _topics(target, "--describe", "--topic", topic)
    _topics(target, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in _topics(target, "--describe", "--topic", topic)
    _topics(target, "--delete", "--topic", topic)
    assert topic not in _topics(target, "--list").splitlines()


def produces_and_consumes_at_the_console(target: Target) -> None:
    topic, lines = _create(target, 1), [f"line {number}" for number in range(100)]
    # Until 4.0 the tools are in the broker's jar.
    _tool("kafka.tools.ConsoleProducer", target, "--topic", topic, stdin="".join(f"{line}\n" for line in lines))
    assert _read(target, topic, 100) == lines


def measures_producing_and_consuming(target: Target) -> None:
    topic = _create(target)
    args = ["--topic", topic, "--num-records", "10000", "--record-size", "100", "--throughput", "-1"]
    out = kafka.run_java_tool(
        f"{_TOOLS}ProducerPerformance", [*args, "--producer-props", f"bootstrap.servers={target.bootstrap}"], VERSION
    )
    assert "10000 records sent" in out, out
    _tool(f"{_TOOLS}ConsumerPerformance", target, "--topic", topic, "--messages", "10000")


def tells_offsets(target: Target) -> None:
    topic = _create(target, 1)
    _write(target, topic, 10)
    assert _tool(f"{_TOOLS}GetOffsetShell", target, "--topic", topic).strip() == f"{topic}:0:10"


def consumes_in_a_group_and_describes_it(target: Target) -> None:
    topic = _create(target)
    _write(target, topic, 100)
    group = f"group-{topic}"
    assert len(_read(target, topic, 100, "--group", group)) == 100
    assert group in _tool(_GROUPS, target, "--list").splitlines()
    rows = [line.split() for line in _tool(_GROUPS, target, "--describe", "--group", group).splitlines()]
    assert sum(int(row[3]) for row in rows if len(row) > 5 and row[1] == topic) == 100, rows


def resets_and_deletes_group_offsets(target: Target) -> None:
    topic = _create(target, 1)
    _write(target, topic, 10)
    group = f"group-{topic}"
    _read(target, topic, 10, "--group", group)
    _tool(_GROUPS, target, "--reset-offsets", "--to-offset", "4", "--group", group, "--topic", topic, "--execute")
    assert len(_read(target, topic, 6, "--group", group)) == 6
    _tool(_GROUPS, target, "--delete-offsets", "--group", group, "--topic", topic)
    _tool(_GROUPS, target, "--delete", "--group", group)
    assert group not in _tool(_GROUPS, target, "--list").splitlines()


def consumes_with_the_verifiable_consumer(target: Target) -> None:
    topic = _create(target)
    _write(target, topic, 200)
    args = ["--topic", topic, "--group-id", f"group-{topic}", "--max-messages", "200", "--reset-policy", "earliest"]
    out = _tool(f"{_TOOLS}VerifiableConsumer", target, *args)
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") >= 200, events


def copies_in_transactions(target: Target) -> None:
    source, copy = _create(target, 1), _create(target, 1)
    _write(target, source, 500)
    args = ["--broker-list", target.bootstrap, "--input-topic", source, "--input-partition", "0"]
    args += ["--output-topic", copy, "--transaction-size", "50", "--consumer-group", f"group-{source}"]
    args += ["--transactional-id", f"copier-{source}", "--max-messages", "500", "--enable-random-aborts"]
    kafka.run_java_tool(f"{_TOOLS}TransactionalMessageCopier", args, VERSION, timeout_s=180)
    found = _read(target, copy, 500, "--isolation-level", "read_committed")
    assert found == [str(number) for number in range(500)], found[:20]


def lists_and_describes_transactions(target: Target) -> None:
    source, copy = _create(target, 1), _create(target, 1)
    _write(target, source, 10)
    args = ["--broker-list", target.bootstrap, "--input-topic", source, "--input-partition", "0"]
    args += ["--output-topic", copy, "--transaction-size", "10", "--consumer-group", f"group-{source}"]
    args += ["--transactional-id", f"copier-{source}", "--max-messages", "10"]
    kafka.run_java_tool(f"{_TOOLS}TransactionalMessageCopier", args, VERSION, timeout_s=180)
    tool = f"{_TOOLS}TransactionsCommand"
    assert f"copier-{source}" in _tool(tool, target, "list")
    assert "CompleteCommit" in _tool(tool, target, "describe", "--transactional-id", f"copier-{source}")
    _tool(tool, target, "describe-producers", "--topic", copy, "--partition", "0")
    _tool(tool, target, "find-hanging", "--broker-id", _broker_id(target))


def _broker_id(target: Target) -> str:
    return "0" if target.kind == "kafkalog" else "1"


def alters_and_describes_configs(target: Target) -> None:
    topic = _create(target, 1)
    tool = "kafka.admin.ConfigCommand"
    entity = ["--entity-type", "topics", "--entity-name", topic]
    _tool(tool, target, "--alter", *entity, "--add-config", "retention.ms=12345")
    assert "retention.ms=12345" in _tool(tool, target, "--describe", *entity)
    _tool(tool, target, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms=12345" not in _tool(tool, target, "--describe", *entity)


def tells_broker_versions_and_log_dirs(target: Target) -> None:
    assert "Produce(0)" in _tool("kafka.admin.BrokerApiVersionsCommand", target)
    topic = _create(target, 1)
    out = _tool(f"{_TOOLS}LogDirsCommand", target, "--describe", "--topic-list", topic)
    assert f'"partition":"{topic}-0"' in out, out


def deletes_records(target: Target) -> None:
    topic = _create(target, 1)
    _write(target, topic, 10)
    path = Path(kafka.tool_directory(VERSION)) / f"{topic}.json"
    path.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 7}], "version": 1}))
    try:
        _tool(f"{_TOOLS}DeleteRecordsCommand", target, "--offset-json-file", str(path))
    finally:
        path.unlink()
    out = _tool(f"{_TOOLS}GetOffsetShell", target, "--topic", topic, "--time", "-2")
    assert out.strip() == f"{topic}:0:7", out


def measures_end_to_end_latency(target: Target) -> None:
    topic = _create(target, 1)
    kafka.run_java_tool(f"{_TOOLS}EndToEndLatency", [target.bootstrap, topic, "100", "all", "100"], VERSION)


def tells_the_cluster_id(target: Target) -> None:
    assert "Cluster ID" in kafka.run_java_tool(
        f"{_TOOLS}ClusterTool", ["cluster-id", "--bootstrap-server", target.bootstrap], VERSION
    )


CHECKS = (
    creates_describes_alters_and_deletes_a_topic,
    produces_and_consumes_at_the_console,
    measures_producing_and_consuming,
    tells_offsets,
    consumes_in_a_group_and_describes_it,
    resets_and_deletes_group_offsets,
    consumes_with_the_verifiable_consumer,
    copies_in_transactions,
    lists_and_describes_transactions,
    alters_and_describes_configs,
    tells_broker_versions_and_log_dirs,
    deletes_records,
    measures_end_to_end_latency,
    tells_the_cluster_id,
)

SUITE = Suite(
    name="java",
    version=VERSION,
    tests="Our own checks: with the Java tools of Kafka 3.9.2, and by `conformance/java` with the clients of 3.9.2 "
    "and of 4.3.1: groups of every assignor and protocol, static members, offsets, transactions, fencing.",
    run=run,
    # The default of Kafka 4; Kafka 3.9 has another.
    broker_settings={"group.consumer.migration.policy": "bidirectional"},
)
