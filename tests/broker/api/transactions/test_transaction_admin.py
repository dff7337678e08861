"""Tests of the admin requests for transactions, and of the responses without access control lists."""

from __future__ import annotations

import socket
import time
import uuid

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkalog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.support.requests.transactions import WireProducer, listed, state_of, wait_for_state
from tests.support.wire import batch, exchange, produce


def producer(wire: socket.socket, name: str) -> WireProducer:
    made = WireProducer(wire, f"{name}-{uuid.uuid4().hex}")
    made.init()
    return made


def test_transactions_are_listed_and_described(wire: socket.socket, topic: str) -> None:
    empty, open_, done = (producer(wire, name) for name in ("empty", "open", "done"))
    ours = {one.transactional_id: one for one in (empty, open_, done)}
    open_.add(topic, 1, 0)
    done.write(topic, 0, b"x")
    done.end(committed=True)
    wait_for_state(wire, done.transactional_id, "CompleteCommit")

    def found(version: int = 1, **filters: object) -> dict[str, tuple[int, str]]:
        response = listed(wire, version, **filters)
        assert response.error_code == ErrorCode.NONE
        return {
            row.transactional_id: (row.producer_id, row.transaction_state)
            for row in response.transaction_states
            if row.transactional_id in ours
        }

    everything = {
        empty.transactional_id: (empty.producer_id, "Empty"),
        open_.transactional_id: (open_.producer_id, "Ongoing"),
        done.transactional_id: (done.producer_id, "CompleteCommit"),
    }
    assert found(0) == found(1) == everything
    assert found(state_filters=["Ongoing"]).keys() == {open_.transactional_id}
    assert found(producer_id_filters=[done.producer_id, empty.producer_id]).keys() == {
        done.transactional_id,
        empty.transactional_id,
    }
    assert found(state_filters=["Ongoing"], producer_id_filters=[done.producer_id]) == {}
    assert found(state_filters=["Ongoing"], duration_filter=0).keys() <= {open_.transactional_id}
    assert found(state_filters=["Ongoing"], duration_filter=3_600_000) == {}
    response = listed(wire, state_filters=["Ongoing", "Nonsense"])
    assert response.unknown_state_filters == ["Nonsense"]

    state = state_of(wire, open_.transactional_id)
    assert (state.producer_id, state.producer_epoch) == (open_.producer_id, open_.epoch)
    assert state.transaction_timeout_ms == 60_000
    assert state.transaction_start_time_ms > 1_700_000_000_000
    assert [(each.topic, each.partitions) for each in state.topics] == [(topic, [0, 1])]
    assert state_of(wire, empty.transactional_id).transaction_start_time_ms == -1
    assert state_of(wire, "").error_code == ErrorCode.INVALID_REQUEST
    assert state_of(wire, "no such id").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    open_.end(committed=False)


def test_producers_are_described(wire: socket.socket, topic: str) -> None:
    # A producer is forgotten by its newest timestamp: one of before would be gone at the next check.
    now_ms = time.time_ns() // 1_000_000
    records = batch([b"a", b"b"], timestamp=now_ms, producer_id=900_001, producer_epoch=2, base_sequence=0)
    produce(wire, topic, records)
    open_, done = producer(wire, "open"), producer(wire, "done")
    for one in (done, open_):
        one.write(topic, 0, b"x")
    done.end(committed=True)
    wait_for_state(wire, done.transactional_id, "CompleteCommit")
    wanted = [TopicRequest(name=topic, partition_indexes=[0, 1, 9]), TopicRequest(name="none", partition_indexes=[0]),
              TopicRequest(name="no/name", partition_indexes=[0])]  # fmt: skip
    told, unknown, invalid = exchange(wire, DescribeProducersRequest(topics=wanted), 0).topics
    rows = {
        row.producer_id: (row.producer_epoch, row.last_sequence, row.coordinator_epoch, row.current_txn_start_offset)
        for row in told.partitions[0].active_producers
    }
    assert rows == {
        900_001: (2, 1, -1, -1),
        open_.producer_id: (open_.epoch, 0, -1, 3),
        done.producer_id: (done.epoch, 0, 0, -1),
    }
    assert told.partitions[1].active_producers == []
    assert told.partitions[2].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert invalid.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    open_.end(committed=False)


@pytest.mark.parametrize("version", range(4))
def test_there_is_no_authorizer(wire: socket.socket, version: int) -> None:
    wanted = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    described = exchange(wire, wanted, version)
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert described.error_message == "No Authorizer is configured on the broker"
    creation = AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
    )
    created = exchange(wire, CreateAclsRequest(creations=[creation, creation]), version)
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    filters = [DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)]
    deleted = exchange(wire, DeleteAclsRequest(filters=filters), version)
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]
