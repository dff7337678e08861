"""Tests of transaction requests with a scripted coordinator: which are retried, and which error is raised."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.transactions.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    FencedError,
    Operation,
    cannot_be_ended,
    needs_new_epoch,
    transaction_error,
)
from kafkalog.client.transactions.requests import ProducerIdentity, TransactionRequests, end_transaction
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import ConcurrentTransactionsError, ErrorCode, ProducerFencedError, error_for
from kafkalog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkalog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkalog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.kafkalog.client.support import config_for
from tests.support import scripted
from tests.support.scripted import ScriptedBroker, Silence, metadata

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


class Coordinator:
    """A coordinator of everything; its answers' codes are taken from lists by request, and their end is success."""

    def __init__(self) -> None:
        self.codes: dict[type[Any], list[Any]] = {}
        self.requests: list[Any] = []
        self.broker = ScriptedBroker(
            {
                MetadataRequest: lambda request: metadata({0: self.broker}, {}),
                FindCoordinatorRequest: self._find,
                InitProducerIdRequest: lambda request: InitProducerIdResponse(
                    error_code=self._code(request), producer_id=7, producer_epoch=request.producer_epoch + 1
                ),
                AddPartitionsToTxnRequest: self._add,
                AddOffsetsToTxnRequest: lambda request: AddOffsetsToTxnResponse(
                    error_code=self._code(request), throttle_time_ms=0
                ),
                TxnOffsetCommitRequest: self._commit,
                EndTxnRequest: lambda request: EndTxnResponse(error_code=self._code(request), throttle_time_ms=0),
            }
        )

    def _code(self, request: Any) -> Any:
        self.requests.append(request)
        codes = self.codes.get(type(request))
        return codes.pop(0) if codes else 0

    def _find(self, request: Any) -> FindCoordinatorResponse:
        code = self._code(request)
        return FindCoordinatorResponse(
            error_code=code, node_id=-1 if code else 0, host="127.0.0.1", port=self.broker.port
        )

    def _add(self, request: Any) -> AddPartitionsToTxnResponse:
        codes = self._code(request)
        results = []
        for topic in request.v3_and_below_topics:
            parts = [
                AddPartitionsToTxnPartitionResult(
                    partition_index=p, partition_error_code=codes.get(p, 0) if isinstance(codes, dict) else codes
                )
                for p in topic.partitions
            ]
            results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=parts))
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=results)

    def _commit(self, request: Any) -> TxnOffsetCommitResponse:
        code = self._code(request)
        return TxnOffsetCommitResponse(
            throttle_time_ms=0,
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    made = Coordinator()
    for cls in made.broker.handlers:
        monkeypatch.setitem(scripted.REQUESTS, cls.api_key, cls)
    with made.broker:
        yield made


@pytest.fixture
def requests(coordinator: Coordinator) -> Iterator[TransactionRequests]:
    with TransactionRequests(config_for(coordinator.broker, retry_backoff_ms="1"), "x", 5000) as made:
        yield made


def test_a_transaction(coordinator: Coordinator, requests: TransactionRequests) -> None:
    assert requests.init() == ProducerIdentity(7, 0)
    requests.add_partitions([OTHER, TP, TP])
    requests.add_offsets("g")
    requests.commit_offsets(
        {TP: 5, OTHER: OffsetAndMetadata(9, 3, "note")}, ConsumerGroupMetadata("g", 4, "member", "static")
    )
    requests.end(True)
    assert requests.raise_epoch(ended=True) == ProducerIdentity(7, 1)
    find, init, add, offsets, _, commit, end, again = coordinator.requests
    assert (find.key, find.key_type) == ("x", 1)
    assert (init.transactional_id, init.transaction_timeout_ms, init.producer_id) == ("x", 5000, -1)
    assert (add.v3_and_below_producer_id, add.v3_and_below_topics[0].partitions) == (7, [0, 1])
    assert offsets.group_id == "g"
    assert (commit.generation_id, commit.member_id, commit.group_instance_id) == (4, "member", "static")
    assert [
        (p.committed_offset, p.committed_leader_epoch, p.committed_metadata) for p in commit.topics[0].partitions
    ] == [
        (5, -1, ""),
        (9, 3, "note"),
    ]
    assert end.committed
    assert (again.producer_id, again.producer_epoch) == (7, 0)


def test_nothing_to_add_asks_nobody(coordinator: Coordinator, requests: TransactionRequests) -> None:
    requests.add_partitions([])
    requests.commit_offsets({}, "g")
    assert not coordinator.requests


@pytest.mark.parametrize(
    "codes",
    [
        [ErrorCode.CONCURRENT_TRANSACTIONS] * 3,
        [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE],
        [ErrorCode.REQUEST_TIMED_OUT],
    ],
)
@pytest.mark.parametrize(
    "request_class", [InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest]
)
def test_what_is_tried_again(
    coordinator: Coordinator, requests: TransactionRequests, request_class: type[Any], codes: list[int]
) -> None:
    coordinator.codes[request_class] = list(codes)
    run(requests, request_class)
    assert coordinator.broker.seen[request_class] == len(codes) + 1
    moved = sum(code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE) for code in codes)
    assert coordinator.broker.seen[FindCoordinatorRequest] == 1 + moved


def run(requests: TransactionRequests, request_class: type[Any]) -> None:
    calls: dict[type[Any], Any] = {
        InitProducerIdRequest: requests.init,
        AddPartitionsToTxnRequest: lambda: requests.add_partitions([TP, OTHER]),
        AddOffsetsToTxnRequest: lambda: requests.add_offsets("g"),
        TxnOffsetCommitRequest: lambda: requests.commit_offsets({TP: 1}, "g"),
        EndTxnRequest: lambda: requests.end(True),
    }
    calls[request_class]()


@pytest.mark.parametrize(
    ("request_class", "code", "kind"),
    [
        (InitProducerIdRequest, ErrorCode.INVALID_PRODUCER_EPOCH, FencedError),
        (InitProducerIdRequest, ErrorCode.INVALID_TRANSACTION_TIMEOUT, FatalTransactionError),
        (AddPartitionsToTxnRequest, ErrorCode.PRODUCER_FENCED, FencedError),
        (AddPartitionsToTxnRequest, ErrorCode.INVALID_TXN_STATE, FatalTransactionError),
        (AddPartitionsToTxnRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, AbortableTransactionError),
        (AddPartitionsToTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING, AbortableTransactionError),
        (AddOffsetsToTxnRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, AbortableTransactionError),
        (AddOffsetsToTxnRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalTransactionError),
        (TxnOffsetCommitRequest, ErrorCode.ILLEGAL_GENERATION, AbortableTransactionError),
        (TxnOffsetCommitRequest, ErrorCode.STALE_MEMBER_EPOCH, AbortableTransactionError),
        (TxnOffsetCommitRequest, ErrorCode.PRODUCER_FENCED, FencedError),
        (EndTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, AbortableTransactionError),
        (EndTxnRequest, ErrorCode.INVALID_TXN_STATE, FatalTransactionError),
    ],
)
def test_what_is_raised(
    coordinator: Coordinator, requests: TransactionRequests, request_class: type[Any], code: ErrorCode, kind: Any
) -> None:
    coordinator.codes[request_class] = [code]
    with pytest.raises(kind, match=code.name) as raised:
        run(requests, request_class)
    assert isinstance(raised.value, FatalTransactionError) == (kind is not AbortableTransactionError)
    assert isinstance(raised.value, ProducerFencedError) == (kind is FencedError)
    assert getattr(raised.value.__cause__, "code", None) == code
    assert coordinator.broker.seen[request_class] == 1


def test_one_bad_partition_decides(coordinator: Coordinator, requests: TransactionRequests) -> None:
    coordinator.codes[AddPartitionsToTxnRequest] = [
        {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS},
        {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 1: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    ]
    with pytest.raises(AbortableTransactionError, match="t-1"):
        requests.add_partitions([TP, OTHER])
    assert coordinator.broker.seen[AddPartitionsToTxnRequest] == 2


def test_one_try(coordinator: Coordinator, requests: TransactionRequests) -> None:
    coordinator.codes[AddPartitionsToTxnRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED]
    deadline = time.monotonic() + 60
    with pytest.raises(ConcurrentTransactionsError):
        requests.add_partitions_now([TP], deadline=deadline)
    with pytest.raises(FencedError):
        requests.add_partitions_now([TP], deadline=deadline)
    requests.add_partitions_now([TP], deadline=deadline)


def test_the_wait_ends(coordinator: Coordinator, requests: TransactionRequests) -> None:
    coordinator.codes[EndTxnRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 1000
    with pytest.raises(ClientTimeoutError, match="CONCURRENT_TRANSACTIONS"):
        requests.end(False, deadline=time.monotonic() + 1.5)
    # At least 20 ms lie between two tries.
    assert 1 < coordinator.broker.seen[EndTxnRequest] <= 76


def test_a_last_try_without_an_answer_keeps_the_reason(coordinator: Coordinator, requests: TransactionRequests) -> None:
    answers: list[Any] = [EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)]
    coordinator.broker.handlers[EndTxnRequest] = lambda request: answers.pop() if answers else Silence()
    with pytest.raises(ClientTimeoutError, match=r"did not answer END_TXN in time; .*CONCURRENT_TRANSACTIONS"):
        requests.end(False, deadline=time.monotonic() + 1.5)
    assert not answers


def test_another_process_ends_it(coordinator: Coordinator) -> None:
    with Cluster(config_for(coordinator.broker)) as cluster:
        end_transaction(cluster, "x", 12, 3, False)
        end = coordinator.requests[-1]
        assert (end.producer_id, end.producer_epoch, end.committed) == (12, 3, False)
        cluster.metadata([], refresh=True)


def test_which_errors_ask_for_more() -> None:
    lost = transaction_error(Operation.ADD_OFFSETS, error_for(ErrorCode.INVALID_PRODUCER_ID_MAPPING), "x")
    assert needs_new_epoch(lost)
    assert cannot_be_ended(lost)
    unknown = transaction_error(Operation.ADD_OFFSETS, error_for(ErrorCode.UNKNOWN_PRODUCER_ID), "x")
    assert needs_new_epoch(unknown)
    assert not cannot_be_ended(unknown)
    assert not needs_new_epoch(None)


def test_a_transaction_with_offsets_of_a_deleted_topic_can_be_aborted() -> None:
    unknown = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert isinstance(transaction_error(Operation.COMMIT_OFFSETS, unknown, "x"), AbortableTransactionError)
