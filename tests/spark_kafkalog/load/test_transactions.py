"""Test that loads go on where the last one ended if they begin to wait for transactions."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.spark_kafkalog.load.loading import Loading
from tests.spark_kafkalog.topics import numbers

COMMITTED = {"isolation.level": "read_committed"}


def test_an_open_transaction_is_no_new_topic(local_loading: Loading) -> None:
    """The last load ended at the high watermark. Now the end is the last stable offset, which lies before that."""
    topics = local_loading.topics
    topic = topics.create("open", 2)
    topics.produce(topic, numbers(3), partition=0)
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for value in numbers(4, 3):
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    first = local_loading.load(topic).document
    assert first is not None
    assert first.ends == {0: 7, 1: 0}

    assert local_loading.load(topic, properties=COMMITTED).document is None
    topics.produce(topic, numbers(5), partition=1)
    second = local_loading.load(topic, properties=COMMITTED).document
    assert second is not None
    assert second.ends == {0: 7, 1: 5}

    producer.commit_transaction()
    topics.produce(topic, numbers(2, 7), partition=0)
    third = local_loading.load(topic, properties=COMMITTED).document
    assert third is not None
    # The marker of the commit has an offset.
    assert (third.rows, third.ends) == (2, {0: 10, 1: 5})
    values = [value for (partition, _), value in sorted(local_loading.check(topic).items()) if partition == 0]
    assert values == numbers(9)
