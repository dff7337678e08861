"""A transactional producer over a plain socket: one request for each call, and every error is returned."""

from __future__ import annotations

import socket
from typing import Any

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkalog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkalog.protocol.messages.end_txn import EndTxnRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest
from kafkalog.records.any_format import decode_any, iter_any_headers
from tests.support.waiting import wait_until
from tests.support.wire import batch, exchange, fetch, produce_request

READ_COMMITTED = 1
TRANSACTIONAL_ID_KEYS = 1
AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""Errors while the last transaction ends, and after a start of the broker."""


class WireProducer:
    """A producer. `producer_id` and `epoch` are those of its last successful `init`."""

    def __init__(self, sock: socket.socket, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.sock = sock
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = {}

    def find(self) -> ErrorCode:
        """Look up the coordinator, which creates its topic."""
        request = FindCoordinatorRequest(key=self.transactional_id, key_type=TRANSACTIONAL_ID_KEYS)
        return ErrorCode(exchange(self.sock, request, 3).error_code)

    def try_init(self, *, raised: bool = False, version: int = 5) -> ErrorCode:
        """Send InitProducerId once; with `raised`, for a greater epoch of the current producer id (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer_id if raised else -1, producer_epoch=self.epoch if raised else -1,
        )  # fmt: skip
        response = exchange(self.sock, request, version)
        if response.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return ErrorCode(response.error_code)

    def init(self, *, raised: bool = False) -> None:
        """Find the coordinator, and retry until the last transaction has ended."""
        assert self.find() is ErrorCode.NONE
        code = ErrorCode.NONE

        def done() -> bool:
            nonlocal code
            code = self.try_init(raised=raised)
            return code not in AGAIN

        wait_until(done, "InitProducerId")
        assert code is ErrorCode.NONE

    def try_add(self, topic: str, *partitions: int, version: int = 3) -> list[ErrorCode]:
        """Send the request once; return an error for each partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        (result,) = exchange(self.sock, request, version).results_by_topic_v3_and_below
        assert [each.partition_index for each in result.results_by_partition] == list(partitions)
        return [ErrorCode(each.partition_error_code) for each in result.results_by_partition]

    def add(self, topic: str, *partitions: int) -> None:
        """Add partitions; wait for the end of the last transaction."""
        codes: list[ErrorCode] = []

        def done() -> bool:
            codes[:] = self.try_add(topic, *partitions)
            return codes[0] not in AGAIN

        wait_until(done, "AddPartitionsToTxn")
        assert set(codes) == {ErrorCode.NONE}

    def try_produce(
        self, topic: str, partition: int, *values: bytes, version: int = 9, transactional_id: str | None = ""
    ) -> ErrorCode:
        """Produce one batch of the transaction."""
        key = topic, partition
        sequence = self._sequences.get(key, 0)
        records = batch(
            values, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence,
            is_transactional=True,
        )  # fmt: skip
        request = produce_request(topic, {partition: records}, acks=-1)
        request.transactional_id = self.transactional_id if transactional_id == "" else transactional_id
        response = exchange(self.sock, request, version).responses[0].partition_responses[0]
        if response.error_code == ErrorCode.NONE:
            self._sequences[key] = sequence + len(values)
        return ErrorCode(response.error_code)

    def write(self, topic: str, partition: int, *values: bytes) -> None:
        """Add the partition and produce one batch."""
        self.add(topic, partition)
        assert self.try_produce(topic, partition, *values) is ErrorCode.NONE

    def try_end(self, *, committed: bool, version: int = 3) -> ErrorCode:
        """Send EndTxn once."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
            committed=committed,
        )  # fmt: skip
        return ErrorCode(exchange(self.sock, request, version).error_code)

    def end(self, *, committed: bool) -> None:
        """End the transaction; its markers follow."""
        assert self.try_end(committed=committed) is ErrorCode.NONE


def state_of(sock: socket.socket, transactional_id: str) -> Any:
    """Return the state in DescribeTransactions, after the coordinator has loaded."""
    found: list[Any] = []

    def told() -> bool:
        found[:] = exchange(
            sock, DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0
        ).transaction_states
        return found[0].error_code not in AGAIN

    wait_until(told, "DescribeTransactions")
    return found[0]


def wait_for_state(sock: socket.socket, transactional_id: str, state: str) -> None:
    wait_until(lambda: state_of(sock, transactional_id).transaction_state == state, f"the state {state}")


def listed(sock: socket.socket, version: int = 1, **filters: Any) -> Any:
    """Send ListTransactions."""
    return exchange(sock, ListTransactionsRequest(**filters), version)


def committed_in(data: Any, aborted: set[int]) -> tuple[list[bytes], int | None]:
    """Return what a read_committed consumer sees of a fetched partition, and the offset after it; None for no data.

    Args:
        data: the partition of a Fetch response.
        aborted: the producers whose transactions are being left out; changed, for the next call.
    """
    values: list[bytes] = []
    following = None
    coming = sorted(data.aborted_transactions or [], key=lambda each: each.first_offset)
    for position, header in iter_any_headers(data.records or b""):
        header, records = decode_any(memoryview(data.records)[position : position + header.size])
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            values += [record.value or b"" for record in records]
        following = header.last_offset + 1
    return values, following


def committed_values(sock: socket.socket, topic: str, partition: int = 0) -> list[bytes]:
    """Return what a read_committed consumer sees of a partition from offset 0 on, without aborted transactions."""
    offset, stable = 0, 1
    aborted: set[int] = set()
    values: list[bytes] = []
    while offset < stable:
        data = fetch(sock, topic, {partition: offset}, isolation_level=READ_COMMITTED)[partition]
        assert data.error_code == ErrorCode.NONE
        stable = data.last_stable_offset
        found, following = committed_in(data, aborted)
        values += found
        offset = offset if following is None else following
    return values
