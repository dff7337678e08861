"""Test that commands print what Kafka's own tools print about the same cluster."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kafkalog.client.producer import Producer, ProducerConfig
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka import KAFKA_3, KAFKA_4
from peers.brokers.kafka_tools import KafkaTools
from peers.brokers.secured_kafka import SecuredKafka
from tests.support.command import call, run
from tests.support.console import new_topic, produce
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

ACLS = "kafka.admin.AclCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
FORMATTERS = "org.apache.kafka.tools.consumer."


@pytest.fixture(scope="module")
def tools(foreign_programs: None) -> Iterator[KafkaTools]:
    require(kafka.missing(KAFKA_3))
    with KafkaTools(KAFKA_3) as running:
        yield running


@pytest.fixture
def secured(secured_kafkas: Callable[[str], SecuredKafka]) -> SecuredKafka:
    return secured_kafkas(KAFKA_3)


@pytest.mark.parametrize("time", ["latest", "earliest", "max-timestamp", "earliest-local", "latest-tiered", "1", "-1"])
def test_offsets(tools: KafkaTools, broker_address: str, time: str) -> None:
    topic = new_topic(broker_address, 11)
    produce(broker_address, topic, b"".join(b"%d\n" % number for number in range(50)), "--sync")
    where = ("--bootstrap-server", broker_address, "--time", time)
    for words in (
        ("--topic", topic),
        ("--topic", f"{topic}|nothing", "--partitions", "0,10,99"),
        ("--topic-partitions", f"{topic}:2-5,{topic}:-1,:9"),
        ("--topic-partitions", f"{topic[:-1]}.:10", "--exclude-internal-topics"),
    ):
        assert call("get-offsets", *where, *words).out == tools.run(GET_OFFSETS, *where, *words)


def test_log_directories(tools: KafkaTools, start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    address = start_broker({"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}).address
    topic = new_topic(address, 3)
    produce(address, topic, b"hello\n")

    def described(lines: list[str]) -> tuple[list[str], list[object]]:
        *text, document = lines
        brokers = json.loads(document)["brokers"]
        for broker in brokers:
            broker["logDirs"].sort(key=lambda each: str(each["logDir"]))
            for directory in broker["logDirs"]:
                directory["partitions"].sort(key=lambda each: str(each["partition"]))
        return text, brokers

    for words in ((), ("--topic-list", topic), ("--broker-list", "0", "--topic-list", f"{topic},nothing")):
        where = ("--describe", "--bootstrap-server", address, *words)
        assert described(call("log-dirs", *where).out) == described(tools.run(LOG_DIRS, *where))


@pytest.mark.parametrize("version", [KAFKA_3, KAFKA_4])
def test_features(secured_kafkas: Callable[[str], SecuredKafka], version: str) -> None:
    """The tool of the broker's own version, which has a name for each of its levels."""
    address = secured_kafkas(version).bootstrap
    with KafkaTools(version) as running:
        theirs = running.run(FEATURES, "--bootstrap-server", address, "describe")
    assert theirs
    ours = call("features", "describe", "--bootstrap-server", address).out
    # Kafka 4 separates columns by other blanks.
    assert [line.split() for line in ours] == [line.split() for line in theirs]


def test_changes_of_features(tools: KafkaTools, secured: SecuredKafka) -> None:
    """All are dry runs, for other tests use the broker."""
    for action, *words in (
        ("upgrade", "--feature", "group.version=1"),
        ("upgrade", "--metadata", "3.9"),
        ("upgrade", "--feature", "nothing=1", "--feature", "transaction.version=99"),
        ("downgrade", "--metadata", "3.3-IV3"),
        ("downgrade", "--feature", "metadata.version=20", "--unsafe"),
        ("disable", "--feature", "group.version"),
        ("disable", "--feature", "metadata.version"),
    ):
        where = ("--bootstrap-server", secured.bootstrap)
        theirs = tools.run(FEATURES, *where, action, *words, "--dry-run")
        ours = call("features", action, *where, *words, "--dry-run", check=None)
        assert [*ours.out, *([f"Exit: {ours.code}"] if ours.code else [])] == theirs


def lines_of_acls(lines: list[str]) -> list[str]:
    """Return the lines without empty ones, in an order that does not depend on who printed them."""
    return sorted(line.strip() for line in lines if line.strip())


def is_known(listed: Callable[..., list[str]], words: tuple[str, ...], count: int) -> bool:
    return sum("principal=" in line for line in listed(*words)) == count


def test_access_control_lists(tools: KafkaTools, secured: SecuredKafka) -> None:
    name = f"acls-{uuid.uuid4().hex[:8]}"
    where = ("--bootstrap-server", secured.bootstrap)
    resources = ("--topic", name, "--group", name, "--transactional-id", name)

    def both(*words: str) -> list[str]:
        """Return the ACLs that both list, once they agree: brokers learn of changes a moment later."""
        found: list[list[str]] = []

        def agree() -> bool:
            ours = lines_of_acls(call("acls", "--list", *where, *words).out)
            theirs = lines_of_acls(tools.run(ACLS, "--list", *where, *words))
            found[:] = [ours, theirs]
            return ours == theirs

        wait_until(agree, f"both list the same: {found}")
        return found[0]

    many = (*resources, "--resource-pattern-type", "any")
    known = 0
    for words in (
        ("--topic", name, "--producer", "--allow-principal", f"User:{name}"),
        ("--topic", name, "--transactional-id", name, "--producer", "--idempotent", "--allow-principal", "User:a"),
        ("--topic", name, "--group", name, "--consumer", "--allow-principal", "User:b", "--allow-host", "10.0.0.1"),
        ("--topic", name, "--operation", "DescribeConfigs", "--deny-principal", "User:*"),
        ("--topic", name, "--resource-pattern-type", "prefixed", "--allow-principal", "User:c"),
    ):
        added = lines_of_acls(call("acls", "--add", *where, *words).out)
        # Adding what is there changes nothing.
        assert added == lines_of_acls(tools.run(ACLS, "--add", *where, *words))
        entries = len([line for line in added if "principal=" in line and "IDEMPOTENT" not in line])
        known += entries
        wait_until(partial(is_known, both, many, known), "they are known")
    for chosen in (
        resources,
        ("--topic", f"{name}-x", "--resource-pattern-type", "match"),
        ("--topic", name, "--resource-pattern-type", "any"),
        ("--topic", name, "--principal", "User:a", "--principal", "User:b"),
        ("--cluster",),
    ):
        assert both(*chosen)
    one = ("--topic", name, "--operation", "DescribeConfigs", "--deny-principal", "User:*")
    denied = "(principal=User:*, host=*, operation=DESCRIBE_CONFIGS, permissionType=DENY)"
    assert denied in both("--topic", name)
    call("acls", "--remove", *where, *one, "--force")
    wait_until(lambda: denied not in both("--topic", name), "it is removed")
    call("acls", "--remove", *where, *resources, "--force")
    wait_until(lambda: both(*resources) == [], "all are removed")
    call("acls", "--remove", *where, "--topic", name, "--resource-pattern-type", "prefixed", "--force")


def consumed(tools: KafkaTools, address: str, topic: str, *words: str) -> tuple[list[str], list[str]]:
    """Return what this command and Kafka's console consumer print of partition 0."""
    where = ("--bootstrap-server", address, "--topic", topic, "--partition", "0", "--offset", "earliest")
    ours = run("consume", *where, "--timeout-ms", "1000", *words).stdout.decode().splitlines()
    return ours, tools.run(CONSUMER, *where, "--timeout-ms", "5000", *words)


SERIALIZATION = "org.apache.kafka.common.serialization."


def test_deserializers(tools: KafkaTools, broker_address: str) -> None:
    values = {
        "Long": b"\x80" + bytes(7), "Integer": b"\0\0\1\0", "Short": b"\xff\xff",
        "Float": b"\x3f\x9d\xf3\xb6", "Double": b"\x3f\xbf\x97\x24\x74\x53\x8e\xf3", "Boolean": b"\1",
        "UUID": b"1-2-3-4-5", "Bytes": b"a\\\0\xff", "String": "é".encode("utf-16-be"),
        "ByteBuffer": b"abc", "List": b"\0\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0\7",
    }  # fmt: skip
    own = {
        "String": ("value.deserializer.encoding=UTF-16",),
        "List": (
            "default.list.value.serde.type=java.util.LinkedList",
            f"default.list.value.serde.inner={SERIALIZATION}Serdes$IntegerSerde",
        ),
    }
    for names in batched((*values, "Short")):
        topic = new_topic(broker_address)
        key, value, header = (values[name] for name in names)
        with Producer(ProducerConfig.from_dict({"bootstrap.servers": broker_address})) as producer:
            producer.send(topic, value, key, (("h", header),)).result(60)
        words = ["--property", "print.key=true", "--property", "print.headers=true"]
        for part, name in zip(("key", "value", "headers"), names, strict=True):
            words += ["--property", f"{part}.deserializer={SERIALIZATION}{name}Deserializer"]
            for each in own.get(name, ()):
                words += ["--property", f"{part}.deserializer.{each}"]
        ours, theirs = consumed(tools, broker_address, topic, *words)
        assert len(ours) == 1
        assert ours == theirs


def batched(names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield three names at a time: those of a key, a value and a header."""
    coming = iter(names)
    return zip(coming, coming, coming, strict=True)


def test_records_of_coordinators(tools: KafkaTools, start_broker: Callable[..., KafkalogBroker]) -> None:
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    address = start_broker({**settings, "group.initial.rebalance.delay.ms": "0"}).address
    topic = new_topic(address)
    produce(address, topic, b"hello\n", "--producer-property", "transactional.id=t")
    run("consume", "--bootstrap-server", address, "--topic", topic, "--group", "g", "--from-beginning",
        "--max-messages", "1")  # fmt: skip
    for of, name in (
        ("__consumer_offsets", "Offsets"),
        ("__consumer_offsets", "GroupMetadata"),
        ("__transaction_state", "TransactionLog"),
        (topic, "NoOp"),
    ):
        ours, theirs = consumed(tools, address, of, "--formatter", f"{FORMATTERS}{name}MessageFormatter")
        # Kafka's formatters end no lines.
        assert "".join(ours) == "".join(theirs), name
        assert bool(ours) == (name != "NoOp")
