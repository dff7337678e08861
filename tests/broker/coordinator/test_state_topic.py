"""Test that a key belongs to the partition that Java computes, and the settings of the internal topics."""

from __future__ import annotations

import pytest

from broker.config.server import BrokerConfig
from broker.coordinator.state_topic import (
    consumer_offsets_topic,
    partition_of,
    transaction_state_topic,
)
from kafkalog.storage.java_hash import java_hash


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("console-consumer-12345", 158_455_506),
        ("Grüße", 69_215_351),
        # Two UTF-16 units: 0xd83d and 0xde00.
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
        # Known to hash to the least int32.
        ("polygenelubricants", -(1 << 31)),
    ],
)
def test_strings_hash_as_in_java(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


def test_a_key_belongs_to_the_partition_of_its_absolute_hash() -> None:
    assert partition_of("hello", 50) == 99_162_322 % 50
    assert partition_of("console-consumer-12345", 50) == 158_455_506 % 50
    assert partition_of("polygenelubricants", 50) == 0


def test_topics_have_no_more_replicas_than_there_are_brokers() -> None:
    config = BrokerConfig({})
    offsets, transactions = consumer_offsets_topic(config, 1), transaction_state_topic(config, 1)
    assert (offsets.partitions, offsets.replication_factor) == (50, 1)
    assert offsets.config == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    assert (transactions.replication_factor, transactions.config["min.insync.replicas"]) == (1, "1")
    three = transaction_state_topic(config, 3)
    assert (three.replication_factor, three.config["min.insync.replicas"]) == (3, "2")
