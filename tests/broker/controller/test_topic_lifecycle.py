"""Tests of topics that are created and deleted: reused names, registries and directories that cannot be written."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.server import BrokerConfig
from broker.controller.channel import LoneChannel
from broker.controller.decisions.planning import NewTopic
from broker.controller.decisions.requests import ControlRequests, requests_for
from broker.controller.topics import lone_topics
from broker.log.log_manager import LogManager
from broker.metadata.cache import MetadataCache
from broker.metadata.local import FILE_NAME, LocalStore
from broker.metadata.model import BrokerRegistration, TopicState
from broker.metadata.operations import DeleteTopic, RegisterBroker
from broker.replica.hosting import applier
from broker.replica.hosting.applier import APPLIED_AT_ONCE, ReplicaApplier, Results
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from broker.system.collector import OWN_COLLECTOR, ProcessCollector
from kafkalog.protocol.errors import ErrorCode, KafkaStorageError, UnknownTopicIdError
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.in_process.runtime import InlineWorkers
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, end_offset, exchange, list_offset, produce


def delete_topics(sock: socket.socket, *names: str) -> list[int]:
    response = exchange(sock, DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000), 5)
    return [result.error_code for result in response.responses]


def delete_records(sock: socket.socket, topic: str, offset: int) -> int:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    response = exchange(sock, DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), 2)
    code: int = response.topics[0].partitions[0].error_code
    return code


def test_records_of_a_name_used_again_survive_a_kill(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        produce(sock, "t", batch([b"old"] * 1000))
        assert delete_records(sock, "t", 900) == ErrorCode.NONE
        checkpoint = broker.log_dir / "log-start-offset-checkpoint"
        wait_until(lambda: checkpoint.exists() and "t 0 900" in checkpoint.read_text(), "the start is checkpointed")
        assert delete_topics(sock, "t") == [ErrorCode.NONE]
        create_topic(sock, "t", 1)
        assert produce(sock, "t", batch([b"new"] * 500)).error_code == ErrorCode.NONE
    broker.kill()
    broker.start()
    with broker.connect() as sock:
        assert (list_offset(sock, "t", timestamp=-2).offset, end_offset(sock, "t")) == (0, 500)


def test_many_clients_that_delete_records_do_not_fail_the_log_directory(
    start_broker: Callable[..., KafkalogBroker],
) -> None:
    broker = start_broker()
    socks = [broker.connect() for _ in range(8)]
    create_topic(socks[0], "t", 1)
    produce(socks[0], "t", batch([b"x"] * 1000))
    for offset in range(50):
        for position, sock in enumerate(socks):
            assert delete_records(sock, "t", 8 * offset + position) == ErrorCode.NONE
    assert produce(socks[0], "t", batch([b"x"])).error_code == ErrorCode.NONE
    for sock in socks:
        sock.close()
    assert broker.stop() == 0
    assert "offline" not in broker.logged()


CONTROL_CHARACTERS = [chr(code) for code in (*range(0x21), *range(0x7F, 0xA1), 0x2028, 0x2029, 0x3000, 0xFEFF)]
"""White space among them, and what ends a line for one reader of text or another."""


def test_no_name_with_a_control_character_becomes_a_topic(start_broker: Callable[..., KafkalogBroker]) -> None:
    """Such a name would break the rows of the checkpoints, which are lines of words: of the other topics, too."""
    broker = start_broker()
    places = ("x{}", "{}x", "x{}y", "{}", "x{}{}")
    names = [place.replace("{}", character) for character in CONTROL_CHARACTERS for place in places]
    with broker.connect() as sock:
        create_topic(sock, "kept", 1)
        produce(sock, "kept", batch([b"x"] * 1000))
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        response = exchange(sock, CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=False), 5)
        codes = {topic.name: topic.error_code for topic in response.topics}
        assert codes == dict.fromkeys(names, ErrorCode.INVALID_TOPIC_EXCEPTION)
        wanted = [MetadataRequestTopic(name=name) for name in names]
        metadata = exchange(sock, MetadataRequest(topics=wanted, allow_auto_topic_creation=True), 9)
        assert {topic.error_code for topic in metadata.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert delete_records(sock, "kept", 900) == ErrorCode.NONE
    assert broker.stop() == 0
    assert "Ignoring a checkpoint" not in broker.logged()
    broker.start()
    with broker.connect() as sock:
        assert (list_offset(sock, "kept", timestamp=-2).offset, end_offset(sock, "kept")) == (900, 1000)
    assert "Ignoring a checkpoint" not in broker.logged()


class _Store(LocalStore):
    """A registry that can be told to fail."""

    failing = False

    def write(self, state: object) -> None:
        if self.failing:
            raise OSError(28, "No space left on device")
        super().write(state)  # type: ignore[arg-type]


class _Cluster:
    """A controller over real logs, without sockets."""

    def __init__(self, directory: Path) -> None:
        config = BrokerConfig({"log.dirs": str(directory)})
        self.logs = LogManager([directory], config.log_config({}), clock=lambda: 0)
        self.store = _Store(directory, workers=InlineWorkers())
        self.store.load()
        self.replicas = ReplicaManager(Runtime.of_process(2), 0, config, self.logs)
        self.cache = MetadataCache(self.store.state)
        self.store.subscribe(self.cache.update)
        self.lone = LoneChannel(0, ReplicaApplier(self.replicas, self.cache.topic_config))
        self.topics = lone_topics(self.store, self.cache, self.replicas, self.lone)

    async def make(self, *names: str, partitions: int = 1) -> dict[str, TopicState]:
        made = await self.topics.create([NewTopic(name, partitions, 1) for name in names])
        return {name: state for name, state in made.items() if isinstance(state, TopicState)}


class _Reaching:
    """A channel that reaches broker 1, too, which does what it is told."""

    def __init__(self, lone: LoneChannel) -> None:
        self._lone = lone
        self.told: list[ControlRequests] = []

    async def send(self, controller_epoch: int, requests: Mapping[int, ControlRequests]) -> dict[int, Results]:
        own = {broker: sent for broker, sent in requests.items() if broker != 1}
        answers = await self._lone.send(controller_epoch, own)
        if 1 in requests:
            self.told.append(requests[1])
            answers[1] = {stop.key: ErrorCode.NONE for stop in requests[1].stop_replica}
        return answers


def run(directory: Path, scenario: Callable[[_Cluster], object]) -> None:
    async def main() -> None:
        cluster = _Cluster(directory)
        await cluster.store.commit(lambda state: [RegisterBroker(BrokerRegistration(0, ()))])
        try:
            await scenario(cluster)  # type: ignore[misc]
        finally:
            cluster.logs.unlock()

    asyncio.run(main())


def test_others_have_their_turn_while_many_topics_are_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has one partition, and each partition makes files."""

    async def scenario(cluster: _Cluster) -> None:
        turns, hosted = 0, list[int]()

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        host = cluster.replicas.host_partition

        def note(*args: Any, **options: Any) -> Any:
            hosted.append(turns)
            return host(*args, **options)

        monkeypatch.setattr(cluster.replicas, "host_partition", note)
        counting = asyncio.create_task(count())
        await cluster.make(*(f"t{number}" for number in range(5 * APPLIED_AT_ONCE)))
        counting.cancel()
        assert len(hosted) == 5 * APPLIED_AT_ONCE
        assert max(Counter(hosted).values()) <= APPLIED_AT_ONCE

    run(tmp_path, scenario)


@pytest.mark.parametrize("partitions", [1, 3, 9])
def test_the_garbage_collector_is_told_of_many_new_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """It does not matter whether they are of one request or of several."""
    monkeypatch.setattr(applier, "FROZEN_AT_ONCE", 4)

    async def scenario(cluster: _Cluster) -> None:
        hosted = []

        class Told(ProcessCollector):
            def freeze(self) -> None:
                hosted.append(len(cluster.replicas))

        runtime = replace(cluster.replicas.runtime, collector=Told(own=True))
        monkeypatch.setattr(cluster.replicas, "runtime", runtime)
        await cluster.make(*(f"t{number}" for number in range(9 // partitions)), partitions=partitions)
        assert hosted == [4, 8]

    run(tmp_path, scenario)


def test_a_full_collection_leaves_out_what_was_frozen() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    gone = weakref.ref(Cycle())
    stays = [[] for _ in range(1000)]  # type: list[list[object]]
    try:
        OWN_COLLECTOR.freeze()
        assert gone() is None, "garbage was kept"
        visited = {id(each) for each in gc.get_objects()}
        assert not visited & {id(each) for each in stays}
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("last", ["a", "b", "c"])
def test_a_topic_made_while_topics_of_its_request_are_being_deleted_is_served(tmp_path: Path, last: str) -> None:
    """A producer with auto-creation asks for a topic as soon as it is gone."""

    async def scenario(cluster: _Cluster) -> None:
        old = await cluster.make("a", "b", "c")
        deletion = asyncio.create_task(cluster.topics.delete(["a", "b", "c"]))
        while last in cluster.store.state.topics:
            await asyncio.sleep(0)
        new = await cluster.make(last)
        assert await deletion == {"a": None, "b": None, "c": None}
        partition = cluster.replicas.require(last, 0)
        assert partition.log.topic_id == new[last].topic_id != old[last].topic_id
        assert partition.log.offline is None
        assert cluster.store.state.deleting == frozenset()

    run(tmp_path, scenario)


def test_a_log_that_cannot_be_deleted_is_not_taken_for_the_next_topic_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: _Cluster) -> None:
        await cluster.make("a", "b")

        def fail(topic: str, partition: int, *, sync: bool) -> None:
            raise KafkaStorageError(f"cannot rename {topic}-{partition}")

        with monkeypatch.context() as broken:
            broken.setattr(cluster.logs, "delete", fail)
            assert await cluster.topics.delete(["a"]) == {"a": None}
        assert len(cluster.store.state.deleting) == 1, "the next start tries again"
        await cluster.make("a")
        with pytest.raises(KafkaStorageError):
            cluster.replicas.require("a", 0)
        assert cluster.replicas.get("b", 0) is not None

    run(tmp_path, scenario)


def test_every_broker_is_told_of_what_concerns_it(tmp_path: Path) -> None:
    async def scenario(cluster: _Cluster) -> None:
        await cluster.store.commit(lambda state: [RegisterBroker(BrokerRegistration(1, ()))])
        channel = _Reaching(cluster.lone)
        controller = lone_topics(cluster.store, cluster.cache, cluster.replicas, channel)
        await controller.create([NewTopic("both", 2, 2), NewTopic("here", assignments={0: [0]})])
        await controller.grow("both", 3, [[1, 0]])
        assert [[each.key for each in told.leader_and_isr] for told in channel.told] == [
            [("both", 0), ("both", 1)],
            [("both", 2)],
        ]
        assert all(cluster.replicas.get("both", index) for index in range(3))
        assert await controller.delete(["both", "here"]) == {"both": None, "here": None}
        assert [each.key for each in channel.told[-1].stop_replica] == [("both", index) for index in range(3)]
        assert len(channel.told) == 3
        assert cluster.store.state.deleting == frozenset()

    run(tmp_path, scenario)


def test_a_lone_broker_says_whom_it_cannot_tell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: _Cluster) -> None:
        await cluster.store.commit(lambda state: [RegisterBroker(BrokerRegistration(1, ()))])
        with caplog.at_level(logging.ERROR):
            await cluster.topics.create([NewTopic("t", 8, 2)])
        (record,) = caplog.records
        assert "Broker 1 is not told of a decision about 8 of its partitions (t-0, t-1, t-2, t-3, t-4, …)" in (
            record.getMessage()
        )
        assert all(cluster.replicas.get("t", index) for index in range(8)), "its own part is done"
        topic = cluster.store.state.topics["t"]
        answers = await cluster.lone.send(0, requests_for(cluster.store.state, [DeleteTopic("t", topic.topic_id)]))
        keys = [("t", index) for index in range(8)]
        assert answers == {
            0: dict.fromkeys(keys, ErrorCode.NONE),
            1: dict.fromkeys(keys, ErrorCode.BROKER_NOT_AVAILABLE),
        }
        assert await cluster.topics.delete(["t"]) == {"t": None}
        assert cluster.store.state.deleting == {topic.topic_id}, "broker 1 may have its logs"

    run(tmp_path, scenario)


def test_a_registry_that_cannot_be_stored_fails_each_topic_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: _Cluster) -> None:
        await cluster.make("a")
        cluster.store.failing = True
        made = await cluster.topics.create([NewTopic("b", 1, 1), NewTopic("bad name", 1, 1)])
        assert isinstance(made["b"], KafkaStorageError)
        assert not isinstance(made["bad name"], (KafkaStorageError, TopicState))
        # A topic of that name that was created anew stays.
        assert isinstance((await cluster.topics.delete(["a"], {"a": uuid.uuid4()}))["a"], UnknownTopicIdError)
        deleted = await cluster.topics.delete(["a", "nothing"])
        assert isinstance(deleted["a"], KafkaStorageError)
        assert not isinstance(deleted["nothing"], KafkaStorageError)
        assert cluster.replicas.get("a", 0) is not None
        assert list(cluster.store.state.topics) == ["a"]

    run(tmp_path, scenario)


def test_clients_are_told_of_a_registry_that_cannot_be_stored(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        (broker.log_dir / f"{FILE_NAME}.tmp").mkdir()
        new = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        created = exchange(sock, CreateTopicsRequest(topics=[new], timeout_ms=10_000), 5)
        assert created.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert delete_topics(sock, "t") == [ErrorCode.KAFKA_STORAGE_ERROR]
        wanted = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new")]
        told = exchange(sock, MetadataRequest(topics=wanted, allow_auto_topic_creation=True), 9)
        assert [topic.error_code for topic in told.topics] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert produce(sock, "t", batch([b"x"])).error_code == ErrorCode.NONE


def test_a_partition_whose_log_cannot_be_made_leaves_the_others_served(
    start_broker: Callable[..., KafkalogBroker],
) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        (broker.log_dir / "t-1").write_text("a file where a directory is to be")
        create_topic(sock, "t", 3)
        codes = [produce(sock, "t", batch([b"x"]), partition).error_code for partition in range(3)]
        assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    broker.kill()
    broker.start()
    with broker.connect() as sock:
        assert end_offset(sock, "t", 2) == 1


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted_by_request(
    start_broker: Callable[..., KafkalogBroker],
) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "compacted", 1, cleanup_policy="compact")
        create_topic(sock, "both", 1, cleanup_policy="compact,delete")
        assert delete_records(sock, "compacted", 0) == ErrorCode.POLICY_VIOLATION
        assert delete_records(sock, "both", 0) == ErrorCode.NONE
        assert delete_records(sock, "__consumer_offsets", 0) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_that_was_created_has_no_error_message(broker: KafkalogBroker) -> None:
    with broker.connect() as sock:
        new = CreatableTopic(name="created-without-a-message", num_partitions=1, replication_factor=1)
        created = exchange(sock, CreateTopicsRequest(topics=[new], timeout_ms=30_000), 5)
    assert (created.topics[0].error_code, created.topics[0].error_message) == (0, None)
