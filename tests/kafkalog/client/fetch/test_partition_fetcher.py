"""Tests of fetching the record bytes of one partition."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError, InvalidResponseError
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.fetch.partition_fetcher import PartitionFetcher
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.fetch import (
    AbortedTransaction,
    FetchRequest,
    FetchResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.records.batch import iter_headers
from tests.kafkalog.client.fetch.answers import answer, records
from tests.kafkalog.client.support import TP, config_for
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import Answer, ScriptedBroker, api_versions, metadata
from tests.support.secured.sessions import Sessions, make_due
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, produce


@pytest.fixture
def wire(broker_address: str) -> Iterator[socket.socket]:
    host, _, port = broker_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as opened:
        yield opened


def offsets_of(chunk: FetchedRecords) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for _, header in iter_headers(chunk.records)]


# Against a real broker


@pytest.mark.parametrize("ahead", [False, True])
def test_a_partition_is_read_to_its_end(
    cluster: Cluster, wire: socket.socket, new_topic: Callable[..., str], ahead: bool
) -> None:
    topic = new_topic(2)
    for _ in range(50):
        assert produce(wire, topic, batch([b"x" * 1000] * 10), partition=1).error_code == 0
    seen = []
    offset = 0
    with PartitionFetcher(cluster, TopicPartition(topic, 1), max_bytes=40_000) as fetcher:
        while offset < 500:
            chunk = fetcher.fetch(offset)
            assert chunk.high_watermark == 500
            assert chunk.log_start_offset == 0
            assert chunk.aborted == []
            seen += offsets_of(chunk)
            offset = chunk.next_offset(offset)
            if ahead:
                fetcher.prefetch(offset)
        assert len(fetcher.fetch(500).records) == 0
    assert seen == [(first, first + 9) for first in range(0, 500, 10)]


def test_a_first_batch_that_is_larger_than_the_limit_comes_whole(
    cluster: Cluster, wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    produce(wire, topic, batch([b"x" * 300_000]))
    with PartitionFetcher(cluster, TopicPartition(topic, 0), max_bytes=1000) as fetcher:
        chunk = fetcher.fetch(0)
    assert len(chunk.records) > 300_000
    assert chunk.next_offset(0) == 1


def test_an_offset_in_the_middle_of_a_batch(
    cluster: Cluster, wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    produce(wire, topic, batch([b"a"] * 10))
    with PartitionFetcher(cluster, TopicPartition(topic, 0)) as fetcher:
        chunk = fetcher.fetch(7)
    assert offsets_of(chunk) == [(0, 9)]
    assert chunk.next_offset(7) == 10


def test_another_offset_than_the_one_asked_for_ahead(
    cluster: Cluster, wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    for _ in range(3):
        produce(wire, topic, batch([b"a"]))
    with PartitionFetcher(cluster, TopicPartition(topic, 0), max_bytes=1) as fetcher:
        fetcher.prefetch(0)  # not connected yet
        assert offsets_of(fetcher.fetch(0)) == [(0, 0)]
        fetcher.prefetch(1)
        fetcher.prefetch(1)
        assert offsets_of(fetcher.fetch(2)) == [(2, 2)]
        assert offsets_of(fetcher.fetch(1)) == [(1, 1)]


def test_offsets_outside_of_the_log(cluster: Cluster, new_topic: Callable[..., str]) -> None:
    tp = TopicPartition(new_topic(), 0)
    with PartitionFetcher(cluster, tp) as fetcher:
        with pytest.raises(OffsetOutOfRangeError, match=f"{tp} at offset 17"):
            fetcher.fetch(17)
        assert len(fetcher.fetch(0).records) == 0


def test_a_partition_that_does_not_exist(cluster: Cluster) -> None:
    with (
        PartitionFetcher(cluster, TopicPartition("nothing", 0)) as fetcher,
        pytest.raises(UnknownTopicOrPartitionError),
    ):
        fetcher.fetch(0)


def test_a_restarted_broker_is_read_on(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        produce(sock, "t", batch([b"a", b"b"]))
    with Cluster(config_for(broker.bootstrap)) as cluster, PartitionFetcher(cluster, TP) as fetcher:
        assert offsets_of(fetcher.fetch(0)) == [(0, 1)]
        broker.stop()
        fetcher.prefetch(0)
        with pytest.raises(ClientTimeoutError):
            fetcher.fetch(0, deadline=time.monotonic() + 1.0)
        fetcher.prefetch(0)
        broker.start()
        assert offsets_of(fetcher.fetch(0)) == [(0, 1)]


# Against brokers that do as they are told


@pytest.fixture
def server() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as running:
        running.handlers[MetadataRequest] = lambda request: metadata({1: running}, {TP: 1})
        yield running


@pytest.fixture
def fetcher(server: ScriptedBroker) -> Iterator[PartitionFetcher]:
    config = config_for(server, default_api_timeout_ms="5000", fetch_max_wait_ms="0")
    with Cluster(config) as cluster, PartitionFetcher(cluster, TP) as opened:
        yield opened


@pytest.mark.parametrize("code", [3, 5, 6, 9, 74, 75, 78])
def test_a_partition_is_followed_to_its_new_leader(code: int) -> None:
    """Whatever the old leader says, or nothing at all, the new one's epoch goes with the next fetch."""
    moved = False
    epochs = []

    def at_old(request: FetchRequest) -> Answer:
        nonlocal moved
        moved = True
        return answer(code)

    def at_new(request: FetchRequest) -> Answer:
        epochs.append(request.topics[0].partitions[0].current_leader_epoch)
        return answer(data=records(5, [b"new"]))

    with ScriptedBroker({FetchRequest: at_old}) as old, ScriptedBroker({FetchRequest: at_new}) as new:
        for each in (old, new):
            each.handlers[MetadataRequest] = lambda request: metadata(
                {1: old, 2: new}, {TP: 2 if moved else 1}, epoch=4 if moved else 3
            )
        with Cluster(config_for(old)) as cluster, PartitionFetcher(cluster, TP) as fetcher:
            assert offsets_of(fetcher.fetch(5)) == [(5, 5)]
    assert epochs == [4]


def test_a_leader_that_hangs_up_is_asked_again(server: ScriptedBroker, fetcher: PartitionFetcher) -> None:
    answers = iter([None, struct.pack(">i", 1000) + bytes(10), answer(data=records(0, [b"a"]))])
    server.handlers[FetchRequest] = lambda request: next(answers)
    assert offsets_of(fetcher.fetch(0)) == [(0, 0)]


def test_a_leader_that_hangs_up_after_it_was_asked_ahead(server: ScriptedBroker, fetcher: PartitionFetcher) -> None:
    answers = iter([answer(data=records(0, [b"a"])), None, answer(data=records(1, [b"b"]))])
    server.handlers[FetchRequest] = lambda request: next(answers)
    assert fetcher.fetch(0).next_offset(0) == 1
    fetcher.prefetch(1)
    assert offsets_of(fetcher.fetch(1)) == [(1, 1)]


def test_a_session_is_renewed_between_two_fetches() -> None:
    """The renewal (KIP-368) does not depend on whether the second fetch was sent ahead."""
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "alice", "sasl_password": "secret"}
    with Sessions(*[3_600_000] * 4) as server:

        def serve(request: FetchRequest) -> Answer:
            server.order.append("fetch")
            return answer(data=records(0, [b"a"]))

        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        server.handlers[FetchRequest] = serve
        with Cluster(config_for(server, **login)) as cluster, PartitionFetcher(cluster, TP) as fetcher:
            fetcher.fetch(0)
            connection = fetcher._connection
            assert connection is not None
            make_due(connection)
            fetcher.fetch(0)
            make_due(connection)
            fetcher.prefetch(0)
            make_due(connection)
            assert offsets_of(fetcher.fetch(0)) == [(0, 0)]
            assert fetcher._connection is connection
    renewed = ["handshake", "authenticate"]
    assert server.order == [*renewed, *renewed, "fetch", *renewed, "fetch", *renewed, "fetch"]


def test_aborted_transactions_are_told(server: ScriptedBroker, fetcher: PartitionFetcher) -> None:
    aborted = [AbortedTransaction(producer_id=7, first_offset=3), AbortedTransaction(producer_id=8, first_offset=1)]
    server.handlers[FetchRequest] = lambda request: answer(
        data=None, aborted_transactions=aborted, last_stable_offset=9, high_watermark=12
    )
    chunk = fetcher.fetch(0)
    assert chunk.aborted == [(7, 3), (8, 1)]
    assert (chunk.last_stable_offset, chunk.high_watermark) == (9, 12)
    assert len(chunk.records) == 0


@pytest.mark.parametrize(
    ("response", "error", "match"),
    [
        (answer(29), TopicAuthorizationFailedError, "t-0 at offset 0"),
        (answer(1, log_start_offset=50), OffsetOutOfRangeError, "begins at 50"),
        (FetchResponse(), InvalidResponseError, "without it"),
        (answer(data=b"\0" * 5), InvalidResponseError, "no whole batch"),
        (answer(data=bytes(records(0, [b"a"]))[:-1]), InvalidResponseError, "no whole batch"),
        (answer(data=struct.pack(">qi", 0, -1) + bytes(60)), InvalidResponseError, "no whole batch"),
    ],
)
def test_what_trying_again_does_not_help(
    server: ScriptedBroker, fetcher: PartitionFetcher, response: FetchResponse, error: type[Exception], match: str
) -> None:
    server.handlers[FetchRequest] = lambda request: response
    with pytest.raises(error, match=match):
        fetcher.fetch(0)
    assert server.seen[FetchRequest] == 1


def test_a_leader_that_never_comes(server: ScriptedBroker, fetcher: PartitionFetcher) -> None:
    server.handlers[FetchRequest] = lambda request: answer(6)
    with pytest.raises(ClientTimeoutError, match="NOT_LEADER_OR_FOLLOWER"):
        fetcher.fetch(0, deadline=time.monotonic() + 3.0)


def test_a_leader_that_does_not_answer_before_the_deadline(server: ScriptedBroker, fetcher: PartitionFetcher) -> None:
    given_up = threading.Event()
    waited_for: list[bool] = []

    def answer_once(request: FetchRequest) -> Answer:
        if server.seen[FetchRequest] == 1:
            return answer(data=records(0, [b"a"]))
        waited_for.append(given_up.wait(20))
        return None

    server.handlers[FetchRequest] = answer_once
    # Now it is connected, which may take longer than the deadline on a slow machine.
    assert fetcher.fetch(0).next_offset(0) == 1
    with pytest.raises(ClientTimeoutError, match="FETCH"):
        fetcher.fetch(1, deadline=time.monotonic() + 1.0)
    assert not waited_for
    given_up.set()


def test_a_broker_without_record_batches_is_refused(server: ScriptedBroker, fetcher: PartitionFetcher) -> None:
    server.handlers[ApiVersionsRequest] = lambda request: api_versions(FETCH=3)
    with pytest.raises(UnsupportedVersionError, match="FETCH"):
        fetcher.fetch(0)


def test_where_to_fetch_next_is_after_whole_batches_only() -> None:
    data = bytes(records(10, [b"a", b"b"]) + records(12, [b"c"]) + records(13, [b"d"])[:-1])
    chunk = FetchedRecords(memoryview(data), 0, 0, 0, [])
    assert chunk.next_offset(11) == 13
    assert chunk.next_offset(50) == 50
    assert FetchedRecords(memoryview(b""), 0, 0, 0, []).next_offset(3) == 3
    lie = struct.pack(">qi", 0, -100) + bytes(200)
    assert FetchedRecords(memoryview(lie), 0, 0, 0, []).next_offset(3) == 3


def test_errors_name_the_broker() -> None:
    with ScriptedBroker({FetchRequest: lambda request: None}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        with Cluster(config_for(server)) as cluster, PartitionFetcher(cluster, TP) as fetcher:
            with pytest.raises(ClientTimeoutError, match=server.address) as caught:
                fetcher.fetch(0, deadline=time.monotonic() + 1)
            # The last try may have had no time left.
            assert isinstance(caught.value.__cause__, ConnectionFailedError | ClientTimeoutError)


# Followers


def replicas(asked: list[tuple[str, str]], leader_serves: threading.Event, follower_error: list[int]) -> Any:
    """Return a leader that names a follower to fetch from, and that follower."""

    def at_leader(request: FetchRequest) -> FetchResponse:
        asked.append(("leader", request.rack_id))
        if leader_serves.is_set():
            return answer(data=records(0, [b"leader"]))
        return answer(data=None, preferred_read_replica=1)

    def at_follower(request: FetchRequest) -> FetchResponse:
        asked.append(("follower", request.rack_id))
        if follower_error:
            leader_serves.set()
            return answer(follower_error[0], data=None)
        return answer(data=records(0, [b"follower"]))

    leader, follower = ScriptedBroker({FetchRequest: at_leader}), ScriptedBroker({FetchRequest: at_follower})
    known = metadata({0: leader, 1: follower}, {(TP.topic, TP.partition): 0}, epoch=1)
    for each in (leader, follower):
        each.handlers[MetadataRequest] = lambda request: known
    return leader, follower


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER, None])
def test_the_leader_names_a_follower_in_the_rack(code: ErrorCode | None) -> None:
    asked: list[tuple[str, str]] = []
    leader_serves = threading.Event()
    follower_error: list[int] = []
    leader, follower = replicas(asked, leader_serves, follower_error)
    with leader, follower, Cluster(config_for(leader)) as cluster, PartitionFetcher(cluster, TP, rack="r") as fetcher:
        for _ in range(2):
            assert b"follower" in bytes(fetcher.fetch(0).records)
        assert asked == [("leader", "r"), ("follower", "r"), ("follower", "r")]
        if code is not None:
            follower_error.append(code)
        else:
            leader_serves.set()
            follower.stop_listening()
            follower.hang_up()
        # Whatever is wrong with the follower, the leader is asked.
        assert b"leader" in bytes(fetcher.fetch(0).records)
        assert asked[-1] == ("leader", "r")


def test_the_leader_is_asked_again_after_a_while() -> None:
    asked: list[tuple[str, str]] = []
    leader, follower = replicas(asked, threading.Event(), [])
    settings = config_for(leader, metadata_max_age_ms="1")
    with leader, follower, Cluster(settings) as cluster, PartitionFetcher(cluster, TP, rack="r") as fetcher:

        def asked_twice() -> bool:
            assert b"follower" in bytes(fetcher.fetch(0).records)
            return asked.count(("leader", "r")) > 1

        wait_until(asked_twice, "the leader to be asked again")
