"""Paths of nodes, below the chroot of `zookeeper.connect`."""

from __future__ import annotations

CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"
CONFIGS = "/config"
CONFIG_CHANGES = "/config/changes"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
MIGRATION = "/migration"
MOVE = "/kafkalog/move"

CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips")

CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGE_PREFIX = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"
"""ZooKeeper appends a number of ten digits to the names of nodes with these prefixes."""

PERSISTENT = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"{CONFIGS}/{kind}" for kind in CONFIG_TYPES),
)
"""Nodes without data that each broker makes at its start, where they are missing."""


def broker_id(broker: int) -> str:
    """Return the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker}"


def topic(name: str) -> str:
    """Return the path of a topic's assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Return the path of the parent of a topic's partitions."""
    return f"{topic(name)}/partitions"


def partition(name: str, index: int) -> str:
    """Return the path of the parent of a partition's state."""
    return f"{partitions(name)}/{index}"


def partition_state(name: str, index: int) -> str:
    """Return the path of a partition's state: its leader and its ISR."""
    return f"{partition(name, index)}/state"


def config(kind: str, name: str) -> str:
    """Return the path of a configuration; `name` is sanitized where it is a user's, a client's or an address."""
    return f"{CONFIGS}/{kind}/{name}"


def delete_topic(name: str) -> str:
    """Return the path of the order to delete a topic."""
    return f"{DELETE_TOPICS}/{name}"


def sequence_number(path: str) -> int:
    """Return the number that ZooKeeper appended to a node's name."""
    return int(path[-10:])
