"""Transactions that are committed or aborted."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.spark_kafkalog.topics import DEADLINE_S, Topics


def transact(topics: Topics, topic: str, parts: list[tuple[list[bytes], bool]], identity: str = "t") -> None:
    """Transactions one after another; each is committed or aborted."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": f"{topic}-{identity}"})
    producer.init_transactions(DEADLINE_S)
    for values, commit in parts:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        # What is aborted must have been written before.
        producer.flush(DEADLINE_S)
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
