"""Tests of metadata, leaders and retries."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import Consumer
from kafkalog.client.errors import (
    ClientTimeoutError,
    ConfigError,
    ConnectionFailedError,
    InvalidResponseError,
)
from kafkalog.client.metadata import Leader
from kafkalog.client.network.connection import Connection
from kafkalog.client.producer import Producer
from kafkalog.client.retry import UNKNOWN_TOPIC_TRIES, Retry
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    InvalidTopicError,
    LeaderNotAvailableError,
    NotControllerError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.kafkalog.client.support import TP, closed_port, config_for
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import ScriptedBroker, Silence, metadata
from tests.support.waiting import wait_until

BUSY_S = 60.0
"""The longest time in which a request may hold up those behind it."""


# Against a real broker


def test_topics_and_brokers_are_described(cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    found = cluster.metadata([topic])
    assert found.cluster_id
    assert found.controller_id in found.brokers
    assert sorted(found.topics[topic].partitions) == [0, 1, 2] == cluster.partitions(topic)
    for partition in found.topics[topic].partitions.values():
        assert partition.leader in found.brokers
        assert partition.isr == partition.replicas == (partition.leader,)
    assert topic in cluster.metadata().topics
    leader = cluster.leader(TopicPartition(topic, 2))
    assert leader.broker == found.brokers[leader.broker.node_id]
    assert leader.epoch >= 0


def test_a_topic_that_does_not_exist(cluster: Cluster) -> None:
    assert cluster.metadata(["no-such-topic"]).topics["no-such-topic"].error_code == 3
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        cluster.leader(TopicPartition("no-such-topic", 0))
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        cluster.partitions("no-such-topic")
    assert "no-such-topic" not in cluster.metadata().topics


def test_a_broker_that_does_not_know_its_cluster_yet_is_not_believed() -> None:
    """A broker of a cluster serves before the controller has told it of brokers and topics."""
    topic = MetadataResponseTopic(error_code=3, name="t")
    with ScriptedBroker() as broker:
        told = iter([MetadataResponse(topics=[topic]), metadata({1: broker}, {("t", 0): 1})])
        broker.handlers[MetadataRequest] = lambda request: next(told)
        with Cluster(config_for(broker)) as cluster:
            assert cluster.partitions("t") == [0]
            broker.handlers[MetadataRequest] = lambda request: MetadataResponse(topics=[topic])
            with pytest.raises(ClientTimeoutError, match=f"{broker.port} does not know its cluster yet"):
                cluster.metadata(["t"], refresh=True, deadline=time.monotonic() + 1.0)


def test_a_partition_that_does_not_exist(cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        cluster.leader(TopicPartition(topic, 2))


def test_a_name_that_no_topic_can_have(cluster: Cluster) -> None:
    with pytest.raises(InvalidTopicError, match="a/b"):
        cluster.partitions("a/b")


def test_a_restarted_broker_is_found_again(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    with Cluster(config_for(broker.bootstrap)) as cluster:
        before = cluster.metadata()
        broker.kill()
        with pytest.raises(ClientTimeoutError, match="refused"):
            cluster.metadata(refresh=True, deadline=time.monotonic() + 1.0)
        broker.start()
        assert cluster.metadata(refresh=True).cluster_id == before.cluster_id


def test_an_idle_connection_that_the_broker_closed_is_not_used(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"connections.max.idle.ms": "500"})
    with Cluster(config_for(broker.bootstrap)) as cluster:
        node_id = cluster.metadata().controller_id
        (slot,) = cluster._slots.values()
        assert slot.connection is not None
        assert slot.connection.readable(30)
        assert isinstance(cluster.request_to(node_id, MetadataRequest(topics=[])), MetadataResponse)


def test_threads_share_a_cluster(cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topics = [new_topic(count) for count in (1, 2, 3, 4)]
    seen: dict[str, set[int]] = {topic: set() for topic in topics}

    def look(topic: str, count: int) -> None:
        for _ in range(50):
            seen[topic].add(len(cluster.metadata([topic], refresh=True).topics[topic].partitions) - count)

    threads = [threading.Thread(target=look, args=(topic, count)) for count, topic in enumerate(topics, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {topic: {0} for topic in topics}


# Against brokers that do as they are told


def test_bootstrap_servers_are_missing() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        Cluster(ClientConfig())


def test_any_of_the_bootstrap_servers_will_do() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        for _ in range(4):
            with Cluster(config_for(closed_port(), server, closed_port())) as cluster:
                assert cluster.leader(TP).broker.port == server.port


def test_nobody_answers() -> None:
    first, second = closed_port(), closed_port()
    with Cluster(config_for(first, second, default_api_timeout_ms="200")) as cluster:
        with pytest.raises(ClientTimeoutError) as caught:
            cluster.metadata()
        assert first in str(caught.value)
        assert second in str(caught.value)
        assert isinstance(caught.value.__cause__, ConnectionFailedError)


def test_names_that_no_host_has() -> None:
    # One of them may come back; a wrong name is no outage.
    names = ("no-such-host.invalid:9092", "a..b:9092")
    with Cluster(config_for(*names)) as cluster:
        with pytest.raises(ConfigError, match=r"bootstrap\.servers names no host that can be found") as caught:
            cluster.metadata()
        assert all(name in str(caught.value) for name in names)
    port = closed_port()
    cluster = Cluster(config_for(*names, port, default_api_timeout_ms="200"))
    with cluster, pytest.raises(ClientTimeoutError, match=port):
        cluster.metadata()
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        with Cluster(config_for(*names, server)) as cluster:
            assert cluster.leader(TP).broker.port == server.port


def test_a_name_server_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up, failures = socket.getaddrinfo, iter(range(3))

    def fail_at_first(*words: Any, **options: Any) -> Any:
        if next(failures, None) is not None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return look_up(*words, **options)

    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        monkeypatch.setattr(socket, "getaddrinfo", fail_at_first)
        with Cluster(config_for(server)) as cluster:
            assert cluster.leader(TP).broker.port == server.port
    assert next(failures, None) is None


def test_clients_tell_of_names_that_no_host_has() -> None:
    servers = {"bootstrap.servers": "no-such-host.invalid:9092"}
    with Producer(servers) as producer, pytest.raises(ConfigError, match="no-such-host"):
        producer.send("t", b"v").result(BUSY_S)
    with Consumer(servers) as consumer:
        consumer.assign([TP])
        with pytest.raises(ConfigError, match="no-such-host"):
            consumer.poll(BUSY_S)
    with Consumer({**servers, "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(ConfigError, match="no-such-host"):
            consumer.poll(BUSY_S)
    with Admin(ClientConfig.from_dict(servers)) as admin, pytest.raises(ConfigError, match="no-such-host"):
        admin.topics.list_topics()


def test_a_server_that_is_no_broker_is_not_asked_again() -> None:
    with ScriptedBroker({MetadataRequest: lambda request: b"HTTP/1.1 400\r\n\r\n"}) as server:
        with Cluster(config_for(server)) as cluster, pytest.raises(InvalidResponseError, match="HTTP"):
            cluster.metadata()
        assert server.connections == 1


def test_metadata_is_kept_until_it_is_old() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1, ("u", 0): 1})
        with Cluster(config_for(server)) as cluster:
            for _ in range(3):
                cluster.metadata()
                cluster.metadata(["t", "u"])
                cluster.leader(TP)
            assert server.seen[MetadataRequest] == 1
            cluster.forget(["t"])
            cluster.metadata(["u"])
            assert server.seen[MetadataRequest] == 1
            cluster.metadata(["t"])
            cluster.metadata(["u"])
            assert server.seen[MetadataRequest] == 2
        with Cluster(config_for(server, metadata_max_age_ms="0")) as cluster:
            cluster.metadata(["t"])
            cluster.metadata(["t"])
            assert server.seen[MetadataRequest] == 4


def test_a_topic_without_a_leader_is_waited_for() -> None:
    leaders = iter([-1, -1, 1])
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: next(leaders)}, epoch=7)
        with Cluster(config_for(server)) as cluster:
            assert cluster.leader(TP) == Leader(cluster.metadata(["t"]).brokers[1], 7)
            assert next(leaders, None) is None


def test_without_a_leader_until_the_deadline() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: -1})
        with Cluster(config_for(server)) as cluster:
            with pytest.raises(LeaderNotAvailableError):
                cluster.leader_now(TP)
            with pytest.raises(ClientTimeoutError, match="t-0 has no leader"):
                cluster.leader(TP, deadline=time.monotonic() + 1.0)


def test_a_topic_that_was_just_created_is_looked_for_some_times() -> None:
    def unknown(request: MetadataRequest) -> MetadataResponse:
        if server.seen[MetadataRequest] < UNKNOWN_TOPIC_TRIES:
            answer = metadata({1: server}, {})
            answer.topics = [MetadataResponseTopic(error_code=3, name="t")]
            return answer
        return metadata({1: server}, {TP: 1})

    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = unknown
        with Cluster(config_for(server)) as cluster:
            assert cluster.partitions("t") == [0]


def test_a_broker_leaves_out_a_topic() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {})
        with Cluster(config_for(server)) as cluster, pytest.raises(UnknownTopicOrPartitionError):
            cluster.leader(TP)


def test_the_controller_is_looked_for_where_it_has_moved() -> None:
    with ScriptedBroker() as old, ScriptedBroker() as new:
        controllers = iter([1, 2])
        for server in (old, new):
            server.handlers[MetadataRequest] = lambda request: metadata(
                {1: old, 2: new}, {}, controller=next(controllers)
            )
        asked = []

        def attempt(retry: Retry) -> int:
            asked.append(cluster._known.controller_id)
            if asked[-1] != 2:
                raise NotControllerError
            return asked[-1]

        with Cluster(config_for(old)) as cluster:
            cluster.metadata([])
            assert cluster.on_controller(attempt) == 2
        assert asked == [1, 2]


def test_brokers_that_are_silent_meanwhile_do_not_hide_that_the_controller_has_moved() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {}, controller=1)

        def attempt(retry: Retry) -> None:
            if not retry.left:
                raise ClientTimeoutError("no time is left")
            raise NotControllerError

        with Cluster(config_for(server)) as cluster:
            cluster.metadata([])
            server.handlers[MetadataRequest] = lambda request: Silence()
            with pytest.raises(ClientTimeoutError, match="no time is left; before that: NOT_CONTROLLER"):
                cluster.on_controller(attempt, deadline=time.monotonic() + 1.0)


def test_a_node_is_found_where_it_has_moved() -> None:
    """At its old address nobody answers, and there is no other reason to fetch metadata."""
    old, new = ScriptedBroker(), ScriptedBroker()
    places = {1: old}
    for broker in (old, new):
        broker.handlers[MetadataRequest] = lambda request: metadata(places, {})
    with old, new, Cluster(config_for(new)) as cluster:
        cluster.request_to(1, ApiVersionsRequest(), max_version=2)
        old.stop_listening()
        old.hang_up()
        places[1] = new
        with pytest.raises(ConnectionFailedError):
            cluster.request_to(1, ApiVersionsRequest(), max_version=2)
        cluster.request_to(1, ApiVersionsRequest(), max_version=2)


def test_a_node_that_metadata_does_not_name(cluster: Cluster) -> None:
    with pytest.raises(ConnectionFailedError, match="no broker 4711"):
        cluster.request_to(4711, MetadataRequest(topics=[]))


def test_a_connection_of_ones_own(cluster: Cluster) -> None:
    (broker,) = cluster.metadata().brokers.values()
    with cluster.connect(broker) as first, cluster.connect(broker) as second:
        assert isinstance(first, Connection)
        assert first.fileno() != second.fileno()


def test_a_closed_cluster_says_so(cluster: Cluster) -> None:
    cluster.metadata()
    cluster.close()
    with pytest.raises(RuntimeError, match="closed"):
        cluster.metadata(refresh=True)


@contextmanager
def busy_broker() -> Iterator[ScriptedBroker]:
    """A broker that answers metadata at once, and ListOffsets only when all is over."""
    over = threading.Event()

    def wait(request: Any) -> None:
        over.wait(BUSY_S)

    with ScriptedBroker({ListOffsetsRequest: wait}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        try:
            yield server
        finally:
            over.set()


@contextmanager
def being_asked(cluster: Cluster, server: ScriptedBroker) -> Iterator[Future[Any]]:
    """A request of another thread, which is under way."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(cluster.request_to, 1, ListOffsetsRequest(), timeout=2 * BUSY_S)
        wait_until(lambda: server.seen[ListOffsetsRequest] == 1, "the request is under way")
        try:
            yield future
        finally:
            server.hang_up()


def test_waiting_for_another_threads_request_counts_as_time() -> None:
    with busy_broker() as server, Cluster(config_for(server)) as cluster:
        cluster.metadata()
        with being_asked(cluster, server) as other:
            with pytest.raises(ClientTimeoutError, match="another request"):
                cluster.request_to(1, MetadataRequest(topics=[]), timeout=0.2)
            with pytest.raises(ClientTimeoutError, match="another request"):
                cluster.metadata(refresh=True, deadline=time.monotonic() + 1.0)
            assert not other.done()
        assert isinstance(other.exception(), ConnectionFailedError)
        # The lock is free again.
        assert isinstance(cluster.request_to(1, MetadataRequest(topics=[])), MetadataResponse)


def test_closing_ends_requests_of_other_threads() -> None:
    with busy_broker() as server, Cluster(config_for(server)) as cluster:
        cluster.metadata()
        with being_asked(cluster, server) as other:
            cluster.close()
            assert isinstance(other.exception(BUSY_S / 2), ConnectionFailedError)


def test_looking_for_a_node_counts_as_time() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: None
        with Cluster(config_for(server, default_api_timeout_ms=str(round(BUSY_S * 1000)))) as cluster:
            begun = server.seen[MetadataRequest]
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(cluster.request_to, 1, MetadataRequest(topics=[]), timeout=0.2)
                try:
                    assert isinstance(future.exception(BUSY_S / 2), ClientTimeoutError)
                finally:
                    cluster.close()
            assert server.seen[MetadataRequest] > begun


def test_that_time_is_up_is_said_once() -> None:
    retry = Retry(ClientConfig(), time.monotonic() - 1)
    with pytest.raises(ClientTimeoutError, match="gave up after 1 tries: down") as inner:
        retry.pause(ConnectionFailedError("down"))
    with pytest.raises(ClientTimeoutError) as outer:
        Retry(ClientConfig(), time.monotonic() - 1).pause(inner.value)
    assert str(outer.value) == str(inner.value)


def test_a_last_try_without_time_does_not_hide_what_is_wrong() -> None:
    retry = Retry(ClientConfig())
    retry.pause(ConnectionFailedError("it closed the connection"))
    retry.deadline = time.monotonic()
    with pytest.raises(ClientTimeoutError, match=r"2 tries: it took too long; before that: it closed the connection$"):
        retry.pause(ConnectionFailedError("it took too long"))
    with pytest.raises(ClientTimeoutError, match=r"3 tries: it closed the connection$"):
        retry.pause(ConnectionFailedError("it closed the connection"))


def test_a_last_try_that_ran_out_of_time_does_not_hide_it_either() -> None:
    retry = Retry(ClientConfig())
    retry.pause(NotLeaderOrFollowerError("NOT_LEADER_OR_FOLLOWER"))
    retry.deadline = time.monotonic()
    with pytest.raises(ClientTimeoutError, match=r"^not sent in time; before that: .*NOT_LEADER_OR_FOLLOWER"):
        retry.pause(ClientTimeoutError("not sent in time"))
