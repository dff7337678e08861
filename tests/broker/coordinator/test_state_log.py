"""Tests of storing coordinators' state: the topic is created once, appends are in order, and reads return them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest

from broker.coordinator.state_log import Shortage, StateBatch, StateLog, StateRecord
from broker.coordinator.transaction.markers import Marker, MarkerWriter
from broker.log.append.validation import Origin
from broker.metadata.model import NO_TOPIC_ID, PartitionCount, PartitionState
from kafkalog.protocol.errors import (
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
)
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from tests.broker.coordinator.support import Stored, refuse_appends

Make = Callable[..., Stored]


def pairs(pieces: list[list[StateBatch]]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for piece in pieces for batch in piece for record in batch.records]


def records(*keys: bytes) -> list[StateRecord]:
    return [StateRecord(key, b"value of " + key) for key in keys]


def test_the_topic_is_made_once_with_its_settings(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    with pytest.raises(CoordinatorNotAvailableError):
        log.partition_for("group")

    async def ask() -> list[int]:
        return list(await asyncio.gather(*(log.ensure() for _ in range(5))))

    assert parts.run(ask()) == [2] * 5
    topic = parts.store.state.topics["__consumer_offsets"]
    assert topic.config["cleanup.policy"] == "compact"
    assert parts.replicas.partitions_of("__consumer_offsets")[0].log.config.segment_bytes == 100 << 20
    assert log.partition_for("hello") == 99_162_322 % 2


def test_a_broker_that_stops_waits_for_the_topic_that_is_being_made(stored: Make) -> None:
    """The request that made it may have been cancelled already."""
    parts = stored()
    log = parts.state_log()

    async def stop_meanwhile() -> int:
        request = asyncio.create_task(log.ensure())
        await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        await log.settle()
        return len(parts.replicas.partitions_of("__consumer_offsets"))

    assert parts.run(stop_meanwhile()) == 2


def test_partitions_stay_as_many_as_they_were_when_they_were_first_counted(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    parts.run(parts.topics.grow("__consumer_offsets", 7, None))
    assert log.partitions == 2
    assert parts.state_log().partitions == 7


def test_partitions_that_a_member_has_read_are_not_counted_again_until_there_is_another_topic(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    log.count(PartitionCount(uuid.uuid4(), 5))
    assert log.partitions is None
    parts.run(log.ensure())
    assert log.partitions == 2, "a topic of another id"
    state = log.state
    assert state is not None
    for topic_id in (state.topic_id, NO_TOPIC_ID):
        log.count(PartitionCount(topic_id, 50))
        assert log.partitions == 50, "this broker has been told of two so far"
    parts.run(parts.topics.delete(["__consumer_offsets"]))
    parts.run(log.ensure())
    assert log.partitions == 2, "the id of the topic that was counted without one is known since"


def test_a_deleted_topic_is_told_and_can_be_made_anew(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    gone: list[frozenset[str]] = []
    parts.topics.on_deleted.append(gone.append)
    parts.run(parts.topics.delete(["__consumer_offsets"]))
    assert gone == [{"__consumer_offsets"}]
    assert log.partitions is None
    with pytest.raises(CoordinatorNotAvailableError):
        parts.append(log, 0, records(b"k"))
    assert parts.run(log.ensure()) == 2
    assert parts.append(log, 0, records(b"k")) == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_what_is_read_is_what_was_written_over_a_restart(stored: Make, codec: Codec) -> None:
    parts = stored(offsets_topic_compression_codec=str(int(codec)))
    log = parts.state_log()
    parts.run(log.ensure())
    assert parts.append(log, 0, [*records(b"a", b"b"), StateRecord(b"a", None)]) == 2
    assert parts.append(log, 0, records(b"c")) == 3
    parts.close()
    again = stored()
    pieces = again.read(again.state_log())
    assert pairs(pieces) == [(b"a", b"value of a"), (b"b", b"value of b"), (b"a", None), (b"c", b"value of c")]
    assert [record.timestamp for record in pieces[0][0].records] == [parts.now] * 3
    assert again.read(again.state_log(), 1) == []


def test_a_partition_is_read_in_pieces_and_to_its_present_end(stored: Make) -> None:
    parts = stored(offsets_load_buffer_size="300")
    log = parts.state_log()
    parts.run(log.ensure())
    for number in range(20):
        parts.append(log, 0, records(b"%d" % number))

    async def collect(log: StateLog) -> list[list[StateBatch]]:
        pieces: list[list[StateBatch]] = []
        async for piece in log.replay(0, list):
            if not pieces:
                # Its batch is larger than a piece: it comes whole all the same.
                await log.append(0, [StateRecord(b"late", b"x" * 1000)])
            pieces.append(piece)
        return pieces

    pieces = parts.run(collect(log))
    assert len(pieces) > 3
    assert [key for key, _ in pairs(pieces)] == [*(b"%d" % number for number in range(20)), b"late"]


def test_transactions_and_their_markers_are_told(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    parts.append(log, 0, records(b"t"), producer_id=7, producer_epoch=3, transactional=True)
    partition = log.leads(0)
    assert partition is not None
    for kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
        marker = EndTransactionMarker(kind, 0).encode(timestamp=parts.now, producer_id=7, producer_epoch=3)
        partition.append(memoryview(marker), -1, parts.now, origin=Origin.COORDINATOR)
    [[data, commit, abort]] = parts.read(log)
    assert (data.producer_id, data.producer_epoch, data.is_transactional, data.marker) == (7, 3, True, None)
    assert (commit.marker, commit.records, commit.producer_id) == (ControlRecordType.COMMIT, [], 7)
    assert abort.marker is ControlRecordType.ABORT
    with pytest.raises(InvalidProducerEpochError):
        parts.append(log, 0, records(b"t"), producer_id=7, producer_epoch=2, transactional=True)


def test_logs_with_gaps_and_of_old_formats_are_read(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    partition = log.leads(0)
    assert partition is not None
    compacted = [Record(5, 1, b"five", b"v"), Record(9, 2, b"nine", b"v")]
    partition.log.append_as_follower(
        memoryview(encode_batch(compacted, base_offset=3, leader_epoch=0)), now_ms=parts.now
    )
    partition.log.append_as_follower(memoryview(encode_batch([], base_offset=12, leader_epoch=0)), now_ms=parts.now)
    partition.advance_high_watermark()
    pieces = parts.read(log)
    assert [record.offset for piece in pieces for batch in piece for record in batch.records] == [5, 9]


def test_an_append_waits_for_the_high_watermark(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    partition = log.leads(0)
    assert partition is not None
    partition.log.config = parts.config.log_config({"flush.messages": 1})

    async def append() -> tuple[bool, int]:
        # No flush ends meanwhile, however fast the disk is.
        with partition.log.flushes:
            future = log.append(0, records(b"k"))
            waited = not future.done()
        return waited, await future

    assert parts.run(append()) == (True, 0)
    assert partition.log.recovery_point == 1


def test_errors_are_those_of_coordinators(stored: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    partition = log.leads(0)
    assert partition is not None
    with pytest.raises(MessageTooLargeError):
        parts.append(log, 0, [StateRecord(b"k", b"x" * (2 << 20))])
    # It is found out without making a batch of it.
    with monkeypatch.context() as patch:
        patch.delattr("broker.coordinator.state_log.encode_batch")
        with pytest.raises(MessageTooLargeError):
            parts.append(log, 0, [StateRecord(b"k", b"x" * (2 << 20))])
    refuse_appends(partition)
    with pytest.raises(CoordinatorNotAvailableError):
        parts.append(log, 0, records(b"k"))
    refuse_appends(partition, False)
    partition.become(PartitionState((0, 5), (5,), 5, 1))
    with pytest.raises(NotCoordinatorError):
        parts.append(log, 0, records(b"k"))
    with pytest.raises(NotCoordinatorError):
        parts.read(log)


def test_an_append_that_is_not_replicated_in_time_has_timed_out(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    partition = log.leads(0)
    assert partition is not None
    partition.log.config = parts.config.log_config({"flush.messages": 1})
    parts.replicas.flushes.begin = lambda partition: None  # type: ignore[method-assign]

    async def append() -> None:
        await log.append(0, records(b"k"), timeout_ms=10)

    with pytest.raises(RequestTimedOutError):
        parts.run(append())


def test_a_damaged_log_is_not_read_as_if_it_were_whole(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    parts.append(log, 0, records(b"k"))
    partition = log.leads(0)
    assert partition is not None
    path = partition.log.dir / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    with pytest.raises(NotCoordinatorError):
        parts.read(log)


Role = tuple[int, int, tuple[int, ...]]
"""Leader, leader epoch, ISR."""


@pytest.mark.parametrize(
    ("roles", "error", "replicated"),
    [
        ([(9, 1, (9,))], NotCoordinatorError, False),
        ([(9, 1, (9,)), (0, 2, (0, 9))], NotCoordinatorError, False),
        ([(0, 1, (0, 9))], None, True),
        ([(0, 1, (0,))], CoordinatorNotAvailableError, True),
    ],
)
def test_what_waits_is_told_of_a_change_of_role(
    stored: Make, roles: list[Role], error: type[Exception] | None, replicated: bool
) -> None:
    """A follower, a leader again, a leader still, a leader of too few in-sync replicas."""
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    partition = log.leads(0)
    assert partition is not None
    partition.min_insync = 2
    topic = parts.store.state.topics[log.topic]
    markers = MarkerWriter(parts.replicas, lambda: parts.now, lambda marker, written: None)

    def become(leader: int, epoch: int, isr: tuple[int, ...]) -> None:
        changed = PartitionState((0, 9), isr, leader, epoch)
        config = parts.replicas.topic_config(topic.config)
        parts.replicas.host_partition(topic.name, 0, topic.topic_id, changed, config, is_new=False)

    async def work() -> None:
        partition.log.config = parts.config.log_config({"flush.messages": 1})
        flushes = parts.replicas.flushes
        flush, flushes.begin = flushes.begin, lambda partition: None  # type: ignore[method-assign]
        become(0, 0, (0, 9))
        written = log.write(0, records(b"k"))
        waiting = log.acknowledged(written)
        then: list[int] = []
        log.when_replicated(written, then.append)
        marker = markers.write(log.topic, 0, Marker(7, 0, True, 0))
        assert not waiting.done()
        assert not marker.done()
        assert not then
        parts.replicas.follower_fetched(partition, 9, 2, 0, 2)
        assert partition.high_watermark == 2
        for role in roles:
            become(*role)
        flush(partition)
        if error is None:
            assert (await waiting, await marker) == (0, 1)
        else:
            with pytest.raises(error):
                await waiting
            with pytest.raises(NotEnoughReplicasAfterAppendError if replicated else NotLeaderOrFollowerError):
                await marker
        assert then == ([0] if replicated else [])
        assert len(parts.replicas.produce_purgatory) == 0

    parts.run(work())


def test_an_isr_that_is_too_small_is_told(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    assert log.shortage(0) is None
    parts.run(log.ensure())
    partition = log.leads(0)
    assert partition is not None
    assert log.shortage(0) is None
    refuse_appends(partition)
    assert log.shortage(0) == Shortage((0,), 2)
    refuse_appends(partition, False)
    assert log.shortage(0) is None


def test_the_end_is_replicated_when_the_high_watermark_is_there(stored: Make) -> None:
    parts = stored()
    log = parts.state_log()
    parts.run(log.ensure())
    partition = parts.replicas.get("__consumer_offsets", 0)
    assert partition is not None
    told: list[str] = []

    async def look(name: str) -> None:
        log.when_end_is_replicated(0, lambda: told.append(name))

    parts.run(look("empty"))
    parts.append(log, 0, records(b"k"))
    parts.run(look("replicated"))
    assert told == ["empty", "replicated"]
    parts.assign("__consumer_offsets", 0, PartitionState((0, 9), (0, 9), 0, partition.leader_epoch + 1))

    async def write() -> None:
        log.write(0, records(b"k"))
        await look("later")

    parts.run(write())
    assert told == ["empty", "replicated"]

    async def replicate() -> None:
        end = partition.log.log_end_offset
        assert partition.follower_fetched(9, end, 0, end)
        parts.replicas.high_watermark_advanced(partition)

    parts.run(replicate())
    assert told == ["empty", "replicated", "later"]
