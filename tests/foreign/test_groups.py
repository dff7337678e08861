"""Test that foreign consumers continue where another library's consumer of the same group stopped."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer

from peers import kcat, require
from peers.brokers import kafka
from peers.toolchains import java
from tests.foreign.support import DEADLINE_S, RECORDS, SETTINGS, consumer, make_topic, produce, take
from tests.support.kafkalog_broker import KafkalogBroker

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PATIENT = ["--timeout", "60000"]
"""The tool gives up after five seconds unless it is told."""


@pytest.fixture(scope="module")
def bootstrap(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of this module's own, whose groups do not wait for further members."""
    with KafkalogBroker(tmp_path_factory.mktemp("groups"), SETTINGS) as broker:
        yield broker.bootstrap


def by_confluent(bootstrap: str, topic: str, group: str) -> list[bytes]:
    one = consumer(bootstrap, group)
    one.subscribe([topic])
    [got] = take([one], RECORDS)
    one.commit(asynchronous=False)
    one.close()
    return got


def by_kafka_python(bootstrap: str, topic: str, group: str) -> list[bytes]:
    one = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=int(DEADLINE_S * 1000),
    )
    got = []
    for message in one:
        got.append(message.value)
        if len(got) == RECORDS:
            break
    one.commit()
    one.close()
    return got


def by_aiokafka(bootstrap: str, topic: str, group: str) -> list[bytes]:
    async def work() -> list[bytes]:
        one = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await one.start()
        got = [(await one.getone()).value for _ in range(RECORDS)]
        await one.commit()
        await one.stop()
        return got

    return asyncio.run(asyncio.wait_for(work(), DEADLINE_S))


def by_kcat(bootstrap: str, topic: str, group: str) -> list[bytes]:
    require(kcat.missing())
    options = ["-G", group, "-c", str(RECORDS), "-X", "auto.offset.reset=earliest", "-q", topic]
    return kcat.run_kcat(bootstrap, options, timeout_s=DEADLINE_S).split()


def by_java(bootstrap: str, topic: str, group: str) -> list[bytes]:
    require(kafka.missing(kafka.KAFKA_4))
    return console(bootstrap, kafka.KAFKA_4, "--topic", topic, "--group", group, "--from-beginning")


def by_java_3(bootstrap: str, topic: str, group: str) -> list[bytes]:
    require(kafka.missing(kafka.KAFKA_3))
    return console(bootstrap, kafka.KAFKA_3, "--topic", topic, "--group", group, "--from-beginning")


def console(bootstrap: str, version: str, *options: str, records: int = RECORDS) -> list[bytes]:
    arguments = ["--bootstrap-server", bootstrap, "--max-messages", str(records), *options]
    said = kafka.run_java_tool(CONSOLE, arguments, version, timeout_s=DEADLINE_S)
    return [line.encode() for line in said.split("\n") if line]


CONSUMERS = [
    pytest.param(by_confluent, id="confluent-kafka"),
    pytest.param(by_kafka_python, id="kafka-python"),
    pytest.param(by_aiokafka, id="aiokafka"),
    pytest.param(by_kcat, id="kcat", marks=pytest.mark.peer),
    pytest.param(by_java, id="java-4", marks=pytest.mark.peer),
    pytest.param(by_java_3, id="java-3", marks=pytest.mark.peer),
]


@pytest.fixture(scope="module")
def shared(bootstrap: str) -> str:
    """A topic that one group reads, with whatever client."""
    make_topic(bootstrap, "shared")
    return "shared"


@pytest.mark.parametrize("consume", CONSUMERS)
def test_consumers_of_a_group_go_on_where_another_stopped(
    bootstrap: str, shared: str, consume: Callable[[str, str, str], list[bytes]]
) -> None:
    values = [f"{consume.__name__}-{number}".encode() for number in range(RECORDS)]
    produce(bootstrap, shared, values)
    assert sorted(consume(bootstrap, shared, "everyone")) == sorted(values)


def test_two_consumers_share_the_partitions_and_one_takes_over(bootstrap: str) -> None:
    make_topic(bootstrap, "split", 4)
    pair = [consumer(bootstrap, "pair"), consumer(bootstrap, "pair")]
    for each in pair:
        each.subscribe(["split"])
    end = time.monotonic() + DEADLINE_S
    while [len(each.assignment()) for each in pair] != [2, 2]:
        assert time.monotonic() < end
        for each in pair:
            each.poll(0.1)
    pair[0].close()
    while len(pair[1].assignment()) != 4:
        assert time.monotonic() < end
        pair[1].poll(0.1)
    pair[1].close()


def test_offsets_of_transactions(bootstrap: str) -> None:
    """Consume, transform, produce: the offsets hold with the transaction, or not at all."""
    make_topic(bootstrap, "input")
    make_topic(bootstrap, "output")
    produce(bootstrap, "input", [b"%d" % number for number in range(RECORDS)])
    one = consumer(bootstrap, "transformer")
    one.subscribe(["input"])
    take([one], RECORDS)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "transformer"})
    producer.init_transactions(DEADLINE_S)
    partitions = [TopicPartition("input", index) for index in range(2)]
    for commits in (False, True):
        producer.begin_transaction()
        producer.produce("output", b"made")
        producer.send_offsets_to_transaction(one.position(partitions), one.consumer_group_metadata(), DEADLINE_S)
        if commits:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
        offsets = [found.offset for found in one.committed(partitions, DEADLINE_S)]
        assert offsets == ([RECORDS // 2] * 2 if commits else [-1001, -1001])
    one.close()


@pytest.mark.peer
def test_kafkas_own_tools_show_groups_and_read_their_records(bootstrap: str) -> None:
    require(java.missing() or kafka.missing(kafka.KAFKA_3))
    make_topic(bootstrap, "tools")
    produce(bootstrap, "tools", [b"%d" % number for number in range(RECORDS)])
    one = consumer(bootstrap, "tools-group", client_id="the-client")
    one.subscribe(["tools"])
    take([one], RECORDS - 1)
    one.commit(asynchronous=False)
    options = ["--bootstrap-server", bootstrap, "--describe", "--group", "tools-group", *PATIENT]
    said = kafka.run_java_tool(GROUPS, options, kafka.KAFKA_3, timeout_s=DEADLINE_S)
    rows = [line.split() for line in said.splitlines() if line.startswith("tools-group")]
    assert sorted(row[2] for row in rows) == ["0", "1"], said
    assert sum(int(row[3]) for row in rows) == RECORDS - 1
    assert sum(int(row[5]) for row in rows) == 1
    assert {row[7] for row in rows} == {"/127.0.0.1"}
    assert {row[8] for row in rows} == {"the-client"}
    one.close()
    records = read_offsets_topic(bootstrap)
    keys = [record["key"]["data"] for record in records]
    mine = [
        (key["partition"], record["value"]["data"]["offset"])
        for key, record in zip(keys, records, strict=True)
        if key["group"] == "tools-group" and key["topic"] == "tools" and record["value"]
    ]
    assert sum(offset for _, offset in mine) == RECORDS - 1


def stored_records(bootstrap: str) -> int:
    """Return the number of records that `__consumer_offsets` has now."""
    one = consumer(bootstrap, "counter", enable_partition_eof="true")
    partitions = int(SETTINGS["offsets.topic.num.partitions"])
    one.assign([TopicPartition("__consumer_offsets", index, 0) for index in range(partitions)])
    ended: set[int | None] = set()
    count = 0
    end = time.monotonic() + DEADLINE_S
    while len(ended) < partitions:
        assert time.monotonic() < end
        message = one.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            count += 1
        else:
            assert error.code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
    one.close()
    return count


def read_offsets_topic(bootstrap: str) -> list[dict[str, Any]]:
    """Return the rows that Apache Kafka's formatter prints for `__consumer_offsets`; it leaves out all but offsets."""
    options = [
        "--topic", "__consumer_offsets", "--from-beginning",
        "--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
    ]  # fmt: skip
    said = b"".join(console(bootstrap, kafka.KAFKA_3, *options, records=stored_records(bootstrap))).decode()
    found = []
    at = said.find("{")
    while at >= 0:
        # One after the other, without a line between them.
        record, after = json.JSONDecoder().raw_decode(said, at)
        found.append(record)
        at = said.find("{", after)
    return found
