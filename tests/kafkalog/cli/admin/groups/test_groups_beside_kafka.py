"""Test that `kafkalog groups` and `kafkalog configs` print the same tables as Kafka's own tools."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalog.cli.admin.groups.plan_files import read_plans
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka import KAFKA_3, KAFKA_4, ApacheKafka
from peers.brokers.kafka_tools import CONFIGS, GROUPS, KafkaTools
from tests.support.command import call
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

OURS = "kafkalog"
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
DESCRIBE = ("", "--verbose", "--members", "--members --verbose", "--state", "--state --verbose")


class Scene(NamedTuple):
    """A broker with groups of all kinds: in use, with a static member, of KIP-848, left by its members."""

    bootstrap: str
    topic: str
    active: str
    static: str
    left: str
    kip848: str | None

    @property
    def groups(self) -> list[str]:
        return [each for each in (self.active, self.static, self.left, self.kip848) if each]

    def chosen(self) -> list[str]:
        """The groups as options."""
        return [word for each in self.groups for word in ("--group", each)]


def rows(lines: list[str]) -> list[list[str]]:
    """The values of tables, in an order that does not depend on who printed them."""
    return sorted(line.split() for line in lines if line.strip())


@contextmanager
def stage(bootstrap: str, *, kip848: bool) -> Iterator[Scene]:
    name = uuid.uuid4().hex[:8]
    scene = Scene(
        bootstrap,
        f"t-{name}",
        f"active-{name}",
        f"static-{name}",
        f"left-{name}",
        f"kip848-{name}" if kip848 else None,
    )
    call("topics", "create", "--bootstrap-server", bootstrap, "--topic", scene.topic, "--partitions", "3")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce(scene.topic, b"%d" % number, partition=number % 3)
    assert producer.flush(60) == 0
    with ExitStack() as stack:

        def join(group: str, **properties: str) -> Consumer:
            consumer = Consumer(
                {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **properties}
            )
            stack.callback(consumer.close)
            consumer.subscribe([scene.topic])

            def assigned() -> bool:
                consumer.poll(0.1)
                return bool(consumer.assignment())

            wait_until(assigned, f"{group} has partitions")
            offsets = [TopicPartition(scene.topic, number, 2 * number + 1) for number in range(2)]
            consumer.commit(offsets=offsets, asynchronous=False)
            return consumer

        join(scene.active, **{"client.id": "one"})
        join(scene.static, **{"client.id": "two", "group.instance.id": f"instance-{name}"})
        if scene.kip848:
            join(scene.kip848, **{"client.id": "three", "group.protocol": "consumer"})
        join(scene.left).close()
        yield scene


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    require(kafka.missing(KAFKA_4))
    with KafkaTools(KAFKA_4) as running:
        yield running


@pytest.fixture(scope="module", params=[OURS, KAFKA_4, KAFKA_3])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if request.param == OURS:
        with (
            KafkalogBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as broker,
            stage(broker.bootstrap, kip848=True) as found,
        ):
            yield found
        return
    require(kafka.missing(request.param))
    with (
        ApacheKafka(request.param, config=SETTINGS, heap=("-Xmx512M",)) as apache,
        stage(apache.bootstrap, kip848=request.param == KAFKA_4) as found,
    ):
        yield found


@pytest.mark.parametrize("what", DESCRIBE)
def test_describe(scene: Scene, tools: KafkaTools, what: str) -> None:
    words = [*scene.chosen(), *what.split()]
    theirs = tools.run(GROUPS, "--bootstrap-server", scene.bootstrap, "--describe", *words)
    done = call("groups", "describe", "--bootstrap-server", scene.bootstrap, *words)
    if "--members" in what:
        # Of a group without members Kafka's tool prints the headings alone.
        after = [*theirs[1:], "GROUP"]
        theirs = [
            line
            for line, following in zip(theirs, after, strict=True)
            if not (line.startswith("GROUP") and following.startswith("GROUP"))
        ]
    assert rows(done.out) == rows(theirs)
    assert len(rows(done.out)) > len(scene.groups)
    assert done.err == f"kafkalog: Consumer group '{scene.left}' has no active members.\n"


def test_list(scene: Scene, tools: KafkaTools) -> None:
    for words in ((), ("--state",), ("--type",), ("--state", "Stable,empty", "--type", "classic")):
        theirs = tools.run(GROUPS, "--bootstrap-server", scene.bootstrap, "--list", *words)
        ours = call("groups", "list", "--bootstrap-server", scene.bootstrap, *words).out
        assert rows(ours) == rows(theirs)
        assert sum(any(group in line for group in scene.groups) for line in ours) >= 3


@pytest.mark.parametrize(
    "rule", ["--to-earliest", "--to-latest", "--to-current", "--to-offset 4", "--shift-by -2", "--by-duration PT1H"]
)
def test_plans_of_reset_offsets(scene: Scene, tools: KafkaTools, rule: str) -> None:
    words = ["--bootstrap-server", scene.bootstrap, "--group", scene.left, *rule.split(), "--dry-run"]
    topic = f"{scene.topic}:0,1"
    exported = tools.run(GROUPS, *words, "--reset-offsets", "--topic", topic, "--export")
    ours = call("groups", "reset-offsets", *words, "--topic", topic, "--export")
    assert read_plans(ours.out, [scene.left]) == read_plans(exported, [scene.left])
    theirs = tools.run(GROUPS, *words, "--reset-offsets", "--all-topics")
    ours = call("groups", "reset-offsets", *words, "--all-topics")
    assert rows(ours.out) == rows([line for line in theirs if not line.startswith("WARN")])


def test_a_group_in_use_is_left_alone(scene: Scene, tools: KafkaTools) -> None:
    words = ["--bootstrap-server", scene.bootstrap, "--group", scene.active, "--topic", scene.topic]
    (theirs, *_) = tools.run(GROUPS, *words, "--reset-offsets", "--to-earliest", "--execute")
    ours = call("groups", "reset-offsets", *words, "--to-earliest", "--execute", check=1)
    assert theirs.removeprefix("Error: ") == ours.err.strip().removeprefix("kafkalog: ")
    assert ours.out == []


def test_a_tool_of_kafka_that_hides_its_exit(scene: Scene, tools: KafkaTools) -> None:
    """It must say what to reset. It prints its own exit as a failure, and returns."""
    words = ["--bootstrap-server", scene.bootstrap, "--group", scene.left]
    theirs = tools.run(GROUPS, *words, "--reset-offsets", "--to-earliest", "--dry-run")
    assert theirs[-1] == "Exit: 1"


def test_what_one_tool_changes_the_other_sees(scene: Scene, tools: KafkaTools) -> None:
    words = ["--bootstrap-server", scene.bootstrap, "--group", scene.left]
    call("groups", "reset-offsets", *words, "--topic", f"{scene.topic}:2", "--to-offset", "7", "--execute")
    theirs = tools.run(GROUPS, *words, "--describe")
    assert [row[3] for row in rows(theirs) if row[1:3] == [scene.topic, "2"]] == ["7"]
    tools.run(GROUPS, *words, "--reset-offsets", "--topic", f"{scene.topic}:2", "--shift-by", "1", "--execute")
    ours = call("groups", "describe", *words).out
    assert [row[3] for row in rows(ours) if row[1:3] == [scene.topic, "2"]] == ["8"]
    theirs = tools.run(GROUPS, *words, "--delete-offsets", "--topic", f"{scene.topic}:2")
    assert any("Successful" in line for line in theirs)
    assert len(rows(call("groups", "describe", *words).out)) == 3
    gone = f"{scene.left}-gone"
    words[-1] = gone
    call("groups", "reset-offsets", *words, "--topic", scene.topic, "--to-earliest", "--execute")
    theirs = tools.run(GROUPS, *words, "--delete")
    assert any("successful" in line for line in theirs)
    assert gone not in call("groups", "list", "--bootstrap-server", scene.bootstrap).out


@pytest.mark.parametrize("what", ["--topic", "--topic --all", "--broker-defaults", "--broker --all"])
def test_configs(scene: Scene, tools: KafkaTools, what: str) -> None:
    node_id = (
        call("topics", "describe", "--bootstrap-server", scene.bootstrap, "--topic", scene.topic).out[1].split()[5]
    )
    call(
        "configs",
        "alter",
        "--bootstrap-server",
        scene.bootstrap,
        "--topic",
        scene.topic,
        "--add-config",
        "segment.ms=7",
    )
    option, *more = what.split()
    values = {"--topic": [scene.topic], "--broker": [node_id]}.get(option, [])
    words = [option, *values, *more]
    wait_until(
        lambda: (
            "segment.ms=7"
            in str(call("configs", "describe", "--bootstrap-server", scene.bootstrap, "--topic", scene.topic))
        ),
        "the broker knows what was changed",
    )
    theirs = tools.run(CONFIGS, "--bootstrap-server", scene.bootstrap, "--describe", *words)
    assert sorted(call("configs", "describe", "--bootstrap-server", scene.bootstrap, *words).out) == sorted(theirs)


def test_broker_loggers(scene: Scene, tools: KafkaTools) -> None:
    to = "--bootstrap-server", scene.bootstrap
    node_id = call("topics", "describe", *to, "--topic", scene.topic).out[1].split()[5]

    def ours() -> dict[str, str]:
        _, *lines = call("configs", "describe", *to, "--broker-logger", node_id).out
        return dict(line.split()[0].split("=") for line in lines)

    # One that has no level of its own.
    name, before = next((each, level) for each, level in ours().items() if re.search(r"\w\.\w+\.\w", each))
    theirs = tools.run(CONFIGS, *to, "--alter", "--broker-logger", node_id, "--add-config", f"{name}=ERROR")
    assert theirs == [f"Completed updating config for broker-logger {node_id}."]
    assert ours()[name] == "ERROR"
    call("configs", "alter", *to, "--broker-logger", node_id, "--add-config", f"{name}=WARN")
    theirs = tools.run(CONFIGS, *to, "--describe", "--broker-logger", node_id)
    assert theirs[0] == f"Dynamic configs for broker-logger {node_id} are:"
    assert f"  {name}=WARN sensitive=false synonyms={{}}" in theirs
    call("configs", "alter", *to, "--broker-logger", node_id, "--delete-config", name)
    assert ours()[name] == before
