"""The releases of Apache Kafka that introduced APIs, and versions of them that clients insist on, for messages.

Kafka 0.11, the oldest release that clients here work with, has what is not listed.

Source: the tags of Apache Kafka's repository, `ApiKeys.java` and the definitions of the messages.
"""

from __future__ import annotations

from kafkalog.protocol.api_keys import ApiKey

_SINCE: dict[ApiKey, dict[int, str]] = {
    ApiKey.FIND_COORDINATOR: {4: "3.0"},
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
    ApiKey.CREATE_DELEGATION_TOKEN: {0: "1.1"},
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
    ApiKey.UPDATE_FEATURES: {0: "2.7"},
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
    return _SINCE.get(api, {}).get(version)
