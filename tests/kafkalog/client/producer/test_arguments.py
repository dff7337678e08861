"""Test that a call about one topic is about no other: wrong arguments, and the age of metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.producer import Producer
from tests.kafkalog.client.consumer.support import DEADLINE_S
from tests.support.waiting import wait_until

WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"topic": "\ud800"}, ValueError),
    ({"topic": "x" * 40_000}, ValueError),
    ({"topic": 5}, TypeError),
    ({"topic": b"t"}, TypeError),
    ({"timestamp": 1.5e12}, TypeError),
    ({"timestamp": -1}, ValueError),
]


@pytest.mark.parametrize(("wrong", "kind"), WRONG, ids=repr)
def test_others_are_served(
    broker_address: str, new_topic: Callable[..., str], wrong: dict[str, Any], kind: type[Exception]
) -> None:
    topic = new_topic()
    with Producer({"bootstrap.servers": broker_address, "linger.ms": 1000}) as producer:
        before = producer.send(topic, b"before")
        with pytest.raises(kind):
            producer.send(**{"topic": topic, "value": b"wrong", **wrong})
        after = producer.send(topic, b"after", timestamp=7)
        producer.flush()
        assert [before.result(DEADLINE_S).offset, after.result(DEADLINE_S).offset] == [0, 1]


def test_questions_about_one_topic_do_not_keep_the_metadata_of_another_young(
    broker_address: str, new_topic: Callable[..., str], admin: Admin
) -> None:
    topic, other = new_topic(), new_topic()
    with Producer({"bootstrap.servers": broker_address, "metadata.max.age.ms": 200}) as producer:
        assert producer.partitions_for(topic) == [0]
        admin.create_partitions({topic: 2})

        def is_known() -> bool:
            producer.partitions_for(other)
            return producer.known_partitions()[topic] == 2

        wait_until(is_known, "the new partition is known")


def test_partitions_are_told_without_a_transaction(broker_address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    with Producer({"bootstrap.servers": broker_address, "transactional.id": topic}) as producer:
        producer.init_transactions()
        assert producer.partitions_for(topic) == [0, 1, 2]
