"""The releases of Apache Kafka that introduced APIs, their versions, and what clients can ask for with these versions.

Requests (`older`), clients that insist on a version, and messages take the releases from here. Kafka 0.11, the oldest
release that clients here work with, has what is not listed.

Source: the tags of Apache Kafka's repository, `ApiKeys.java` and the definitions of the messages.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.protocol.api_keys import ApiKey

_RELEASES: dict[ApiKey, dict[int, str]] = {
    ApiKey.PRODUCE: {7: "2.1"},
    ApiKey.FIND_COORDINATOR: {4: "3.0"},
    ApiKey.JOIN_GROUP: {5: "2.3"},
    ApiKey.SYNC_GROUP: {3: "2.3"},
    ApiKey.HEARTBEAT: {3: "2.3"},
    ApiKey.OFFSET_COMMIT: {7: "2.3"},
    ApiKey.TXN_OFFSET_COMMIT: {3: "2.5"},
    ApiKey.CREATE_TOPICS: {4: "2.4"},
    ApiKey.DELETE_TOPICS: {6: "2.8"},
    ApiKey.DESCRIBE_ACLS: {1: "2.0"},
    ApiKey.CREATE_ACLS: {1: "2.0"},
    ApiKey.DELETE_ACLS: {1: "2.0"},
    ApiKey.DESCRIBE_CONFIGS: {1: "1.1", 3: "2.6"},
    ApiKey.LIST_GROUPS: {4: "2.6", 5: "3.8"},
    ApiKey.LIST_OFFSETS: {7: "3.0", 8: "3.5", 9: "3.9"},
    ApiKey.OFFSET_FETCH: {7: "2.5", 8: "3.0", 9: "3.7"},
    ApiKey.LEAVE_GROUP: {3: "2.4"},
    ApiKey.INIT_PRODUCER_ID: {3: "2.5"},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {3: "2.3"},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {0: "1.0"},
    ApiKey.DESCRIBE_LOG_DIRS: {0: "1.0"},
    ApiKey.SASL_AUTHENTICATE: {0: "1.0"},
    ApiKey.CREATE_PARTITIONS: {0: "1.0"},
    ApiKey.CREATE_DELEGATION_TOKEN: {0: "1.1", 3: "3.3"},
    ApiKey.RENEW_DELEGATION_TOKEN: {0: "1.1"},
    ApiKey.EXPIRE_DELEGATION_TOKEN: {0: "1.1"},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {0: "1.1"},
    ApiKey.DELETE_GROUPS: {0: "1.1"},
    ApiKey.ELECT_LEADERS: {0: "2.2", 1: "2.4"},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {0: "2.3"},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {0: "2.4"},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {0: "2.4"},
    ApiKey.OFFSET_DELETE: {0: "2.4"},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {0: "2.6"},
    ApiKey.ALTER_CLIENT_QUOTAS: {0: "2.6"},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {0: "2.7"},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {0: "2.7"},
    ApiKey.UPDATE_FEATURES: {0: "2.7", 1: "3.3"},
    ApiKey.DESCRIBE_CLUSTER: {0: "2.8"},
    ApiKey.DESCRIBE_PRODUCERS: {0: "2.8"},
    ApiKey.DESCRIBE_TRANSACTIONS: {0: "3.0"},
    ApiKey.LIST_TRANSACTIONS: {0: "3.0", 1: "3.8"},
    # Until Kafka 4.0 brokers announce these only where the protocol is enabled.
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {0: "3.7", 1: "4.0"},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {0: "3.8", 1: "4.0"},
}


def release_with(api: ApiKey, version: int) -> str | None:
    """Return the first release whose brokers know this version of an API; None where that is not listed."""
    return _RELEASES.get(api, {}).get(version)


class Since(NamedTuple):
    """The first version of an API with which something can be asked for."""

    api: ApiKey
    version: int

    @property
    def release(self) -> str:
        """The first release of Apache Kafka whose brokers know the version."""
        return _RELEASES[self.api][self.version]

    @property
    def older(self) -> str:
        """The brokers that do not know the version, for messages."""
        return f"brokers before Kafka {self.release}"


ZSTD = Since(ApiKey.PRODUCE, 7)
"""Batches that are compressed with zstd."""
TIME_OF_MAX_TIMESTAMP, TIME_OF_LOCAL_START, TIME_OF_TIERED_END = (Since(ApiKey.LIST_OFFSETS, n) for n in (7, 8, 9))
"""Special timestamps with these meanings. Older brokers would take them for the times of records."""
COMMIT_BY_STATIC_MEMBER = Since(ApiKey.OFFSET_COMMIT, 7)
STABLE_OFFSETS = Since(ApiKey.OFFSET_FETCH, 7)
"""Committed offsets are read after the end of open transactions."""
OFFSETS_OF_GROUPS = Since(ApiKey.OFFSET_FETCH, 8)
"""One request asks for the offsets of several groups."""
JOIN_BY_STATIC_MEMBER = Since(ApiKey.JOIN_GROUP, 5)
HEARTBEAT_BY_STATIC_MEMBER = Since(ApiKey.HEARTBEAT, 3)
SYNC_BY_STATIC_MEMBER = Since(ApiKey.SYNC_GROUP, 3)
LEAVE_OF_MEMBERS = Since(ApiKey.LEAVE_GROUP, 3)
"""One request removes several members, and static members by their names."""
GROUPS_BY_STATE, GROUPS_BY_TYPE = Since(ApiKey.LIST_GROUPS, 4), Since(ApiKey.LIST_GROUPS, 5)
"""Groups are listed by their states, and by their types."""
DEFAULTS_OF_TOPICS = Since(ApiKey.CREATE_TOPICS, 4)
"""The broker has defaults for the number of partitions and the replication factor."""
TOPICS_BY_ID = Since(ApiKey.DELETE_TOPICS, 6)
"""Topics are deleted by their ids, too."""
PRESENT_EPOCH = Since(ApiKey.INIT_PRODUCER_ID, 3)
"""The coordinator compares the producer's present id and epoch with its own."""
EPOCHS_FOR_CONSUMERS = Since(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3)
"""Clients that may describe a topic can ask for the ends of its leader epochs. Before, they need ClusterAction."""
GROUP_METADATA = Since(ApiKey.TXN_OFFSET_COMMIT, 3)
"""A transaction's offsets are committed with the consumer's group metadata (KIP-447)."""
PATTERNS_OF_DESCRIBED_ACLS = Since(ApiKey.DESCRIBE_ACLS, 1)
PATTERNS_OF_CREATED_ACLS = Since(ApiKey.CREATE_ACLS, 1)
PATTERNS_OF_DELETED_ACLS = Since(ApiKey.DELETE_ACLS, 1)
CONFIG_SYNONYMS = Since(ApiKey.DESCRIBE_CONFIGS, 1)
"""Configurations are described with their synonyms. Brokers of this release have dynamic configurations, too."""
CONFIG_DOCUMENTATION = Since(ApiKey.DESCRIBE_CONFIGS, 3)
OWNED_TOKENS = Since(ApiKey.CREATE_DELEGATION_TOKEN, 3)
"""Tokens are made for another user."""
UNCLEAN_ELECTIONS = Since(ApiKey.ELECT_LEADERS, 1)
SINGLE_CONFIGS = Since(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0)
"""Single configurations are changed, and the others stay."""
DOWNGRADES_OF_FEATURES = Since(ApiKey.UPDATE_FEATURES, 1)
"""Features are downgraded, and a change may be only checked."""
TRANSACTIONS_BY_DURATION = Since(ApiKey.LIST_TRANSACTIONS, 1)

BROKER_LOGGERS, CLIENT_METRICS, GROUP_CONFIGS = "2.4", "3.7", "4.0"
"""The releases whose brokers have configurations of these types. Older brokers leave such resources out."""
