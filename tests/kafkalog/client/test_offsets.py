"""Tests of look-ups of offsets by time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.offsets import EARLIEST, LATEST, ask_leaders, list_offsets, list_offsets_each
from kafkalog.client.types import READ_UNCOMMITTED, OffsetAndTimestamp, TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    NotLeaderOrFollowerError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
)
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.kafkalog.client.support import TP, config_for
from tests.support.scripted import ScriptedBroker, Silence, metadata
from tests.support.wire import batch, produce


@pytest.fixture
def wire(broker_address: str) -> Iterator[socket.socket]:
    host, _, port = broker_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as opened:
        yield opened


def test_first_last_and_by_time(cluster: Cluster, wire: socket.socket, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    produce(wire, topic, batch([b"a", b"b"], timestamp=1000))
    produce(wire, topic, batch([b"c", b"d"], timestamp=5000))
    produce(wire, topic, batch([b"e"], timestamp=9000), partition=1)
    zero, one, two = (TopicPartition(topic, index) for index in range(3))

    def offsets(timestamps: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: found.offset for tp, found in list_offsets(cluster, timestamps).items()}

    assert offsets({zero: EARLIEST, one: EARLIEST, two: EARLIEST}) == {zero: 0, one: 0, two: 0}
    assert offsets({zero: LATEST, one: LATEST, two: LATEST}) == {zero: 4, one: 1, two: 0}
    assert offsets({zero: 1001, one: 9001, two: 0}) == {zero: 1, one: -1, two: -1}
    found = list_offsets(cluster, {zero: 1002}, isolation_level=1)[zero]
    assert (found.offset, found.timestamp) == (2, 5000)
    assert list_offsets(cluster, {}) == {}


def test_messages_without_timestamps(cluster: Cluster, wire: socket.socket, new_topic: Callable[..., str]) -> None:
    """Java's consumer leaves them out (`OffsetFetcherUtils`), and its administration client fails."""
    old, new = new_topic(message_format_version="0.9.0"), new_topic()
    produce(wire, new, batch([b"a"], timestamp=1000))
    timestamps = {TopicPartition(old, 0): 5, TopicPartition(new, 0): 5}
    with pytest.raises(UnsupportedForMessageFormatError, match=old):
        list_offsets(cluster, timestamps)
    found = list_offsets(cluster, timestamps, leave_out_old_formats=True)
    assert found == {TopicPartition(new, 0): OffsetAndTimestamp(0, 1000, 0)}
    assert list_offsets(cluster, {TopicPartition(old, 0): LATEST})[TopicPartition(old, 0)].offset == 0


def test_partitions_that_do_not_exist(cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 5"):
        list_offsets(cluster, {TopicPartition(topic, 0): LATEST, TopicPartition(topic, 5): LATEST})
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        list_offsets(cluster, {TopicPartition("nowhere", 0): LATEST})


def answer(*partitions: ListOffsetsPartitionResponse) -> ListOffsetsResponse:
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=list(partitions))])


def test_leaders_are_asked_once_each_and_again_where_they_have_moved() -> None:
    with ScriptedBroker() as first, ScriptedBroker() as second:
        brokers = {1: first, 2: second}
        moved = False

        def describe(request: MetadataRequest) -> object:
            return metadata(brokers, {("t", 0): 1, ("t", 1): 1, ("t", 2): 2 if not moved else 1}, epoch=int(moved))

        def of_first(request: ListOffsetsRequest) -> ListOffsetsResponse:
            return answer(
                *(
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=10 + each.current_leader_epoch, timestamp=5
                    )
                    for each in request.topics[0].partitions
                )
            )

        def of_second(request: ListOffsetsRequest) -> ListOffsetsResponse:
            nonlocal moved
            moved = True
            return answer(ListOffsetsPartitionResponse(partition_index=2, error_code=6))

        for broker in brokers.values():
            broker.handlers[MetadataRequest] = describe  # type: ignore[assignment]
        first.handlers[ListOffsetsRequest] = of_first
        second.handlers[ListOffsetsRequest] = of_second
        partitions = [TopicPartition("t", index) for index in range(3)]
        with Cluster(config_for(first)) as cluster:
            found = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        assert found == {
            partitions[0]: OffsetAndTimestamp(10, 5, -1),
            partitions[1]: OffsetAndTimestamp(10, 5, -1),
            partitions[2]: OffsetAndTimestamp(11, 5, -1),
        }
        assert (first.seen[ListOffsetsRequest], second.seen[ListOffsetsRequest]) == (2, 1)


def test_a_leader_that_does_not_answer_holds_up_its_own_partitions_only() -> None:
    other_is_asked = threading.Event()
    answered: list[bool] = []

    def silent(request: ListOffsetsRequest) -> Silence:
        answered.append(other_is_asked.wait(20))
        return Silence()

    def of_second(request: ListOffsetsRequest) -> ListOffsetsResponse:
        other_is_asked.set()
        return answer(ListOffsetsPartitionResponse(partition_index=1, offset=11, timestamp=5))

    with (
        ScriptedBroker({ListOffsetsRequest: silent}) as first,
        ScriptedBroker({ListOffsetsRequest: of_second}) as second,
    ):
        for broker in (first, second):
            broker.handlers[MetadataRequest] = lambda _: metadata({1: first, 2: second}, {("t", 0): 1, ("t", 1): 2})
        zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
        with Cluster(config_for(first)) as cluster:
            # They are connected first, which may take longer than the time-out on a slow machine.
            for node_id in (1, 2):
                cluster.request_to(node_id, MetadataRequest(topics=[]))
            found = ask_leaders(cluster, {zero: LATEST, one: LATEST}, READ_UNCOMMITTED, time.monotonic() + 1.0)
        assert found[one] == OffsetAndTimestamp(11, 5, -1)
        assert isinstance(found[zero], ClientTimeoutError)
        assert answered == [True], "both are asked at once"


def test_after_a_leader_that_is_none_the_new_one_is_asked() -> None:
    """Whoever asks once and later again, as mirrors do, must not ask the old leader until the metadata is too old."""
    with ScriptedBroker() as first, ScriptedBroker() as second:
        leader = 1

        def denied(request: ListOffsetsRequest) -> ListOffsetsResponse:
            nonlocal leader
            leader = 2
            return answer(ListOffsetsPartitionResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))

        first.handlers[ListOffsetsRequest] = denied
        second.handlers[ListOffsetsRequest] = lambda _: answer(ListOffsetsPartitionResponse(offset=11, timestamp=5))
        for broker in (first, second):
            broker.handlers[MetadataRequest] = lambda _: metadata({1: first, 2: second}, {TP: leader})
        with Cluster(config_for(first)) as cluster:
            asked = [ask_leaders(cluster, {TP: LATEST}, READ_UNCOMMITTED, time.monotonic() + 20)[TP] for _ in range(2)]
        assert isinstance(asked[0], NotLeaderOrFollowerError)
        assert asked[1] == OffsetAndTimestamp(11, 5, -1)


@pytest.mark.parametrize(("code", "error"), [(6, ClientTimeoutError), (-1, UnknownServerError)])
def test_errors_that_stay(code: int, error: type[Exception]) -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        server.handlers[ListOffsetsRequest] = lambda request: answer(ListOffsetsPartitionResponse(error_code=code))
        with Cluster(config_for(server)) as cluster, pytest.raises(error, match="t-0"):
            list_offsets(cluster, {TP: LATEST}, deadline=time.monotonic() + 1.0)


def test_a_last_try_without_metadata_does_not_hide_what_is_wrong() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})

        def refuse(request: ListOffsetsRequest) -> ListOffsetsResponse:
            server.handlers[MetadataRequest] = lambda request: Silence()
            return answer(ListOffsetsPartitionResponse(error_code=6))

        server.handlers[ListOffsetsRequest] = refuse
        with Cluster(config_for(server)) as cluster, pytest.raises(ClientTimeoutError, match=r"before that: .*t-0"):
            list_offsets(cluster, {TP: LATEST}, deadline=time.monotonic() + 1.0)


def test_an_answer_that_leaves_out_a_partition() -> None:
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {TP: 1})
        server.handlers[ListOffsetsRequest] = lambda request: ListOffsetsResponse()
        with Cluster(config_for(server)) as cluster, pytest.raises(UnknownServerError, match="leaves out"):
            list_offsets(cluster, {TP: LATEST})


def test_an_error_that_stays_ends_the_call_for_all_or_is_the_outcome_of_its_partition() -> None:
    """`list_offsets` does not wait for the leader of another partition, and `list_offsets_each` does."""
    good, bad, moving = (TopicPartition("t", index) for index in range(3))
    with ScriptedBroker() as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, dict.fromkeys((good, bad, moving), 1))

        def tell(request: ListOffsetsRequest) -> ListOffsetsResponse:
            codes = {bad.partition: -1, moving.partition: 6 if server.seen[ListOffsetsRequest] % 2 else 0}
            return answer(
                *(
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, error_code=codes.get(each.partition_index, 0), offset=7
                    )
                    for each in request.topics[0].partitions
                )
            )

        server.handlers[ListOffsetsRequest] = tell
        wanted = dict.fromkeys((moving, good, bad), LATEST)
        with Cluster(config_for(server)) as cluster:
            with pytest.raises(UnknownServerError, match="t-1"):
                list_offsets(cluster, wanted)
            asked = server.seen[ListOffsetsRequest]
            server.seen[ListOffsetsRequest] = 0
            found = list_offsets_each(cluster, wanted)
        assert asked == 1
        assert server.seen[ListOffsetsRequest] == 2
    assert list(found) == list(wanted)
    assert isinstance(found.pop(bad), UnknownServerError)
    assert found == dict.fromkeys((moving, good), OffsetAndTimestamp(7, -1, -1))
