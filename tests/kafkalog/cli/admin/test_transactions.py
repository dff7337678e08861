"""Tests of `kafkalog transactions` and its client, with open, ended and hanging transactions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.admin.transactions import (
    HangingTransaction,
    ProducerState,
    TransactionsAdmin,
    TransactionState,
    hanging,
)
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.transactions.errors import AbortableTransactionError, FencedError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    InvalidProducerEpochError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.records.batch import Record, encode_batch
from tests.kafkalog.client.producer.transactions.site import DEADLINE_S, Site
from tests.support.command import Ended, call, run
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def site(broker_address: str) -> Site:
    return Site(broker_address)


@pytest.fixture
def admin(site: Site) -> Iterator[TransactionsAdmin]:
    with TransactionsAdmin(site.config()) as opened:
        yield opened


def tool(site: Site, action: str, *words: str, check: int = 0) -> Ended:
    return call("transactions", action, "--bootstrap-server", site.bootstrap, *words, check=check)


def objects(site: Site, action: str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tool(site, action, *words, "--json").out]


def test_an_open_transaction(site: Site, admin: TransactionsAdmin) -> None:
    before = int(time.time() * 1000)
    with site.producer(transaction_timeout_ms=70_000) as producer:
        producer.init_transactions()
        with pytest.raises(TransactionalIdNotFoundError):
            admin.describe_transactions([f"{site.id}-no"])
        assert admin.describe_transactions([site.id])[site.id].start_time is None
        producer.begin_transaction()
        for partition in (0, 2):
            producer.send(site.topic, b"open", partition=partition).result(DEADLINE_S)
        (listing,) = [each for each in admin.list_transactions() if each.transactional_id == site.id]
        assert listing.state is TransactionState.ONGOING
        assert listing in admin.list_transactions(states=["Ongoing"], producer_ids=[listing.producer_id])
        assert listing not in admin.list_transactions(states=["Empty"])
        assert listing not in admin.list_transactions(longer_than_ms=3_600_000)
        with pytest.raises(ConfigError, match=r"no such states: Sleeping.*Ongoing"):
            admin.list_transactions(states=["Sleeping"])
        described = admin.describe_transactions([site.id])[site.id]
        assert described[:6] == (site.id, listing.coordinator, listing.producer_id, 0, TransactionState.ONGOING, 70_000)
        assert before - 60_000 <= (described.start_time or 0) <= int(time.time() * 1000) + 60_000
        assert described.partitions == [TopicPartition(site.topic, 0), TopicPartition(site.topic, 2)]
        found = admin.describe_producers([TopicPartition(site.topic, number) for number in range(3)])
        assert [len(found[TopicPartition(site.topic, number)]) for number in range(3)] == [1, 0, 1]
        (writer,) = found[TopicPartition(site.topic, 0)]
        assert (writer.producer_id, writer.last_sequence, writer.start_offset) == (listing.producer_id, 0, 0)
        # As the tool tells it
        (told,) = objects(site, "describe", "--transactional-id", site.id)
        assert told["topicPartitions"] == [f"{site.topic}-0", f"{site.topic}-2"]
        assert told["transactionState"] == "Ongoing"
        assert told["transactionDurationMs"] >= 0
        (told,) = objects(site, "list", "--producer-id", str(listing.producer_id), "--state", "Ongoing")
        assert told["transactionalId"] == site.id
        (told,) = objects(site, "describe-producers", "--topic", site.topic, "--partition", "2")
        assert told["currentTransactionStartOffset"] == 0
        assert admin.find_hanging(topic=site.topic, max_timeout_ms=-1) == [], "the coordinator will end it"
        producer.commit_transaction()
    wait_until(lambda: admin.describe_transactions([site.id])[site.id].state == "CompleteCommit", "committed")
    table = tool(site, "describe-producers", "--topic", site.topic, "--partition", "0").out
    assert [word.strip() for word in table[0].split("\t")][-1] == "CurrentTransactionStartOffset"
    assert [word.strip() for word in table[1].split("\t")][-1] == "None"


def test_fencing(site: Site, admin: TransactionsAdmin) -> None:
    with site.producer() as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(site.topic, b"open", partition=0).result(DEADLINE_S)
        identity = admin.fence_producers([site.id])[site.id]
        assert identity.producer_epoch > 0
        producer.send(site.topic, b"late", partition=1)
        with pytest.raises((FencedError, AbortableTransactionError)):
            producer.commit_transaction()
    assert site.read() == []


def test_what_the_tool_refuses(site: Site) -> None:
    for action, words, message in (
        ("abort", ("--topic", "t", "--partition", "0"), "give --start-offset"),
        ("abort", ("--topic", "t", "--partition", "0", "--producer-id", "1"), "--producer-epoch is missing"),
        (
            "abort",
            ("--topic", "t", "--partition", "0", "--producer-id", "1", "--start-offset", "0"),
            "takes the place of",
        ),
        ("find-hanging", (), "needs --topic or --broker-id"),
        ("find-hanging", ("--broker-id", "0", "--partition", "0"), "--partition needs --topic"),
    ):
        assert message in tool(site, action, *words, check=2).err
    missing = tool(site, "abort", "--topic", site.topic, "--partition", "0", "--start-offset", "7", check=1)
    assert "starts at offset 7" in missing.err
    unknown = tool(site, "describe", "--transactional-id", f"{site.id}-no", check=1)
    assert f"{site.id}-no" in unknown.err


def test_a_hanging_transaction(start_broker: Callable[..., KafkalogBroker]) -> None:
    """A batch that no coordinator knows of keeps read_committed consumers waiting, until it is found and aborted."""
    broker = start_broker({"transaction.partition.verification.enable": "false"})
    site = Site(broker.bootstrap)
    tp = TopicPartition(site.topic, 1)
    with Cluster(site.config()) as cluster, TransactionsAdmin(site.config(), cluster=cluster) as admin:
        hang(cluster, tp)
        assert not site.stable()
        assert admin.find_hanging(topic=site.topic) == [], "it is young"
        (found,) = admin.find_hanging(topic=site.topic, max_timeout_ms=-1)
        assert (found.partition, found.producer.start_offset) == (tp, 0)
        (node_id,) = cluster.metadata([]).brokers
        assert admin.find_hanging(broker_id=node_id, max_timeout_ms=-1) == [found]
        assert admin.find_hanging(topic=site.topic, partition=0, max_timeout_ms=-1) == []
        with pytest.raises(InvalidProducerEpochError):
            admin.abort_transaction(tp, found.producer.producer_id, found.producer.producer_epoch - 1)
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.abort_transaction(TopicPartition(site.topic, 9), 1, 0)
        at_once = ("find-hanging", "--topic", site.topic, "--max-transaction-timeout", "0")
        wait_until(lambda: objects(site, *at_once) != [], "it is older than a millisecond", DEADLINE_S)
        (told,) = objects(site, *at_once)
        assert (told["partition"], told["startOffset"], told["durationMinutes"]) == (1, 0, 0)
        where = ("--topic", site.topic, "--partition", "1")
        tool(site, "abort", *where, "--start-offset", "0")
        assert admin.find_hanging(topic=site.topic, max_timeout_ms=-1) == []
        assert site.read() == []
        hang(cluster, tp)
        (again,) = admin.find_hanging(topic=site.topic, max_timeout_ms=-1)
        who = ("--producer-id", str(again.producer.producer_id), "--producer-epoch", "5", "--coordinator-epoch", "-1")
        tool(site, "abort", *where, *who)
        assert site.read() == []


def hang(cluster: Cluster, tp: TopicPartition) -> None:
    """Write a batch of a transaction that was never begun."""
    answer = cluster.request_any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
    now = int(time.time() * 1000)
    batch = encode_batch(
        [Record(0, now, value=b"hanging")],
        producer_id=answer.producer_id,
        producer_epoch=5,
        base_sequence=0,
        is_transactional=True,
    )
    request = ProduceRequest(
        transactional_id="hangs",
        acks=-1,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(name=tp.topic, partition_data=[PartitionProduceData(index=tp.partition, records=batch)])
        ],
    )
    produced = cluster.request_to(cluster.leader(tp).broker.node_id, request)
    assert produced.responses[0].partition_responses[0].error_code == 0


def test_what_hangs() -> None:
    def late(partition: int, producer_id: int) -> HangingTransaction:
        return HangingTransaction(TopicPartition("t", partition), ProducerState(producer_id, 0, 0, 0, None, 0))

    known = {1: {TopicPartition("t", 0)}, 2: set[TopicPartition]()}
    all_of_them = [late(1, 1), late(0, 1), late(0, 2), late(0, 3)]
    assert hanging(all_of_them, known) == [late(0, 2), late(0, 3), late(1, 1)]


def test_where_to_look() -> None:
    with TransactionsAdmin(ClientConfig.from_dict({"bootstrap.servers": "localhost:1"})) as admin:
        with pytest.raises(ValueError, match="a topic or a broker"):
            admin.find_hanging()
        with pytest.raises(ValueError, match="needs its topic"):
            admin.find_hanging(broker_id=0, partition=1)


def test_produce_in_a_transaction(site: Site) -> None:
    words: tuple[str, ...] = ("produce", "--bootstrap-server", site.bootstrap, "--topic", site.topic)
    words += ("--producer-property", f"transactional.id={site.id}")
    run(*words, stdin=b"one\ntwo\n")
    refused = run(*words, "--property", "parse.key=true", stdin=b"k\tlost\nno separator\n", check=1)
    assert b"no key separator" in refused.stderr
    assert sorted(filter(None, site.read())) == [b"one", b"two"]
