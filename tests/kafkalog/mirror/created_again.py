"""Topics that are deleted and created again."""

from __future__ import annotations

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.protocol.errors import TopicAlreadyExistsError
from tests.kafkalog.mirror.conftest import Clusters
from tests.support.waiting import wait_until


def create_again(clusters: Clusters, topic: str, partitions: int = 1) -> None:
    with Admin(clusters.client("source")) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")
        # With ZooKeeper, brokers forget a topic before its deletion has ended.
        wait_until(lambda: _creates(admin, NewTopic(topic, partitions, 1)), "the topic is created again")


def _creates(admin: Admin, topic: NewTopic) -> bool:
    try:
        admin.create_topics([topic])
    except TopicAlreadyExistsError:
        return False
    return True
