"""Tests of transactions over sockets: responses to producers, consumers and other coordinators."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.requests.transactions import (
    READ_COMMITTED,
    WireProducer,
    committed_values,
    listed,
    state_of,
    wait_for_state,
)
from tests.support.waiting import wait_until
from tests.support.wire import batch as plain_batch
from tests.support.wire import create_topic, end_offset, exchange, fetch, fetch_request, list_offset, produce

StartBroker = Callable[..., KafkalogBroker]
STATE_PARTITIONS = {"transaction.state.log.num.partitions": "3"}


@pytest.fixture
def producer(wire: socket.socket) -> WireProducer:
    """With a session of its own."""
    producer = WireProducer(wire, f"id-{uuid.uuid4().hex}")
    producer.init()
    return producer


# -- from the first partition to the end


def test_a_commit_is_seen_at_once_and_not_before(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    produce(wire, topic, plain_batch([b"before"]))
    producer.write(topic, 0, b"one", b"two")
    produce(wire, topic, plain_batch([b"behind"]))
    assert state_of(wire, producer.transactional_id).transaction_state == "Ongoing"
    assert committed_values(wire, topic) == [b"before"]
    assert end_offset(wire, topic) == 4
    producer.end(committed=True)
    wait_for_state(wire, producer.transactional_id, "CompleteCommit")
    assert committed_values(wire, topic) == [b"before", b"one", b"two", b"behind"]
    # The marker has an offset.
    assert end_offset(wire, topic) == 5
    # Asked again, for the answer may have been lost.
    producer.end(committed=True)
    assert producer.try_end(committed=False) is ErrorCode.INVALID_TXN_STATE
    assert end_offset(wire, topic) == 5


def test_an_abort_is_never_seen(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    producer.write(topic, 0, b"aborted")
    producer.write(topic, 1, b"aborted, too")
    producer.end(committed=False)
    producer.write(topic, 0, b"kept")
    producer.end(committed=True)
    wait_until(lambda: committed_values(wire, topic, 0) == [b"kept"], "the second transaction")
    wait_until(lambda: end_offset(wire, topic, 1) == 2, "the marker")
    assert committed_values(wire, topic, 1) == []


def test_a_reader_that_waits_for_much_is_woken_by_the_marker(
    broker: KafkalogBroker, producer: WireProducer, wire: socket.socket, topic: str
) -> None:
    """The marker is small; what it lets be read is not."""
    request: FetchRequest = fetch_request(
        topic, {0: 0}, max_wait_ms=100_000, min_bytes=2000, isolation_level=READ_COMMITTED
    )
    producer.write(topic, 0, b"x" * 3000)
    with broker.connect() as reading, ThreadPoolExecutor(1) as pool:
        reading.settimeout(90)
        waiting = pool.submit(exchange, reading, request, 12)
        # It is waiting once its records were counted, and found not to be readable.
        assert producer.try_produce(topic, 0, b"y" * 3000) is ErrorCode.NONE
        assert not waiting.done()
        producer.end(committed=True)
        (data,) = waiting.result(90).responses[0].partitions
    assert len(data.records) > 6000


def test_one_transaction_after_another_over_many_partitions(producer: WireProducer, wire: socket.socket) -> None:
    topic = f"many-{uuid.uuid4().hex}"
    create_topic(wire, topic, partitions=70)
    for number in range(3):
        producer.add(topic, *range(70))
        assert producer.try_produce(topic, number, b"%d" % number) is ErrorCode.NONE
        producer.end(committed=number != 1)
    wait_for_state(wire, producer.transactional_id, "CompleteCommit")
    # Each partition of the transaction has its three markers, records or not.
    assert [end_offset(wire, topic, partition) for partition in (0, 1, 2, 3, 69)] == [4, 4, 4, 3, 3]
    assert [committed_values(wire, topic, number) for number in range(3)] == [[b"0"], [], [b"2"]]


def test_offsets_of_a_log_that_ends_in_a_transaction(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    producer.write(topic, 0, b"open")

    def latest(isolation: int) -> int:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
        )
        return int(exchange(wire, request, 7).topics[0].partitions[0].offset)

    assert (latest(0), latest(1)) == (1, 0)
    producer.end(committed=False)
    wait_for_state(wire, producer.transactional_id, "CompleteAbort")
    assert (latest(0), latest(1)) == (2, 2)


# -- verification (KIP-890)


def test_a_partition_is_added_before_it_is_written_to(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    assert producer.try_produce(topic, 0, b"x") is ErrorCode.INVALID_TXN_STATE
    assert producer.try_produce(topic, 0, b"x", version=11) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.try_produce(topic, 0, b"x", transactional_id=None) is (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    assert producer.try_produce(topic, 0, b"x", transactional_id="another") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer.write(topic, 1, b"x")
    assert producer.try_produce(topic, 0, b"x") is ErrorCode.INVALID_TXN_STATE
    assert end_offset(wire, topic, 0) == 0
    producer.write(topic, 0, b"x")
    producer.end(committed=True)
    wait_for_state(wire, producer.transactional_id, "CompleteCommit")
    # The transaction that covered it has ended.
    assert producer.try_produce(topic, 0, b"late") is ErrorCode.INVALID_TXN_STATE
    assert end_offset(wire, topic, 0) == 2


def test_verification_may_be_turned_off_and_on(start_broker: StartBroker) -> None:
    key = "transaction.partition.verification.enable"
    broker = start_broker({key: "false", **STATE_PARTITIONS})
    with broker.connect() as wire:
        create_topic(wire, "t")
        producer = WireProducer(wire, "id")
        producer.init()
        assert producer.try_produce("t", 0, b"x") is ErrorCode.NONE
        config = AlterableConfig(name=key, config_operation=0, value="true")
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
        response = exchange(wire, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert response.responses[0].error_code == ErrorCode.NONE
        assert producer.try_produce("t", 1, b"x") is ErrorCode.INVALID_TXN_STATE
        # There it is open already.
        assert producer.try_produce("t", 0, b"y") is ErrorCode.NONE


# -- who may write


@pytest.mark.parametrize(("init", "add", "end", "code"), [
    (3, 1, 1, ErrorCode.INVALID_PRODUCER_EPOCH), (5, 3, 4, ErrorCode.PRODUCER_FENCED)
])  # fmt: skip
def test_a_new_session_fences_the_old_one(
    producer: WireProducer, wire: socket.socket, topic: str, init: int, add: int, end: int, code: ErrorCode
) -> None:
    """Older clients know it as INVALID_PRODUCER_EPOCH."""
    producer.write(topic, 0, b"fenced")
    newer = WireProducer(wire, producer.transactional_id)
    assert newer.try_init(version=init) is ErrorCode.CONCURRENT_TRANSACTIONS
    newer.init()
    assert newer.producer_id == producer.producer_id
    assert newer.epoch == producer.epoch + 2
    assert state_of(wire, newer.transactional_id).transaction_state == "Empty"
    assert producer.try_add(topic, 1, version=add) == [code]
    assert producer.try_produce(topic, 0, b"x") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.try_end(committed=True, version=end) is code
    assert producer.try_init(raised=True, version=init) is code
    newer.write(topic, 0, b"kept")
    newer.end(committed=True)
    wait_until(lambda: committed_values(wire, topic) == [b"kept"], "the commit")


def test_a_producer_raises_its_own_epoch(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    first = producer.producer_id, producer.epoch
    producer.init(raised=True)
    assert (producer.producer_id, producer.epoch) == (first[0], first[1] + 1)
    # The answer was lost.
    producer.epoch -= 1
    producer.init(raised=True)
    assert producer.epoch == first[1] + 1
    producer.write(topic, 0, b"x")
    producer.end(committed=True)
    wait_until(lambda: committed_values(wire, topic) == [b"x"], "the commit")


def test_requests_that_make_no_sense(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    empty = WireProducer(wire, "")
    assert empty.try_init() is ErrorCode.INVALID_REQUEST
    assert empty.try_add(topic, 0) == [ErrorCode.INVALID_REQUEST]
    assert empty.try_end(committed=True) is ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, -1, 900_001):
        assert WireProducer(wire, "timeouts", timeout_ms).try_init() is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    unknown = WireProducer(wire, f"unknown-{uuid.uuid4().hex}")
    unknown.producer_id, unknown.epoch = producer.producer_id, producer.epoch
    assert unknown.try_add(topic, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert unknown.try_end(committed=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    half = WireProducer(wire, producer.transactional_id)
    half.producer_id = producer.producer_id
    assert half.try_init(raised=True) is ErrorCode.INVALID_REQUEST
    assert producer.try_end(committed=True) is ErrorCode.INVALID_TXN_STATE
    # One partition that there is not keeps the others out.
    assert producer.try_add(topic, 0, 7) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert state_of(wire, producer.transactional_id).transaction_state == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_many_transactions_in_one_request(
    producer: WireProducer, wire: socket.socket, topic: str, version: int
) -> None:
    """As brokers send them: partitions are added, and verified."""
    other = WireProducer(wire, producer.transactional_id + "-2")
    other.init()

    def ask(one: WireProducer, partitions: list[int], *, verify_only: bool, epoch: int = 0) -> None:
        transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=one.transactional_id, producer_id=one.producer_id, producer_epoch=one.epoch + epoch,
                verify_only=verify_only, topics=[AddPartitionsToTxnTopic(name=topic, partitions=partitions)],
            )
        )  # fmt: skip

    def answers() -> list[list[int]]:
        response = exchange(wire, AddPartitionsToTxnRequest(transactions=transactions), version)
        assert response.error_code == ErrorCode.NONE
        transactions.clear()
        return [
            [each.partition_error_code for each in result.topic_results[0].results_by_partition]
            for result in response.results_by_transaction
        ]

    transactions: list[AddPartitionsToTxnTransaction] = []
    ask(producer, [0], verify_only=False)
    ask(other, [1], verify_only=True)
    assert answers() == [[ErrorCode.NONE], [ErrorCode.TRANSACTION_ABORTABLE]]
    ask(producer, [0, 1], verify_only=True)
    ask(other, [0], verify_only=True, epoch=1)
    assert answers() == [[ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE], [ErrorCode.PRODUCER_FENCED]]


# -- time


def test_a_transaction_that_takes_too_long_is_aborted(start_broker: StartBroker) -> None:
    broker = start_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50", **STATE_PARTITIONS})
    with broker.connect() as wire:
        create_topic(wire, "t")
        slow = WireProducer(wire, "slow", timeout_ms=200)
        slow.init()
        patient = WireProducer(wire, "patient")
        patient.init()
        patient.write("t", 1, b"patient")
        slow.add("t", 0)
        wait_for_state(wire, "slow", "CompleteAbort")
        assert slow.try_end(committed=True) is ErrorCode.PRODUCER_FENCED
        assert slow.try_produce("t", 0, b"x") in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)
        slow.init()
        patient.end(committed=True)
        wait_until(lambda: committed_values(wire, "t", 1) == [b"patient"], "the patient one's commit")


def test_a_transactional_id_that_is_not_used_is_forgotten(start_broker: StartBroker) -> None:
    broker = start_broker(
        {
            "transactional.id.expiration.ms": "1",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
            **STATE_PARTITIONS,
        }
    )
    with broker.connect() as wire:
        create_topic(wire, "t")
        ids = [f"id-{number}" for number in range(5)]
        for transactional_id in ids:
            WireProducer(wire, transactional_id).init()
        wait_until(lambda: not listed(wire).transaction_states, "the expiry of all")
        assert state_of(wire, ids[0]).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        again = WireProducer(wire, ids[0])

        def begun() -> bool:
            """It may be forgotten between the two."""
            again.init()
            assert again.epoch == 0
            return again.try_add("t", 0) == [ErrorCode.NONE]

        wait_until(begun, "a transaction")
        # Not while a transaction is open.
        before = broker.logged().count("initialized")
        WireProducer(wire, ids[1]).init()
        wait_until(lambda: len(listed(wire).transaction_states) == 1, "the expiry of the other")
        assert state_of(wire, ids[0]).transaction_state == "Ongoing"
        assert broker.logged().count("initialized") == before + 1
    broker.kill()
    broker.start()
    with broker.connect() as wire:
        # What was forgotten stays so.
        assert state_of(wire, ids[1]).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert state_of(wire, ids[0]).transaction_state == "Ongoing"


# -- markers


def write_marker(
    sock: socket.socket, producer: WireProducer, topic: str, partitions: list[int], **fields: int
) -> list[int]:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id, producer_epoch=fields.pop("epoch", producer.epoch),
        transaction_result=False, coordinator_epoch=fields.pop("coordinator_epoch", 0),
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=partitions)],
    )  # fmt: skip
    response = exchange(sock, WriteTxnMarkersRequest(markers=[marker]), fields.pop("version", 1))
    (result,) = response.markers
    assert result.producer_id == producer.producer_id
    return [each.error_code for each in result.topics[0].partitions]


def test_markers_of_another_coordinator(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    producer.write(topic, 0, b"open")
    assert write_marker(wire, producer, topic, [0, 9], version=0, coordinator_epoch=5) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (end_offset(wire, topic), committed_values(wire, topic)) == (2, [])
    assert write_marker(wire, producer, topic, [0], coordinator_epoch=4) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    raised = write_marker(wire, producer, topic, [0], coordinator_epoch=5, epoch=producer.epoch + 1)
    assert raised == [ErrorCode.NONE]
    fenced = write_marker(wire, producer, topic, [0], coordinator_epoch=5, epoch=producer.epoch)
    assert fenced == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert write_marker(wire, producer, "no-such-topic", [0]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert exchange(wire, WriteTxnMarkersRequest(markers=[]), 1).markers == []


def test_a_marker_is_written_once_into_a_partition_that_is_named_twice(
    producer: WireProducer, wire: socket.socket, topic: str
) -> None:
    producer.write(topic, 0, b"open")
    twice = [WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for indexes in ([0, 0], [0])]
    marker = WritableTxnMarker(
        producer_id=producer.producer_id, producer_epoch=producer.epoch, transaction_result=False,
        coordinator_epoch=0, topics=twice,
    )  # fmt: skip
    (result,) = exchange(wire, WriteTxnMarkersRequest(markers=[marker]), 1).markers
    (told,) = result.topics
    assert [(each.partition_index, each.error_code) for each in told.partitions] == [(0, ErrorCode.NONE)]
    assert end_offset(wire, topic) == 2


def test_a_topic_that_is_deleted_does_not_hold_its_transaction_up(producer: WireProducer, wire: socket.socket) -> None:
    gone, kept = (f"{name}-{uuid.uuid4().hex}" for name in ("gone", "kept"))
    for name in (gone, kept):
        create_topic(wire, name)
        producer.write(name, 0, b"x")
    response = exchange(wire, DeleteTopicsRequest(topics=[DeleteTopicState(name=gone)], timeout_ms=10_000), 6)
    assert response.responses[0].error_code == ErrorCode.NONE
    producer.end(committed=True)
    wait_for_state(wire, producer.transactional_id, "CompleteCommit")
    assert committed_values(wire, kept) == [b"x"]


def test_a_marker_cannot_be_produced(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    producer.add(topic, 0)
    forged = plain_batch(
        [b""], producer_id=producer.producer_id, producer_epoch=producer.epoch, is_transactional=True, is_control=True
    )
    assert produce(wire, topic, forged).error_code != ErrorCode.NONE
    assert end_offset(wire, topic) == 0


# -- the broker stops


@pytest.mark.parametrize("kill", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_an_open_transaction_outlives_the_broker(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker(STATE_PARTITIONS)
    with broker.connect() as wire:
        create_topic(wire, "t")
        producer = WireProducer(wire, "id")
        producer.init()
        producer.write("t", 0, b"before")
    if kill:
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()
    with broker.connect() as wire:
        producer.sock = wire
        assert state_of(wire, "id").transaction_state == "Ongoing"
        assert producer.try_produce("t", 0, b"after") is ErrorCode.NONE
        producer.write("t", 1, b"after")
        producer.end(committed=True)
        wait_until(lambda: committed_values(wire, "t", 0) == [b"before", b"after"], "the commit")
        wait_until(lambda: committed_values(wire, "t", 1) == [b"after"], "the commit")


def test_decisions_are_carried_out_after_a_kill(start_broker: StartBroker, tmp_path: Path) -> None:
    """A log directory fails, so that markers cannot be written; the broker is killed in Prepare…, and finds it."""
    dirs = [tmp_path / "one", tmp_path / "two"]
    broker = start_broker(
        {
            "log.dirs": ",".join(map(str, dirs)),
            "log.flush.offset.checkpoint.interval.ms": "50",
            "transaction.state.log.num.partitions": "1",
        }
    )
    with broker.connect() as wire:
        producers = [WireProducer(wire, f"id {committed}") for committed in (True, False)]
        for producer in producers:
            producer.init()
        create_topic(wire, "t", 2)
        lost_dir = next(directory for directory in dirs if not (directory / "__transaction_state-0").exists())
        (lost,) = (int(path.name[-1]) for path in lost_dir.glob("t-?"))
        for producer in producers:
            for partition in range(2):
                producer.write("t", partition, producer.transactional_id.encode())
        away = lost_dir.with_name("away")
        lost_dir.rename(away)
        lost_dir.write_text("in its place")
        broker.wait_logged(f"Stopping serving logs in dir {lost_dir}")
        for producer, title in zip(producers, ("PrepareCommit", "PrepareAbort"), strict=True):
            producer.end(committed=title == "PrepareCommit")
            # Those that still lack their marker.
            wait_until(
                lambda name=producer.transactional_id: (
                    [each.partitions for each in state_of(wire, name).topics]  # type: ignore[misc]
                    == [[lost]]
                ),
                "the marker of the partition that is left",
            )
            assert state_of(wire, producer.transactional_id).transaction_state == title
            assert producer.try_add("t", 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    broker.kill()
    lost_dir.unlink()
    away.rename(lost_dir)
    broker.start()
    with broker.connect() as wire:
        wait_for_state(wire, "id True", "CompleteCommit")
        wait_for_state(wire, "id False", "CompleteAbort")
        for partition in range(2):
            assert committed_values(wire, "t", partition) == [b"id True"]
        for producer in producers:
            producer.sock = wire
            producer.write("t", 0, b"next")
            producer.end(committed=True)
            wait_for_state(wire, producer.transactional_id, "CompleteCommit")


def test_old_versions_see_offsets_of_aborted_records(producer: WireProducer, wire: socket.socket, topic: str) -> None:
    """read_uncommitted readers get everything, markers as batches of their own."""
    producer.write(topic, 0, b"a")
    producer.end(committed=False)
    wait_for_state(wire, producer.transactional_id, "CompleteAbort")
    assert fetch(wire, topic, {0: 0})[0].last_stable_offset == 2
    assert list_offset(wire, topic).offset == 2
