"""Consumer connectors with the real ZooKeeper and a broker of ours."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.connector import (
    ConsumerConnector,
    ConsumerRebalanceFailedError,
    ConsumerTimeoutError,
    MessageStream,
    MessageStreamsExistError,
    Whitelist,
)
from kafkalog.client.connector.member import StopFetching
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper.steps import ConnectionLossError, ZooKeeperError
from tests.kafkalog.client.connector.reading import Reading
from tests.support.member import MemberCluster
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import wait_until

Connect = Callable[..., ConsumerConnector]
DEADLINE_S = 60.0


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def connect(over_zookeeper: MemberCluster, group: str) -> Iterator[Connect]:
    """Make connectors of the test's group; properties are written with underscores. All are shut down."""
    with ExitStack() as stack:

        def make(**properties: Any) -> ConsumerConnector:
            named = {key.replace("_", "."): value for key, value in properties.items()}
            defaults = {
                "zookeeper.connect": over_zookeeper.zookeeper,
                "group.id": group,
                "auto.offset.reset": "smallest",
                "rebalance.backoff.ms": 200,
                # Another member may need longer than the four tries of the default to give its partitions up.
                "rebalance.max.retries": 50,
                "consumer.timeout.ms": 60_000,
            }
            return stack.enter_context(ConsumerConnector({**defaults, **named}))

        yield make


def numbers(stream: MessageStream, count: int) -> list[int]:
    return [int(next(stream).value or b"") for _ in range(count)]


def test_a_member_reads_all_and_goes_on_where_it_ended(
    over_zookeeper: MemberCluster, connect: Connect, group: str
) -> None:
    topic = over_zookeeper.new_topic(4)
    over_zookeeper.write(topic, 4, 0, 40)
    first = connect()
    (stream,) = first.create_message_streams({topic: 1})[topic]
    assert sorted(numbers(stream, 40)) == list(range(40))
    assert set(over_zookeeper.owners(group, topic).values()) == {f"{first.consumer_id}-0"}
    first.shutdown()
    assert over_zookeeper.offsets(group, topic) == dict.fromkeys(range(4), 10)
    assert not over_zookeeper.owners(group, topic)
    assert not over_zookeeper.names(f"/consumers/{group}/ids")
    over_zookeeper.write(topic, 4, 40, 4)
    (stream,) = connect().create_message_streams({topic: 1})[topic]
    assert sorted(numbers(stream, 4)) == [40, 41, 42, 43]


def test_members_share_partitions_and_nothing_is_missed(
    over_zookeeper: MemberCluster, connect: Connect, group: str
) -> None:
    topic = over_zookeeper.new_topic(5)
    first, second = connect(), connect()
    one = Reading(*first.create_message_streams({topic: 2})[topic])
    two = Reading(*second.create_message_streams({topic: 1})[topic])
    everything = {TopicPartition(topic, number) for number in range(5)}
    wait_until(
        lambda: len(first.assignment()) == 4 and first.assignment() | second.assignment() == everything,
        "both own their partitions",
    )
    over_zookeeper.write(topic, 5, 0, 50)
    wait_until(lambda: len(one.values) + len(two.values) >= 50, "all is read")
    assert sorted(one.values + two.values) == list(range(50))
    first.shutdown()
    wait_until(lambda: second.assignment() == everything, "the other takes over")
    over_zookeeper.write(topic, 5, 50, 10)
    two.wait(len([each for each in two.values if each < 50]) + 10)
    assert sorted(one.values + two.values) == list(range(60))


def test_filters_find_new_topics_and_partitions(over_zookeeper: MemberCluster, connect: Connect) -> None:
    name = over_zookeeper.new_topic(1)
    (stream,) = connect().create_message_streams_by_filter(Whitelist(f"{name}.*"))
    over_zookeeper.write(name, 1, 0, 1)
    assert numbers(stream, 1) == [0]
    over_zookeeper.make_topic(f"{name}-more", 2)
    over_zookeeper.write(f"{name}-more", 2, 10, 4)
    assert sorted(numbers(stream, 4)) == [10, 11, 12, 13]


def test_a_member_that_is_cut_off_stops_and_comes_back(
    over_zookeeper: MemberCluster, connect: Connect, group: str
) -> None:
    topic = over_zookeeper.new_topic(2)
    host, _, port = over_zookeeper.zookeeper.partition(":")
    proxy = Proxy((host, int(port)), seed=1)
    first = connect(zookeeper_connect=f"127.0.0.1:{proxy.port}", zookeeper_session_timeout_ms=2000)
    (stream,) = first.create_message_streams({topic: 1})[topic]
    over_zookeeper.write(topic, 2, 0, 20)
    got = numbers(stream, 5)
    proxy.shut = True
    proxy.hang_up()
    second = connect()
    other = Reading(*second.create_message_streams({topic: 1})[topic])
    wait_until(lambda: len(second.assignment()) == 2, "the other owns all")
    # The first one has records, but no lease.
    assert stream.poll(0.0, 1) == []
    other.wait(20)
    proxy.shut = False
    wait_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, "both own one again")
    over_zookeeper.write(topic, 2, 20, 2)
    ours = numbers(stream, 1)
    wait_until(lambda: set(other.values) | set(got) | set(ours) >= set(range(22)), "all is read")

    def owners() -> set[str]:
        return {each.rpartition("-")[0] for each in over_zookeeper.owners(group, topic).values()}

    # Its session is short, and may have ended once more.
    wait_until(lambda: first.consumer_id in owners(), "it owns a partition again")


def test_manual_commits(over_zookeeper: MemberCluster, connect: Connect, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 10)
    connector = connect(auto_commit_enable=False)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    numbers(stream, 3)
    assert connector.commit_offsets()
    numbers(stream, 3)
    connector.shutdown()
    assert over_zookeeper.offsets(group, topic) == {0: 3}


def test_automatic_commits(over_zookeeper: MemberCluster, connect: Connect, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 10)
    (stream,) = connect(auto_commit_interval_ms=50).create_message_streams({topic: 1})[topic]
    numbers(stream, 7)
    wait_until(lambda: over_zookeeper.offsets(group, topic) == {0: 7}, "the offset is committed")


def test_offsets_beyond_the_log_are_reset(over_zookeeper: MemberCluster, connect: Connect, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 3)
    over_zookeeper.nodes.create(f"/consumers/{group}/offsets/{topic}/0", b"1000", makepath=True)
    (stream,) = connect().create_message_streams({topic: 1})[topic]
    assert numbers(stream, 3) == [0, 1, 2]


def test_the_largest_offset_is_the_start_without_another(
    over_zookeeper: MemberCluster, connect: Connect, group: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 5)
    connector = connect(auto_offset_reset="largest", auto_commit_interval_ms=50)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    # Even where nothing was read, the end that it began at is kept.
    wait_until(lambda: over_zookeeper.offsets(group, topic) == {0: 5}, "the offset is committed")
    over_zookeeper.write(topic, 1, 5, 1)
    assert numbers(stream, 1) == [5]


def test_a_silence_ends_a_read(over_zookeeper: MemberCluster, connect: Connect) -> None:
    topic = over_zookeeper.new_topic(1)
    (stream,) = connect(consumer_timeout_ms=10).create_message_streams({topic: 1})[topic]
    with pytest.raises(ConsumerTimeoutError):
        next(stream)


class Finishing:
    """A listener that notes what `poll` has returned, and commits it if it is told to."""

    def __init__(self, connector: ConsumerConnector, *, commits: bool = False, fails: bool = False) -> None:
        self.streams: list[MessageStream] = []
        self.calls: list[set[TopicPartition]] = []
        self._connector, self._commits, self._fails = connector, commits, fails
        connector.set_rebalance_listener(self)

    def before_releasing_partitions(self, partitions: Set[TopicPartition]) -> None:
        self.calls.append(set(partitions))
        if self._fails:
            raise RuntimeError("not today")
        for stream in self.streams:
            stream.consumed()
        if self._commits:
            assert self._connector.commit_offsets()


@pytest.mark.parametrize("commits", [False, True])
def test_a_listener_finishes_with_partitions_before_they_are_released(
    over_zookeeper: MemberCluster, connect: Connect, group: str, commits: bool
) -> None:
    topic = over_zookeeper.new_topic(2)
    over_zookeeper.write(topic, 2, 0, 20)
    first, second = connect(auto_commit_enable=not commits, auto_commit_interval_ms=3_600_000), connect()
    listener = Finishing(first, commits=commits)
    (stream,) = listener.streams = first.create_message_streams({topic: 1})[topic]
    for _ in range(2):
        assert len(stream.poll(60.0, 20)) == 10, "a poll returns the records of one partition"
    other = Reading(*second.create_message_streams({topic: 1})[topic])
    wait_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, "both own one")
    assert listener.calls[0] == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert over_zookeeper.offsets(group, topic) == {0: 10, 1: 10}
    over_zookeeper.write(topic, 2, 20, 2)
    other.wait(1)
    assert set(other.values) < {20, 21}, "the other has read nothing again"
    first.shutdown()
    assert len(listener.calls) == 1


def test_a_listener_that_fails_holds_nothing_up(
    over_zookeeper: MemberCluster, connect: Connect, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = over_zookeeper.new_topic(2)
    over_zookeeper.write(topic, 2, 0, 20)
    first, second = connect(), connect()
    listener = Finishing(first, fails=True)
    (stream,) = first.create_message_streams({topic: 1})[topic]
    wait_until(lambda: bool(stream.poll(0.1, 5)), "something is read")
    other = Reading(*second.create_message_streams({topic: 1})[topic])
    wait_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, "both own one")
    # What was polled is settled now, and was not consumed.
    stream.consumed()
    other.wait(10)
    assert len(listener.calls) == 1
    assert "the rebalance listener failed" in caplog.text


class Ending:
    """A listener that shuts its connector down."""

    def __init__(self, connector: ConsumerConnector) -> None:
        self.has_ended = threading.Event()
        self._connector = connector
        connector.set_rebalance_listener(self)

    def before_releasing_partitions(self, partitions: Set[TopicPartition]) -> None:
        self._connector.shutdown()
        self.has_ended.set()


@pytest.mark.parametrize("is_automatic", [True, False])
def test_a_listener_may_shut_the_connector_down(
    over_zookeeper: MemberCluster, connect: Connect, group: str, is_automatic: bool, caplog: pytest.LogCaptureFixture
) -> None:
    topic = over_zookeeper.new_topic(2)
    over_zookeeper.write(topic, 2, 0, 20)
    first, second = connect(auto_commit_enable=is_automatic), connect()
    listener = Ending(first)
    (stream,) = first.create_message_streams({topic: 1})[topic]
    assert sorted(numbers(stream, 20)) == list(range(20))
    second.create_message_streams({topic: 1})
    assert listener.has_ended.wait(DEADLINE_S), "the shutdown returns"
    assert list(stream) == [], "the stream has ended"
    assert over_zookeeper.offsets(group, topic) == ({0: 10, 1: 10} if is_automatic else {})
    wait_until(lambda: len(second.assignment()) == 2, "the other takes over")
    assert over_zookeeper.names(f"/consumers/{group}/ids") == [second.consumer_id]
    for thread in first._threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert not first.assignment()
    ours = [each for each in caplog.records if each.name.startswith("kafkalog.client.connector")]
    assert not [each.getMessage() for each in ours if each.levelno >= logging.WARNING]


def test_partitions_that_are_lost_are_not_committed(
    over_zookeeper: MemberCluster, connect: Connect, group: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 3)
    connector = connect(auto_commit_interval_ms=3_600_000)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert numbers(stream, 3) == [0, 1, 2]
    connector._perform(StopFetching(are_lost=True))
    connector.shutdown()
    assert over_zookeeper.offsets(group, topic) == {}


IN_KAFKA = {"offsets_storage": "kafka", "dual_commit_enabled": False, "auto_commit_interval_ms": 3_600_000}


class InKafka:
    """The offsets of a group in Kafka."""

    def __init__(self, address: str, group: str) -> None:
        self._address, self._group = address, group

    def of(self, tp: TopicPartition) -> int | None:
        with Cluster(ClientConfig.from_dict({"bootstrap.servers": self._address})) as cluster:
            return GroupOffsets(cluster, self._group).committed([tp]).get(tp)

    def commit(self, tp: TopicPartition, offset: int) -> None:
        """Commit as another member does."""
        with Cluster(ClientConfig.from_dict({"bootstrap.servers": self._address})) as cluster:
            GroupOffsets(cluster, self._group).commit({tp: offset})


@pytest.fixture
def in_kafka(over_zookeeper: MemberCluster, group: str) -> InKafka:
    return InKafka(over_zookeeper.bootstrap, group)


def test_a_member_that_is_cut_off_commits_nothing_to_kafka(
    over_zookeeper: MemberCluster, connect: Connect, in_kafka: InKafka
) -> None:
    tp = TopicPartition(over_zookeeper.new_topic(1), 0)
    over_zookeeper.write(tp.topic, 1, 0, 10)
    host, _, port = over_zookeeper.zookeeper.partition(":")
    proxy = Proxy((host, int(port)), seed=1)
    first = connect(zookeeper_connect=f"127.0.0.1:{proxy.port}", zookeeper_session_timeout_ms=2000, **IN_KAFKA)
    (stream,) = first.create_message_streams({tp.topic: 1})[tp.topic]
    numbers(stream, 3)
    assert first.commit_offsets()
    numbers(stream, 1)
    proxy.shut = True
    proxy.hang_up()
    second = connect(**IN_KAFKA)
    (other,) = second.create_message_streams({tp.topic: 1})[tp.topic]
    assert numbers(other, 7) == list(range(3, 10))
    assert second.commit_offsets()
    # The brokers answer, and would take it.
    assert not first.commit_offsets(retry=False)
    first.shutdown()
    assert in_kafka.of(tp) == 10
    proxy.close()


def test_what_was_released_is_not_committed_again(
    over_zookeeper: MemberCluster, connect: Connect, group: str, in_kafka: InKafka
) -> None:
    tp = TopicPartition(over_zookeeper.new_topic(1), 0)
    over_zookeeper.write(tp.topic, 1, 0, 10)
    connector = connect(rebalance_backoff_ms=3_600_000, **IN_KAFKA)
    (stream,) = connector.create_message_streams({tp.topic: 1})[tp.topic]
    numbers(stream, 3)
    # With this node in its way it releases its partition and waits.
    over_zookeeper.nodes.create(f"/consumers/{group}/owners/{tp.topic}/1", b"somebody-0", makepath=True)
    with Admin({"bootstrap.servers": over_zookeeper.bootstrap}) as admin:
        admin.create_partitions({tp.topic: 2})
    wait_until(lambda: over_zookeeper.owners(group, tp.topic) == {1: "somebody-0"}, "the partition is released")
    assert in_kafka.of(tp) == 3
    in_kafka.commit(tp, 10)
    assert not connector.commit_offsets()
    connector.shutdown()
    assert in_kafka.of(tp) == 10


def test_what_an_expired_session_has_read_is_not_committed_to_kafka(
    over_zookeeper: MemberCluster, connect: Connect, in_kafka: InKafka
) -> None:
    tp = TopicPartition(over_zookeeper.new_topic(1), 0)
    over_zookeeper.write(tp.topic, 1, 0, 10)
    connector = connect(**IN_KAFKA)
    (stream,) = connector.create_message_streams({tp.topic: 1})[tp.topic]
    numbers(stream, 3)
    # As kazoo tells it; the member's thread has not heard of it yet.
    connector._lease.end()
    assert not connector.commit_offsets(retry=False)
    connector.shutdown()
    assert in_kafka.of(tp) is None


class Waiting:
    """A listener that needs longer than the lease lasts."""

    def __init__(self, connector: ConsumerConnector) -> None:
        self._connector = connector
        connector.set_rebalance_listener(self)

    def before_releasing_partitions(self, partitions: Set[TopicPartition]) -> None:
        wait_until(lambda: not self._connector._lease.holds(time.monotonic()), "the lease has run out")


def test_what_was_read_is_committed_to_kafka_before_the_release_however_long_that_takes(
    over_zookeeper: MemberCluster, connect: Connect, in_kafka: InKafka
) -> None:
    tp = TopicPartition(over_zookeeper.new_topic(2), 0)
    over_zookeeper.write(tp.topic, 2, 0, 20)
    first = connect(zookeeper_session_timeout_ms=2000, **IN_KAFKA)
    Waiting(first)
    (stream,) = first.create_message_streams({tp.topic: 1})[tp.topic]
    numbers(stream, 20)
    second = connect()
    second.create_message_streams({tp.topic: 1})
    wait_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, "both own one")
    assert [in_kafka.of(each) for each in (tp, TopicPartition(tp.topic, 1))] == [10, 10]


def test_streams_are_made_once(over_zookeeper: MemberCluster, connect: Connect) -> None:
    topic = over_zookeeper.new_topic(1)
    connector = connect()
    connector.create_message_streams({topic: 1})
    with pytest.raises(MessageStreamsExistError):
        connector.create_message_streams_by_filter(Whitelist(topic))
    with pytest.raises(MessageStreamsExistError):
        Finishing(connector)


def test_streams_can_be_made_after_a_registration_that_failed(
    over_zookeeper: MemberCluster, connect: Connect, group: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 3)
    host, _, port = over_zookeeper.zookeeper.partition(":")
    proxy = Proxy((host, int(port)), seed=1)
    connector = connect(zookeeper_connect=f"127.0.0.1:{proxy.port}", zookeeper_session_timeout_ms=2000)
    proxy.shut = True
    proxy.hang_up()
    with pytest.raises(ZooKeeperError):
        connector.create_message_streams({topic: 1})
    proxy.shut = False
    found: list[MessageStream] = []

    def made() -> bool:
        # kazoo may need some time to connect again.
        with suppress(ZooKeeperError):
            found.extend(connector.create_message_streams({topic: 1})[topic])
        return bool(found)

    wait_until(made, "the streams are made")
    assert numbers(found[0], 3) == [0, 1, 2]
    connector.shutdown()
    assert not over_zookeeper.names(f"/consumers/{group}/ids")
    proxy.close()


def test_a_partition_that_stays_owned_fails_the_first_rebalance(
    over_zookeeper: MemberCluster, connect: Connect, group: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 1)
    path = f"/consumers/{group}/owners/{topic}/0"
    over_zookeeper.nodes.create(path, b"somebody-0", makepath=True)
    connector = connect(rebalance_max_retries=2, rebalance_backoff_ms=10)
    with pytest.raises(ConsumerRebalanceFailedError, match="after 2 retries"):
        connector.create_message_streams({topic: 1})
    over_zookeeper.nodes.delete(path)
    wait_until(lambda: len(connector.assignment()) == 1, "the member goes on trying")


def test_a_zookeeper_that_does_not_answer_is_named() -> None:
    with pytest.raises(ConnectionLossError, match=r"no ZooKeeper answers at 127\.0\.0\.1:1 "):
        ConsumerConnector({"zookeeper.connect": "127.0.0.1:1", "group.id": "g", "zookeeper.connection.timeout.ms": 200})
