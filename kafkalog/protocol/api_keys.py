"""Kafka's APIs: key, versions and header forms (`ApiKeys` and the message definitions of Apache Kafka 3.9).

The tables of `kafkalog.protocol.messages` cover the APIs that this product uses. This list has all keys, so that logs
and errors can name every API that a peer requests. Version 1 of ConsumerGroupHeartbeat and of ConsumerGroupDescribe is
newer than 3.9: clients of Apache Kafka 4 use it to subscribe by regular expression.
"""

from __future__ import annotations

from enum import IntEnum

_NEVER = 0x7FFF


class ApiKey(IntEnum):
    """An API, with its versions in Apache Kafka 3.9; both are -1 if it has none there."""

    min_version: int
    max_version: int
    flexible_from: int
    """The first version whose headers have tagged fields (KIP-482)."""

    def __new__(cls, key: int, min_version: int = -1, max_version: int = -1, flexible_from: int = _NEVER) -> ApiKey:
        self = int.__new__(cls, key)
        self._value_ = key
        self.min_version = min_version
        self.max_version = max_version
        self.flexible_from = flexible_from
        return self

    # fmt: off
    # name = key, first version, last version, flexible from
    PRODUCE = 0, 0, 11, 9
    FETCH = 1, 0, 17, 12
    LIST_OFFSETS = 2, 0, 9, 6
    METADATA = 3, 0, 12, 9
    LEADER_AND_ISR = 4, 0, 7, 4
    STOP_REPLICA = 5, 0, 4, 2
    UPDATE_METADATA = 6, 0, 8, 6
    CONTROLLED_SHUTDOWN = 7, 0, 3, 3
    OFFSET_COMMIT = 8, 0, 9, 8
    OFFSET_FETCH = 9, 0, 9, 6
    FIND_COORDINATOR = 10, 0, 6, 3
    JOIN_GROUP = 11, 0, 9, 6
    HEARTBEAT = 12, 0, 4, 4
    LEAVE_GROUP = 13, 0, 5, 4
    SYNC_GROUP = 14, 0, 5, 4
    DESCRIBE_GROUPS = 15, 0, 5, 5
    LIST_GROUPS = 16, 0, 5, 3
    SASL_HANDSHAKE = 17, 0, 1, _NEVER
    API_VERSIONS = 18, 0, 4, 3
    CREATE_TOPICS = 19, 0, 7, 5
    DELETE_TOPICS = 20, 0, 6, 4
    DELETE_RECORDS = 21, 0, 2, 2
    INIT_PRODUCER_ID = 22, 0, 5, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 0, 4, 4
    ADD_PARTITIONS_TO_TXN = 24, 0, 5, 3
    ADD_OFFSETS_TO_TXN = 25, 0, 4, 3
    END_TXN = 26, 0, 4, 3
    WRITE_TXN_MARKERS = 27, 0, 1, 1
    TXN_OFFSET_COMMIT = 28, 0, 4, 3
    DESCRIBE_ACLS = 29, 0, 3, 2
    CREATE_ACLS = 30, 0, 3, 2
    DELETE_ACLS = 31, 0, 3, 2
    DESCRIBE_CONFIGS = 32, 0, 4, 4
    ALTER_CONFIGS = 33, 0, 2, 2
    ALTER_REPLICA_LOG_DIRS = 34, 0, 2, 2
    DESCRIBE_LOG_DIRS = 35, 0, 4, 2
    SASL_AUTHENTICATE = 36, 0, 2, 2
    CREATE_PARTITIONS = 37, 0, 3, 2
    CREATE_DELEGATION_TOKEN = 38, 0, 3, 2
    RENEW_DELEGATION_TOKEN = 39, 0, 2, 2
    EXPIRE_DELEGATION_TOKEN = 40, 0, 2, 2
    DESCRIBE_DELEGATION_TOKEN = 41, 0, 3, 2
    DELETE_GROUPS = 42, 0, 2, 2
    ELECT_LEADERS = 43, 0, 2, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 0, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0, 0
    OFFSET_DELETE = 47, 0, 0, _NEVER
    DESCRIBE_CLIENT_QUOTAS = 48, 0, 1, 1
    ALTER_CLIENT_QUOTAS = 49, 0, 1, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0, 0
    VOTE = 52, 0, 1, 0
    BEGIN_QUORUM_EPOCH = 53, 0, 1, 1
    END_QUORUM_EPOCH = 54, 0, 1, 1
    DESCRIBE_QUORUM = 55, 0, 2, 0
    ALTER_PARTITION = 56, 0, 3, 0
    UPDATE_FEATURES = 57, 0, 1, 0
    ENVELOPE = 58, 0, 0, 0
    FETCH_SNAPSHOT = 59, 0, 1, 0
    DESCRIBE_CLUSTER = 60, 0, 1, 0
    DESCRIBE_PRODUCERS = 61, 0, 0, 0
    BROKER_REGISTRATION = 62, 0, 4, 0
    BROKER_HEARTBEAT = 63, 0, 1, 0
    UNREGISTER_BROKER = 64, 0, 0, 0
    DESCRIBE_TRANSACTIONS = 65, 0, 0, 0
    LIST_TRANSACTIONS = 66, 0, 1, 0
    ALLOCATE_PRODUCER_IDS = 67, 0, 0, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0, 1, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0, 1, 0
    CONTROLLER_REGISTRATION = 70, 0, 0, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0, 0, 0
    PUSH_TELEMETRY = 72, 0, 0, 0
    ASSIGN_REPLICAS_TO_DIRS = 73, 0, 0, 0
    LIST_CLIENT_METRICS_RESOURCES = 74, 0, 0, 0
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, 0, 0
    SHARE_GROUP_HEARTBEAT = 76, -1, -1, 0
    SHARE_GROUP_DESCRIBE = 77, -1, -1, 0
    SHARE_FETCH = 78, -1, -1, 0
    SHARE_ACKNOWLEDGE = 79, -1, -1, 0
    ADD_RAFT_VOTER = 80, 0, 0, 0
    REMOVE_RAFT_VOTER = 81, 0, 0, 0
    UPDATE_RAFT_VOTER = 82, 0, 0, 0
    INITIALIZE_SHARE_GROUP_STATE = 83, -1, -1, 0
    READ_SHARE_GROUP_STATE = 84, -1, -1, 0
    WRITE_SHARE_GROUP_STATE = 85, -1, -1, 0
    DELETE_SHARE_GROUP_STATE = 86, -1, -1, 0
    READ_SHARE_GROUP_STATE_SUMMARY = 87, -1, -1, 0
    STREAMS_GROUP_HEARTBEAT = 88, -1, -1, 0
    STREAMS_GROUP_DESCRIBE = 89, -1, -1, 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, -1, -1, 0
    ALTER_SHARE_GROUP_OFFSETS = 91, -1, -1, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, -1, -1, 0
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93, -1, -1, 0
    UNREGISTER_CONTROLLER = 94, -1, -1, 0
    # fmt: on

    def request_header_version(self, version: int) -> int:
        """Return the version of the request header: 1, or 2 with tagged fields.

        Version 0 of ControlledShutdown has header 0, without a client id.
        """
        if self is ApiKey.CONTROLLED_SHUTDOWN and version == 0:
            return 0
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """Return the version of the response header: 0, or 1 with tagged fields.

        It is always 0 for ApiVersions, whose reader does not know yet which version the peer uses.
        """
        if self is ApiKey.API_VERSIONS:
            return 0
        return 1 if version >= self.flexible_from else 0
