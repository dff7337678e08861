"""Keys and values of the records with which coordinators store groups, offsets and transactions.

They are in `__consumer_offsets` and `__transaction_state`. A key and a value begin with their version (int16), which
for a key also tells its class. Source: `group-coordinator/src/main/resources/common/message` and the same folder of
`transaction-coordinator` of Kafka.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Message, Struct, array, bytes_, int8, int16, int32, int64, string


class OffsetCommitKey(Message, versions="0-1"):
    group: str = string("0+")
    topic: str = string("0+")
    partition: int = int32("0+")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)  # -1: offsets.retention.minutes


class GroupMetadataKey(Message, versions="2"):
    group: str = string("2")


class MemberMetadata(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)  # ms
    session_timeout: int = int32("0+")  # ms
    subscription: bytes = bytes_("0+")
    assignment: bytes = bytes_("0+")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)  # ms since the epoch
    members: list[MemberMetadata] = array(MemberMetadata, "0+")


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string("0")


class PartitionsSchema(Struct):
    topic: str = string("0+")
    partition_ids: list[int] = array(INT32, "0+")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int = int64("0+")
    previous_producer_id: int = int64("1+", tag=0, default=-1, ignorable=True)
    next_producer_id: int = int64("1+", tag=1, default=-1, ignorable=True)
    producer_epoch: int = int16("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")  # its number in Kafka's TransactionState
    # null in the state Empty
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
