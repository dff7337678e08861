"""Tests of foreign producers' transactions, with foreign read_committed consumers and Apache Kafka's tools."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import confluent_kafka as ck
import pytest

from peers import require
from peers.brokers import kafka
from peers.clients.base import ForeignClient, Record
from peers.clients.confluent import ConfluentClient
from tests.foreign.conftest import client_params
from tests.foreign.records import BASE_TIME, KEEP, RECORDS, placed, records_for, without_times
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.requests.transactions import WireProducer, committed_values, wait_for_state
from tests.support.waiting import wait_until
from tests.support.wire import create_topic, end_offset

DEADLINE_S = 90.0
STATE = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
TOOL = "org.apache.kafka.tools.TransactionsCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"


@pytest.mark.parametrize("client", client_params("transactions"), indirect=True)
def test_commits_are_read_and_aborts_are_not(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    referee.create_topic(topic, config=KEEP)
    records = records_for(client)
    everything: list[Record] = []
    committed: list[Record] = []
    for ending in ("abort", "commit"):
        first = referee.list_offset(topic, 0, "latest")[0]
        client.produce(topic, 0, records, transaction=ending)
        after = first + len(records) + 1
        wait_until(lambda after=after: referee.list_offset(topic, 0, "latest")[0] == after, "the marker")  # type: ignore[misc]
        everything += placed(records, first)
        if ending == "commit":
            committed += placed(records, first)
    end = len(everything) + 2
    for reader in {client.name: client, referee.name: referee}.values():
        got = reader.consume(topic, 0, 0, end, isolation="read_committed")
        assert without_times(got) == without_times(committed)
    assert without_times(referee.consume(topic, 0, 0, end)) == without_times(everything)


def transactional(bootstrap: str, transactional_id: str) -> ck.Producer:
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(DEADLINE_S)
    return producer


def test_librdkafka_commits_offsets_in_a_transaction(bootstrap: str, referee: ForeignClient, topic: str) -> None:
    """Consume, transform, produce; aborted once, and begun anew from the offsets that were committed."""
    source, target = topic, topic + "-copy"
    for name in (source, target):
        referee.create_topic(name, config=KEEP)
    referee.produce(source, 0, [Record(None, b"%d" % number, (), BASE_TIME) for number in range(20)])
    settings = {
        "bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "isolation.level": "read_committed",
    }  # fmt: skip
    producer = transactional(bootstrap, topic)
    for number, ends in enumerate(("abort", "commit", "abort", "commit")):
        consumer = ck.Consumer(settings)
        try:
            (where,) = consumer.committed([ck.TopicPartition(source, 0)], DEADLINE_S)
            expected = 0 if number < 2 else 10
            assert max(where.offset, 0) == expected
            consumer.assign([ck.TopicPartition(source, 0, expected)])
            producer.begin_transaction()
            for message in consumer.consume(10, DEADLINE_S):
                producer.produce(target, message.value(), partition=0, timestamp=BASE_TIME)
            position = consumer.position([ck.TopicPartition(source, 0)])
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), DEADLINE_S)
            # What was not sent yet would leave with an abort, and the log end offset would not be known.
            producer.flush(DEADLINE_S)
            if ends == "commit":
                producer.commit_transaction(DEADLINE_S)
            else:
                producer.abort_transaction(DEADLINE_S)
        finally:
            consumer.close()
    end = 44
    wait_until(lambda: referee.list_offset(target, 0, "latest")[0] == end, "the last marker")
    got = referee.consume(target, 0, 0, end, isolation="read_committed")
    assert [record.value for record in got] == [b"%d" % number for number in range(20)]
    consumer = ck.Consumer(settings)
    try:
        assert consumer.committed([ck.TopicPartition(source, 0)], DEADLINE_S)[0].offset == 20
    finally:
        consumer.close()


def test_librdkafka_is_told_that_it_was_fenced(bootstrap: str, referee: ForeignClient, topic: str) -> None:
    referee.create_topic(topic, config=KEEP)
    old = transactional(bootstrap, topic)
    old.begin_transaction()
    old.produce(topic, b"fenced", partition=0)
    old.flush(DEADLINE_S)
    new = transactional(bootstrap, topic)
    with pytest.raises(ck.KafkaException) as raised:
        old.commit_transaction(DEADLINE_S)
    assert raised.value.args[0].code() == ck.KafkaError._FENCED
    new.begin_transaction()
    new.produce(topic, b"kept", partition=0)
    new.commit_transaction(DEADLINE_S)
    wait_until(lambda: referee.list_offset(topic, 0, "latest")[0] == 4, "the marker")
    assert [each.value for each in referee.consume(topic, 0, 0, 4, isolation="read_committed")] == [b"kept"]


def test_idempotent_with_five_requests_in_flight(bootstrap: str, referee: ForeignClient, topic: str) -> None:
    referee.create_topic(topic, config=KEEP)
    producer = ck.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "max.in.flight.requests.per.connection": 5,
         "batch.num.messages": 3, "linger.ms": 0}
    )  # fmt: skip
    for number in range(1000):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=BASE_TIME)
    assert producer.flush(DEADLINE_S) == 0
    got = referee.consume(topic, 0, 0, 1000)
    assert [record.value for record in got] == [b"%d" % number for number in range(1000)]
    assert referee.list_offset(topic, 0, "latest")[0] == 1000


# -- Apache Kafka's tools


def rows(output: str) -> list[dict[str, str]]:
    """A tool's table."""
    lines = [re.split(r"\t|\s{2,}", line.strip()) for line in output.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


@pytest.mark.peer
def test_kafka_transactions_tool(start_broker: Callable[..., KafkalogBroker]) -> None:
    """List, describe, describe-producers; find and abort a hanging transaction."""
    require(kafka.missing())
    broker = start_broker(STATE)
    with broker.connect() as wire:
        create_topic(wire, "t")
        producer = WireProducer(wire, "an-id", timeout_ms=900_000)
        producer.init()
        producer.write("t", 1, b"x")

        def tool(*args: str) -> list[dict[str, str]]:
            return rows(kafka.run_java_tool(TOOL, ["--bootstrap-server", broker.bootstrap, *args]))

        (listed,) = tool("list")
        assert listed["TransactionalId"] == "an-id"
        assert listed["ProducerId"] == str(producer.producer_id)
        assert listed["TransactionState"] == "Ongoing"
        (described,) = tool("describe", "--transactional-id", "an-id")
        assert described["TransactionState"] == "Ongoing"
        assert described["TransactionTimeoutMs"] == "900000"
        assert "t-1" in described.values()
        (found,) = tool("describe-producers", "--topic", "t", "--partition", "1")
        assert (found["ProducerId"], found["CurrentTransactionStartOffset"]) == (str(producer.producer_id), "0")
        # It has a coordinator, so that it does not hang.
        assert tool("find-hanging", "--broker-id", "0", "--max-transaction-timeout", "0") == []
        assert tool("abort", "--topic", "t", "--partition", "1", "--start-offset", "0") == []
        wait_until(lambda: end_offset(wire, "t", 1) == 2, "the marker of the tool")
        assert committed_values(wire, "t", 1) == []


@pytest.mark.peer
@pytest.mark.parametrize("version", [kafka.KAFKA_4, kafka.KAFKA_3])
def test_kafka_reads_our_transaction_state(start_broker: Callable[..., KafkalogBroker], version: str) -> None:
    require(kafka.missing(version))
    broker = start_broker(STATE)
    with broker.connect() as wire:
        create_topic(wire, "t")
        producer = WireProducer(wire, "an-id", timeout_ms=12_345)
        producer.init()
        producer.add("t", 1, 0)
        producer.end(committed=True)
        wait_for_state(wire, "an-id", "CompleteCommit")
    args = [
        "--bootstrap-server", broker.bootstrap, "--topic", "__transaction_state", "--from-beginning",
        "--max-messages", "4", "--formatter", FORMATTER, "--timeout-ms", "60000",
    ]  # fmt: skip
    output = kafka.run_java_tool(CONSOLE_CONSUMER, args, version)
    assert output.count('"transactionalId":"an-id"') == output.count('"transactionTimeoutMs":12345') == 4
    # Empty, Ongoing, PrepareCommit, CompleteCommit by their numbers.
    assert re.findall(r'"transactionStatus":(\d)', output) == ["0", "1", "2", "4"]
    assert re.findall(r'"partitionIds":\[([\d,]*)\]', output) == ["0,1", "0,1"]


# -- directories change hands


def open_transactions(bootstrap: str) -> None:
    """One committed, one aborted, one left open; the open one's producer is gone."""
    with closing(ConfluentClient(bootstrap)) as client:
        client.create_topic("t", config=KEEP)
        client.produce("t", 0, RECORDS[:5], transaction="commit")
        client.produce("t", 0, RECORDS[:5], transaction="abort")
    lost = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": "lost", "transaction.timeout.ms": 600_000})
    lost.init_transactions(DEADLINE_S)
    lost.begin_transaction()
    lost.produce("t", b"lost", partition=0, timestamp=BASE_TIME)
    assert lost.flush(DEADLINE_S) == 0


def take_over(bootstrap: str) -> None:
    """The next session of the id that was left aborts what is open, and goes on."""
    with closing(ConfluentClient(bootstrap)) as client:
        before = client.list_offset("t", 0, "latest")[0]
        assert before == 13
        producer = transactional(bootstrap, "lost")
        producer.begin_transaction()
        producer.produce("t", b"found", partition=0, timestamp=BASE_TIME)
        producer.commit_transaction(DEADLINE_S)
        # The abort's marker, the record, the commit's marker.
        wait_until(lambda: client.list_offset("t", 0, "latest")[0] == before + 3, "the markers")
        got = client.consume("t", 0, 0, before + 3, isolation="read_committed")
        assert [record.value for record in got] == [record.value for record in RECORDS[:5]] + [b"found"]


@pytest.mark.peer
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [kafka.KAFKA_3, kafka.KAFKA_4])
def test_we_carry_on_with_transactions_of_kafka(
    start_broker: Callable[..., KafkalogBroker], tmp_path: Path, version: str
) -> None:
    """Of a broker that was killed."""
    require(kafka.missing(version))
    theirs = kafka.ApacheKafka(version, directory=tmp_path / "kafka", config=STATE, heap=("-Xmx256M",))
    with theirs:
        open_transactions(theirs.bootstrap)
        theirs.kill()
    # What only its own controller has.
    for name in ("__cluster_metadata-0", "bootstrap.checkpoint"):
        path = theirs.log_dir / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    ours = start_broker({**STATE, "log.dirs": str(theirs.log_dir)})
    take_over(ours.bootstrap)


@pytest.mark.peer
@pytest.mark.timeout(600)
def test_kafka_carries_on_with_our_transactions(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    """Our partition directories in the place of those that Apache Kafka made for the same topics."""
    version = kafka.KAFKA_3
    require(kafka.missing(version))
    ours = start_broker(STATE)
    open_transactions(ours.bootstrap)
    assert ours.stop() == 0
    theirs = kafka.ApacheKafka(version, directory=tmp_path / "kafka", config=STATE, heap=("-Xmx256M",))
    with theirs:
        with closing(ConfluentClient(theirs.bootstrap)) as client:
            client.create_topic("t", config=KEEP)
            client.create_topic("other", config=KEEP)
            client.produce("other", 0, RECORDS[:1], transaction="commit")
        theirs.stop()
        for name in ("t-0", "__transaction_state-0"):
            target = theirs.log_dir / name
            for file in target.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            for file in (ours.log_dir / name).iterdir():
                if file.name != "partition.metadata":
                    shutil.copy(file, target / file.name)
        theirs.start()
        take_over(theirs.bootstrap)
