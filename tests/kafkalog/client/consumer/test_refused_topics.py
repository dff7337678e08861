"""Test that what is wrong with one topic or partition is told, and ends nothing else."""

from __future__ import annotations

import threading
from typing import Any, cast
from uuid import UUID

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer import ConsumerConfig, OffsetAndMetadata
from kafkalog.client.consumer.fetcher.metadata_watcher import MetadataWatcher
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from kafkalog.client.types import EARLIEST
from kafkalog.protocol.errors import ErrorCode, TopicAuthorizationFailedError
from tests.kafkalog.client.consumer.recreated import TP, Topic, reading
from tests.kafkalog.client.consumer.support import DEADLINE_S

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


@pytest.mark.parametrize(
    "wanted", [-1, 1 << 63, OffsetAndMetadata(0, leader_epoch=1 << 31), OffsetAndMetadata(0, leader_epoch=-2)]
)
def test_a_position_that_no_request_can_hold_is_refused_at_once(wanted: int | OffsetAndMetadata) -> None:
    """Otherwise the fetches of all partitions of its leader would fail."""
    with reading(Topic()) as consumer:
        consumer.seek(TP, (1 << 63) - 1)
        with pytest.raises(ValueError, match="offset"):
            consumer.seek(TP, wanted)
        assert consumer.position(TP) == (1 << 63) - 1


@pytest.mark.parametrize("count", [0, -1])
def test_no_records_at_all_are_nothing_to_wait_for(count: int) -> None:
    with reading(Topic()) as consumer:
        for ask in (consumer.consume, lambda count: consumer.poll(DEADLINE_S, count)):
            with pytest.raises(ValueError, match="ask for one at least"):
                ask(count)
