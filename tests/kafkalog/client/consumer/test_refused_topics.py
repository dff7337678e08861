"""Test that what is wrong with one topic or partition is told, and ends nothing else."""

from __future__ import annotations

import threading
from typing import Any, cast
from uuid import UUID

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer import ConsumerConfig
from kafkalog.client.consumer.fetcher.metadata_watcher import MetadataWatcher
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from kafkalog.client.types import EARLIEST
from kafkalog.protocol.errors import ErrorCode, TopicAuthorizationFailedError
from tests.kafkalog.client.consumer.support import DEADLINE_S
from tests.kafkalog.client.consumer.test_created_again import TP, Topic, reading

pytestmark = pytest.mark.timeout(300)
CONFIG = ConsumerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"})
READ = TopicMetadata("read", UUID(int=1), False, {0: PartitionMetadata(0, 1, 1, (), (), ())})
SECRET = TopicMetadata("secret", UUID(int=0), False, {}, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Described:
    """Takes the place of a cluster with two topics, one of which may not be read."""

    def metadata(self, topics: frozenset[str], **given: Any) -> ClusterMetadata:
        return ClusterMetadata(topics={"secret": SECRET, "read": READ})


def test_metadata_of_the_other_topics_is_used() -> None:
    """Their partitions may have changed, so that their group must rebalance."""
    told: list[ClusterMetadata] = []
    answered = threading.Event()
    subscription = SubscriptionState()
    subscription.subscribe(["secret", "read"])
    watcher = MetadataWatcher(CONFIG, cast(Cluster, Described()), subscription, Monitor(), told.append, answered.set)
    try:
        watcher.step()
        assert answered.wait(DEADLINE_S)
        with pytest.raises(TopicAuthorizationFailedError, match="topic secret"):
            watcher.step()
    finally:
        watcher.stop()
    assert [sorted(each.topics) for each in told] == [["read", "secret"]]


def test_a_position_is_looked_for_again_after_an_error() -> None:
    with reading(Topic()) as consumer:
        state = consumer._subscription.state(TP)
        with consumer._monitor.lock:
            state.look_up(EARLIEST)
            state.error = TopicAuthorizationFailedError("not now")
        with pytest.raises(TopicAuthorizationFailedError, match="not now"):
            consumer.position(TP)
        assert consumer.position(TP) == 0
