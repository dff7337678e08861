"""Tests of the coordinators' metrics, and of expirations that they count."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.broker.api.groups.groups_support import commit, committed, join, leave, member, ready
from tests.broker.config.support import alter_all_brokers
from tests.broker.metrics.support import Samples, of, scrape
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.requests.transactions import WireProducer
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, exchange, produce

StartBroker = Callable[..., KafkalogBroker]

SETTINGS = {
    "kafkalog.metrics.listener": "127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
}
GROUPS = "kafka_coordinator_group_groupmetadatamanager"
GROUP_COUNTS = "kafka_server_group_coordinator_metrics"
TRANSACTIONS = "kafka_server_transaction_coordinator_metrics"
MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
PRODUCER_IDS = "kafka_server_replicamanager_produceridcount"
STATES = ("preparingrebalance", "completingrebalance", "stable", "empty", "dead")


def by_state(samples: Samples) -> dict[str, float]:
    """The states that any classic group is in."""
    counts = {state: of(samples, f"{GROUPS}_numgroups{state}") for state in STATES}
    return {state: count for state, count in counts.items() if count}


def test_groups_are_told_by_state_with_what_was_done_to_them(start_broker: StartBroker) -> None:
    broker = start_broker(SETTINGS)
    with broker.connect() as wire:
        create_topic(wire, "t", 2)
        ready(wire, "simple")
        assert by_state(scrape(broker)) == {}
        assert commit(wire, "simple", {("t", 0): 5, ("t", 1): 6}) == [0, 0]
        joined = member(wire, "stable")
        assert member(wire, "other").member_id
        assert join(wire, "joining").error_code == ErrorCode.NONE
        now = scrape(broker)
        assert by_state(now) == {"stable": 2, "completingrebalance": 1, "empty": 1}
        assert of(now, f"{GROUPS}_numgroups") == 4
        assert of(now, f"{GROUPS}_numoffsets") == 2
        assert of(now, f"{GROUP_COUNTS}_offset_commit_count_total") == 2
        assert of(now, f"{GROUP_COUNTS}_group_completed_rebalance_count_total") == 2
        assert leave(wire, "stable", joined) == ErrorCode.NONE
        topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        deleted = exchange(wire, OffsetDeleteRequest(group_id="simple", topics=[topic]), 0)
        assert deleted.error_code == ErrorCode.NONE
        now = scrape(broker)
        assert by_state(now) == {"stable": 1, "completingrebalance": 1, "empty": 2}
        assert of(now, f"{GROUPS}_numoffsets") == 1
        assert of(now, f"{GROUP_COUNTS}_offset_deletion_count_total") == 1
    broker.stop()
    broker.start()
    with broker.connect() as wire:
        for group in ("simple", "stable", "other", "joining"):
            ready(wire, group)
        now = scrape(broker)
        # Of the one that was joining nothing is stored yet.
        assert by_state(now) == {"stable": 1, "empty": 2}
        assert of(now, f"{GROUPS}_numoffsets") == 1
        loaded = of(now, f"{GROUP_COUNTS}_partition_load_time_ms_count")
        assert 1 <= loaded <= 3
        assert of(now, f"{GROUP_COUNTS}_partition_load_time_ms_sum") >= 0
        assert of(now, f"{GROUP_COUNTS}_offset_commit_count_total") == 0


def test_transactions(start_broker: StartBroker) -> None:
    refused = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total"
    broker = start_broker(SETTINGS)
    with broker.connect() as wire:
        create_topic(wire, "t")
        producer = WireProducer(wire, "id")
        producer.init()
        assert of(scrape(broker), f"{TRANSACTIONS}_partition_load_time_ms_count") == 0
        assert producer.try_produce("t", 0, b"not added") is not ErrorCode.NONE
        producer.write("t", 0, b"x")
        producer.end(committed=True)
        # What is added next waits for the markers.
        producer.add("t", 0)
        now = scrape(broker)
        assert of(now, refused) == 1
        assert of(now, f"{MARKERS}_unknowndestinationqueuesize") == 0
        assert of(now, f"{MARKERS}_logappendretryqueuesize") == 0
    broker.stop()
    broker.start()
    with broker.connect() as wire:
        WireProducer(wire, "id").init()
        now = scrape(broker)
        assert of(now, f"{TRANSACTIONS}_partition_load_time_ms_count") == 1
        assert of(now, f"{TRANSACTIONS}_partition_load_time_ms_sum") >= 0


def test_offsets_expire_by_themselves(start_broker: StartBroker) -> None:
    expired = f"{GROUP_COUNTS}_offset_expiration_count_total"
    broker = start_broker({**SETTINGS, "offsets.retention.check.interval.ms": "100"})
    with broker.connect() as wire:
        create_topic(wire, "t", 2)
        ready(wire, "g")
        assert commit(wire, "g", {("t", 0): 5}) == [0]
        # The retention of these versions is the client's.
        assert commit(wire, "g", {("t", 1): 6}, version=4, retention_time_ms=1) == [0]
        wait_until(lambda: of(scrape(broker), expired) == 1, "an offset expires")
        assert committed(wire, "g") == {("t", 0): 5}
        assert of(scrape(broker), f"{GROUPS}_numoffsets") == 1


def test_idle_producers_are_forgotten_by_themselves(start_broker: StartBroker) -> None:
    broker = start_broker({**SETTINGS, "producer.id.expiration.check.interval.ms": "100"})
    with broker.connect() as wire:
        create_topic(wire, "t")
        # A producer is forgotten by its newest timestamp: one of before would be gone at the next check.
        now_ms = time.time_ns() // 1_000_000
        records = batch([b"x"], timestamp=now_ms, producer_id=77, producer_epoch=0, base_sequence=0)
        assert produce(wire, "t", records).error_code == ErrorCode.NONE
        assert of(scrape(broker), PRODUCER_IDS) == 1
        alter_all_brokers(wire, "producer.id.expiration.ms", "1")
        wait_until(lambda: of(scrape(broker), PRODUCER_IDS) == 0, "the producer is forgotten")
