"""The requests of `benchmarks.stalls` about groups and their offsets."""

from __future__ import annotations

import time
from uuid import UUID

from benchmarks.requests.cases import LIMIT_S, TOPIC, Case, indexes, sent, whole
from broker.coordinator.group.records import offset_commit_key, offset_commit_value
from broker.coordinator.state_topic import partition_of
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.coordinator_records import OffsetCommitValue
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkalog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkalog.records.batch import Record, encode_batch
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import exchange, produce_request

GROUP = "g"
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50
ADMIN_CLIENT = "__admin_client"
"""The client that may produce to internal topics."""
OFFSETS_AT_ONCE = 10_000


def _names(scale: float, most: int = 1_000_000) -> list[str]:
    return [f"x{n}" for n in range(int(most * scale))]


def join(scale: float) -> bytes:
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"") for name in _names(scale)]
    return whole(JoinGroupRequest(group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
                                  protocol_type="consumer", protocols=protocols), 3)  # fmt: skip


def sync(scale: float) -> bytes:
    assignments = [SyncGroupRequestAssignment(member_id=name) for name in _names(scale)]
    return whole(SyncGroupRequest(group_id=GROUP, member_id="m", protocol_type="consumer", protocol_name="range",
                                  assignments=assignments), 5)  # fmt: skip


def leave(scale: float) -> bytes:
    members = [MemberIdentity(member_id=name) for name in _names(scale)]
    return whole(LeaveGroupRequest(group_id=GROUP, members=members), 5)


def heartbeat(scale: float, *, names: int = 0, partitions: int = 0) -> bytes:
    owned = [TopicPartitions(topic_id=UUID(int=1), partitions=indexes(scale, partitions))]
    return whole(ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", rebalance_timeout_ms=10_000, topic_partitions=owned,
        subscribed_topic_names=_names(scale, names)), 0)  # fmt: skip


def commit(scale: float) -> bytes:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes(scale, 1_000_000)
    ]
    return whole(OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)]), 8)


def commit_in_transaction(scale: float) -> bytes:
    rows = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in indexes(scale, 1_000_000)
    ]
    topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=rows)]
    return whole(TxnOffsetCommitRequest(transactional_id="x", group_id=GROUP, producer_id=1, topics=topics), 3)


def fetch_partitions(scale: float) -> bytes:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=indexes(scale, 1_000_000))]
    return whole(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]), 8)


def fetch_groups(scale: float) -> bytes:
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in _names(scale)]
    return whole(OffsetFetchRequest(groups=groups), 8)


def make_offsets(broker: KafkalogBroker, scale: float) -> None:
    """Give a group 100,000 committed offsets: so many partitions are not needed for records that say so."""
    now_ms = int(time.time() * 1000)
    find_coordinator(broker)
    value = offset_commit_value(OffsetCommitValue(offset=1, commit_timestamp=now_ms))
    wanted = indexes(scale, 100_000)
    for first in range(0, len(wanted), OFFSETS_AT_ONCE):
        some = wanted[first : first + OFFSETS_AT_ONCE]
        records = [Record(at, now_ms, offset_commit_key(GROUP, TOPIC, index), value) for at, index in enumerate(some)]
        data = {partition_of(GROUP, OFFSETS_PARTITIONS): encode_batch(records)}
        sent(broker, encode_request(produce_request(OFFSETS_TOPIC, data), 9, 1, ADMIN_CLIENT))
    # The coordinator reads the records when it starts.
    broker.stop()
    broker.start()
    find_coordinator(broker)


def find_coordinator(broker: KafkalogBroker) -> None:
    """Wait for the group's coordinator."""
    deadline = time.monotonic() + LIMIT_S
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    with broker.connect() as sock:
        while exchange(sock, request, 4).coordinators[0].error_code:
            if time.monotonic() > deadline:
                raise TimeoutError(f"there is no coordinator after {LIMIT_S:.0f} s")
            time.sleep(0.1)


GROUP_CASES = [
    Case("JoinGroup, 1 M protocols", join),
    Case("SyncGroup, 1 M assignments", sync),
    Case("LeaveGroup, 1 M members", leave),
    Case("ConsumerGroupHeartbeat, 1 M topics", lambda scale: heartbeat(scale, names=1_000_000)),
    Case("ConsumerGroupHeartbeat, 20 M partitions", lambda scale: heartbeat(scale, partitions=20_000_000)),
    Case("OffsetCommit, 1 M partitions", commit),
    Case("OffsetFetch, 1 M partitions", fetch_partitions),
    Case("OffsetFetch, 1 M groups", fetch_groups),
    Case("TxnOffsetCommit, 1 M partitions", commit_in_transaction),
    Case("FindCoordinator, 100,000 groups", lambda scale: whole(
        FindCoordinatorRequest(key_type=0, coordinator_keys=_names(scale, 100_000)), 4)),
    Case("DeleteGroups, 1 M unknown", lambda scale: whole(DeleteGroupsRequest(groups_names=_names(scale)), 2)),
    Case("DeleteGroups, one with 100,000 offsets", lambda scale: whole(
        DeleteGroupsRequest(groups_names=[GROUP]), 2), prepare=make_offsets),
]  # fmt: skip
