"""Tests of a consumer whose leader does not respond, or whose log is cut or damaged while it reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import (
    Consumer,
    ConsumerConfig,
    LogTruncationError,
    OffsetAndMetadata,
    UnreadableBatchError,
)
from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_collector import FetchCollector
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.consumer.subscription import PartitionState, SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import ErrorCode, TopicAuthorizationFailedError
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsRequest,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalog.protocol.schema import Request
from kafkalog.records.batch import MAGIC_AT, iter_headers
from kafkalog.records.errors import CorruptRecordError, RecordsError, UnsupportedMagicError
from tests.kafkalog.client.consumer.leaders import OTHER_LEADS, SILENT_LEADS, TP, batch, damaged, two_leaders
from tests.kafkalog.client.consumer.support import DEADLINE_S, Live, poll_until, take, values
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import ScriptedBroker, metadata
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

# Silent leaders


@pytest.mark.parametrize("halting", [False, True], ids=["nothing", "half of it"])
@pytest.mark.parametrize("silent", [ApiVersionsRequest, OffsetForLeaderEpochRequest, ListOffsetsRequest, FetchRequest])
def test_a_silent_leader_keeps_nobody_else_waiting(silent: type[Request], halting: bool) -> None:
    with two_leaders(silent, halting=halting) as (quiet, other):
        servers = {"bootstrap.servers": other.broker.address, "request.timeout.ms": round(DEADLINE_S * 2000)}
        setup = {"socket.connection.setup.timeout.ms": round(DEADLINE_S * 1000)}
        with Consumer({**servers, **setup, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([*SILENT_LEADS, *OTHER_LEADS])
            if silent is not ListOffsetsRequest:
                # Of an epoch that is over, so that the leaders are asked whether their logs still have it. The fetcher
                # sees all of them at once.
                with consumer._monitor.lock:
                    for tp in (*SILENT_LEADS, *OTHER_LEADS):
                        consumer.seek(tp, OffsetAndMetadata(0, leader_epoch=0))
            else:
                consumer.seek_to_beginning()
            assert {record.partition for record in take(consumer, 2)} == {1}
            consumer.seek(OTHER_LEADS[0], 1)
            assert [record.offset for record in take(consumer, 1)] == [1], "again and again"
            quiet.released.set()
            assert {record.partition for record in take(consumer, 4)} == {0, 2}
        if silent is OffsetForLeaderEpochRequest:
            assert quiet.validated == [[0, 2]], "one request for all partitions of a leader"


def test_a_leader_that_does_not_answer_in_time_is_asked_again() -> None:
    with two_leaders(OffsetForLeaderEpochRequest) as (quiet, other):
        servers = {"bootstrap.servers": other.broker.address, "request.timeout.ms": 1000}
        with Consumer(servers) as consumer:
            consumer.assign(SILENT_LEADS)
            for tp in SILENT_LEADS:
                consumer.seek(tp, OffsetAndMetadata(0, leader_epoch=0))
            wait_until(lambda: quiet.broker.seen[OffsetForLeaderEpochRequest] >= 2 or consumer.poll(0.1) != [], "again")
            quiet.released.set()
            assert len(take(consumer, 4)) == 4


def test_a_failure_of_metadata_stops_no_fetches() -> None:
    """A topic that may not be read is an error, and others are read without waiting for `retry.backoff.ms`."""
    with two_leaders(ListOffsetsRequest) as (leader, _):
        known = leader.broker.handlers[MetadataRequest]
        servers = {"bootstrap.servers": leader.broker.address, "retry.backoff.ms": round(DEADLINE_S * 10_000)}
        with Consumer({**servers, "retry.backoff.max.ms": round(DEADLINE_S * 10_000)}) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert len(take(consumer, 2)) == 2
            refused = MetadataResponseTopic(name="u", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

            def refuse(request: MetadataRequest) -> MetadataResponse:
                found: MetadataResponse = known(request)  # type: ignore[assignment]
                if "u" in {topic.name for topic in request.topics or ()}:
                    found.topics.append(refused)
                return found

            leader.broker.handlers[MetadataRequest] = refuse
            consumer.assign([TP, TopicPartition("u", 0)])
            with pytest.raises(TopicAuthorizationFailedError):
                poll_until([consumer], lambda: False, "the topic's error")
            consumer.assign([TP])
            consumer.seek(TP, 1)
            assert [record.offset for record in take(consumer, 1)] == [1]


# Positions that the leader's log does not have (KIP-320)


def test_a_truncated_partition_is_not_read_before_a_seek() -> None:
    with two_leaders(ListOffsetsRequest) as (leader, _):
        servers = {"bootstrap.servers": leader.broker.address, "auto.offset.reset": "none", "retry.backoff.ms": 20}
        with Consumer(servers) as consumer:
            consumer.assign([TP])
            # Offsets 0 and 1 of epoch 0 are there; the leader is of epoch 1.
            consumer.seek(TP, OffsetAndMetadata(5, leader_epoch=0))
            for _ in range(3):
                with pytest.raises(LogTruncationError) as failure:
                    consumer.poll(DEADLINE_S)
                assert failure.value.positions == {TP: 5}
                assert failure.value.divergent == {TP: OffsetAndMetadata(2, leader_epoch=0)}
            assert leader.broker.seen[FetchRequest] == 0
            consumer.seek(TP, OffsetAndMetadata(1, leader_epoch=0))
            assert [record.offset for record in take(consumer, 1)] == [1]


def test_a_position_that_is_sought_amid_a_request_is_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    sought, again = threading.Event(), threading.Event()
    known_leader = Cluster.known_leader

    def seeking(cluster: Cluster, tp: TopicPartition) -> Any:
        found = known_leader(cluster, tp)
        if found is not None and not again.is_set():
            # The fetcher is about to ask for offset 0, of no epoch that is to be validated.
            assert sought.wait(DEADLINE_S)
            consumer.seek(TP, OffsetAndMetadata(5, leader_epoch=0))
            again.set()
        return found

    monkeypatch.setattr(Cluster, "known_leader", seeking)
    with (
        two_leaders(ListOffsetsRequest) as (leader, _),
        Consumer({"bootstrap.servers": leader.broker.address, "auto.offset.reset": "none"}) as consumer,
    ):
        consumer.assign([TP])
        consumer.seek(TP, 0)
        sought.set()
        assert again.wait(DEADLINE_S)
        with pytest.raises(LogTruncationError):
            consumer.poll(DEADLINE_S)


# Followers


class Site:
    """A leader that sends fetches of the rack `r` to a follower, which may be away, or without what is asked for."""

    def __init__(self) -> None:
        self.fetches: list[tuple[str, str, int]] = []
        self.follower_error = 0
        self.leader_serves = False
        self.leader = ScriptedBroker({FetchRequest: self._at_leader})
        self.follower = ScriptedBroker({FetchRequest: self._at_follower})
        brokers = {0: self.leader, 1: self.follower}
        known = metadata(brokers, {(TP.topic, TP.partition): 0}, epoch=1)
        for broker in brokers.values():
            broker.handlers[MetadataRequest] = lambda request: known

    def _answer(self, who: str, request: FetchRequest, **fields: Any) -> FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        self.fetches.append((who, request.rack_id, offset))
        records = memoryview(batch(offset)) if "records" not in fields and offset < 20 else None
        if records is None:
            time.sleep(0.02)
        fields = {"records": records, "high_watermark": 20, "last_stable_offset": 20, **fields}
        data = PartitionData(partition_index=0, **fields)
        return FetchResponse(responses=[FetchableTopicResponse(topic=TP.topic, partitions=[data])])

    def _at_leader(self, request: FetchRequest) -> FetchResponse:
        if self.leader_serves:
            return self._answer("leader", request)
        return self._answer("leader", request, records=None, preferred_read_replica=1)

    def _at_follower(self, request: FetchRequest) -> FetchResponse:
        if self.follower_error:
            self.leader_serves = True
            return self._answer("follower", request, records=None, error_code=self.follower_error)
        return self._answer("follower", request)


@pytest.mark.parametrize("error", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER, None])
def test_the_leader_names_a_follower_to_fetch_from(error: ErrorCode | None) -> None:
    site = Site()
    with site.leader, site.follower:
        servers = {"bootstrap.servers": site.leader.address, "client.rack": "r", "auto.offset.reset": "none"}
        with Consumer({**servers, "max.poll.records": 2, "retry.backoff.ms": 20}) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert [record.offset for record in take(consumer, 4)] == [0, 1, 2, 3]
            assert [(who, rack) for who, rack, _ in site.fetches][:2] == [("leader", "r"), ("follower", "r")]
            assert {who for who, _, _ in site.fetches[1:]} == {"follower"}
            if error is not None:
                site.follower_error = error
            else:
                site.leader_serves = True
                site.follower.stop_listening()
                site.follower.hang_up()
            # Whatever is wrong with the follower, the leader is asked, and knows.
            assert [record.offset for record in take(consumer, 16)] == list(range(4, 20))
            assert site.fetches[-1][0] == "leader"


# Truncation while records are taken


class Cut(CompletedFetch):
    """A chunk whose log is truncated while it is being read, as the fetcher's thread finds out."""

    def __init__(self, state: PartitionState, fetched: FetchedRecords, act: Callable[[PartitionState], None]) -> None:
        super().__init__(state.tp, 0, fetched, 0)
        self._state, self._act = state, act

    def take(self, count: int, config: ClientConfig) -> tuple[list[ConsumerRecord], FetchPosition | None]:
        found = super().take(count, config)
        self._in_another_thread()
        return found

    def take_arrow(self) -> Any:
        found = super().take_arrow()
        self._in_another_thread()
        return found

    def _in_another_thread(self) -> None:
        thread = threading.Thread(target=self._act, args=(self._state,))
        thread.start()
        thread.join()


CUTS = {
    "to an offset": lambda state: state.move(FetchPosition(1, 0)),
    "to a timestamp": lambda state: state.look_up(-2),
    "above the position": lambda state: state.refetch(),
}


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("arrow", [False, True])
def test_what_is_truncated_while_it_is_taken_is_not_handed_out(how: str, arrow: bool) -> None:
    config = ConsumerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"}).client
    subscription = SubscriptionState()
    subscription.assign_manually([TP])
    state = subscription.state(TP)
    state.move(FetchPosition(0))
    taking = FetchCollector(config, subscription, Monitor(), lambda: None)
    fetched = FetchedRecords(memoryview(batch(0)), 2, 2, 0, [])
    state.completed_fetches.append(Cut(state, fetched, CUTS[how]))
    if arrow:
        assert taking.take_arrow(("offset",)) is None
    else:
        assert taking.take(10) == ([], None)
    wanted = {"to an offset": FetchPosition(1, 0), "to a timestamp": None, "above the position": FetchPosition(0)}
    assert (state.position, len(state.completed_fetches), taking.records) == (wanted[how], 0, 0)
    assert taking.after == {}


# Damaged batches


DAMAGED = {
    "checksum": damaged(batch(4)),
    "length": batch(4)[:8] + b"\0\0\0\1" + batch(4)[12:],
    "magic": batch(4)[:16] + b"\7" + batch(4)[17:],
}


@pytest.mark.parametrize("leader_epoch", [0, 3], ids=["same epoch", "later epoch"])
@pytest.mark.parametrize("broken", DAMAGED.values(), ids=DAMAGED)
def test_arrow_batches_come_before_what_cannot_be_read(broken: bytes, leader_epoch: int) -> None:
    config = ConsumerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"}).client
    records = memoryview(batch(0) + batch(2) + broken + batch(6))
    chunk = CompletedFetch(TP, 1, FetchedRecords(records, 8, 8, 0, []), leader_epoch)
    chunk.decode_arrow(("offset",), config)
    assert chunk.arrow_left
    found, position = chunk.take_arrow()
    assert found is not None
    assert (found["offset"].to_pylist(), position.offset) == ([1, 2, 3], 4)
    assert chunk.next == position == FetchPosition(4, 0)
    for _ in range(2):
        assert chunk.arrow_left
        with pytest.raises(RecordsError):
            chunk.take_arrow()


@pytest.mark.parametrize("leader_epoch", [0, 3], ids=["same epoch", "later epoch"])
@pytest.mark.parametrize("broken", DAMAGED.values(), ids=DAMAGED)
def test_records_come_before_what_cannot_be_read(broken: bytes, leader_epoch: int) -> None:
    config = ConsumerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"}).client
    records = memoryview(batch(0) + batch(2) + broken + batch(6))
    chunk = CompletedFetch(TP, 1, FetchedRecords(records, 8, 8, 0, []), leader_epoch)
    taken, position = chunk.take(10, config)
    assert [record.offset for record in taken] == [1, 2, 3]
    assert position == FetchPosition(4, 0)
    assert chunk.broken
    first = CompletedFetch(TP, 4, FetchedRecords(memoryview(broken + batch(6)), 8, 8, 0, []), leader_epoch)
    assert first.failure is not None or first.next.offset > 4, "there is something to tell"
    with pytest.raises(RecordsError):
        first.take(10, config)


@pytest.fixture(params=["checksum", "magic"])
def damaged_log(
    processes: None, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Live, TopicPartition]]:
    """A log of three batches of ten records, whose second one is damaged on the disk; of an epoch that is over."""
    with KafkalogBroker(tmp_path) as running:
        live = Live(running.bootstrap)
        topic = live.topic()
        for part in range(3):
            # In one batch, however slowly they are sent one after another.
            live.produce(topic, 0, values(10, f"part{part}."), linger_ms="60000")
        (segment,) = (running.log_dir / f"{topic}-0").glob("*.log")
        data = segment.read_bytes()
        headers = list(iter_headers(memoryview(data)))
        running.kill()
        running.start()
        with segment.open("r+b") as file:
            if request.param == "checksum":
                file.seek(data.index(b"part1.5"))
                file.write(b"PART")
            else:
                file.seek(headers[1][0] + MAGIC_AT)
                file.write(b"\7")
        yield live, TopicPartition(topic, 0)


@pytest.mark.parametrize("arrow", [False, True])
def test_records_before_a_damaged_batch_come_and_those_after_it_can_be_had(
    damaged_log: tuple[Live, TopicPartition], arrow: bool
) -> None:
    live, tp = damaged_log

    def offsets(consumer: Consumer) -> list[int]:
        if not arrow:
            return [record.offset for record in consumer.poll(DEADLINE_S)]
        found = consumer.poll_arrow(DEADLINE_S, ("offset",))
        return [] if found is None else found["offset"].to_pylist()

    with live.consumer() as consumer:
        consumer.assign([tp])
        seen: list[int] = []
        while len(seen) < 10:
            seen += offsets(consumer)
        assert seen == list(range(10))
        for _ in range(2):
            with pytest.raises(UnreadableBatchError, match=f"partition {tp} at offset 10") as failure:
                offsets(consumer)
            assert (failure.value.tp, failure.value.offset) == (tp, 10)
            assert isinstance(failure.value.__cause__, CorruptRecordError | UnsupportedMagicError)
            assert consumer.position(tp) == 10
        consumer.seek(tp, 20)
        assert offsets(consumer) == list(range(20, 30))
