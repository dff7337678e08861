"""The nodes in ZooKeeper for the registry of a lone broker, and the registry for a cluster's nodes. Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from broker.metadata.model import (
    NO_LEADER,
    ClusterState,
    PartitionState,
    TopicState,
    new_topic_id,
)
from broker.metadata.operations import ConfigResource, SetClientQuota, SetConfig, SetScramCredentials, apply
from broker.metadata.tree.entities import USERS, ConfigOperation, content_after, name_of, operations_for
from broker.metadata.tree.session import MAX_BYTES, OVERHEAD
from broker.metadata.znodes import acls, configs, controller, paths
from broker.metadata.znodes.cluster import ProducerIdBlock, encode_block
from broker.metadata.znodes.topics import StateNode, TopicNode, encode_state, encode_topic, parted
from broker.security.authorizer.model import Acls

BLOCK = 1000
"""The number of producer ids that the node of the last block names, as with Kafka's brokers."""
SHOWN = 5

Contents = Mapping[str, Mapping[str, str]]
"""Configurations by the name of their node below `/config`."""


def some(names: Iterable[str]) -> str:
    """Return the first few names as text."""
    found = sorted(names)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


# -- into ZooKeeper ----------------------------------------------------------------------------------------------------


def refusals(state: ClusterState, broker_id: int) -> list[str]:
    """Return why a registry cannot become the nodes of a cluster; none if it can."""
    found = []
    if state.group_config:
        found.append(
            f"the groups {some(state.group_config)} have configurations, which a cluster over ZooKeeper does not keep: "
            "delete them, and set the group.consumer.* keys of the brokers instead"
        )
    if state.deleting:
        found.append(
            "topics are still being deleted: start the broker once without zookeeper.connect, so that it can finish"
        )
    unnamed = [str(pattern) for pattern in state.acls if acls.name_fault(pattern.name) is not None]
    if unnamed:
        found.append(
            f"ZooKeeper has no nodes of the names of the ACLs {some(unnamed)}: delete them with kafkalog acls, and "
            "allow the same by prefixes"
        )
    foreign = {
        topic.name for topic in state.topics.values() for each in topic.partitions if each.replicas != (broker_id,)
    }
    if foreign:
        found.append(
            f"the registry says that the topics {some(foreign)} have other replicas than broker {broker_id}: "
            "set broker.id to the number with which it ran"
        )
    named = replace(state, acls={}) if unnamed else state
    large = [path for path, data in nodes(named, broker_id).items() if len(data) + OVERHEAD > MAX_BYTES]
    if large:
        found.append(
            f"the nodes {some(large)} would have more bytes than ZooKeeper takes ({MAX_BYTES}, jute.maxbuffer)"
        )
    return found


def nodes(state: ClusterState, broker_id: int, kept: Contents | None = None) -> dict[str, bytes]:
    """Return the nodes of a cluster whose only broker has the registry `state`, parents before their children.

    The nodes that every cluster has (`paths.PERSISTENT`, `/cluster/id`) are not among them. Nobody leads the partitions
    while the broker is stopped: the first controller elects it, in a new leader epoch.

    Args:
        state: the registry.
        broker_id: the broker.
        kept: what else is in configurations, see `content_left`.
    """
    epochs = [each.controller_epoch for topic in state.topics.values() for each in topic.partitions]
    found = {paths.CONTROLLER_EPOCH: controller.encode_epoch(max([state.controller_epoch, *epochs]))}
    if state.next_producer_id:
        first = max(0, state.next_producer_id - BLOCK)
        found[paths.PRODUCER_ID_BLOCK] = encode_block(ProducerIdBlock(broker_id, first, state.next_producer_id - 1))
    contents = {name: dict(content) for name, content in (kept or {}).items()}
    for name, content in config_nodes(state).items():
        contents[name] = contents.get(name, {}) | content
    for name, content in sorted(contents.items()):
        parent, clients, _ = name.rpartition("/clients/")
        if clients and parent != USERS:
            # A client's quota for one user.
            found.setdefault(f"{paths.CONFIGS}/{parent}", configs.encode({}))
            found.setdefault(f"{paths.CONFIGS}/{parent}/clients", b"")
        found[f"{paths.CONFIGS}/{name}"] = configs.encode(content)
    for topic in state.topics.values():
        found |= _topic_nodes(topic)
    return found | _acl_nodes(state.acls)


def _acl_nodes(known: Acls) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for pattern, entries in sorted(known.items()):
        path = acls.path(pattern)
        for parent in parents(path):
            found.setdefault(parent, b"")
        found[path] = acls.encode(entries)
    return found


def parents(path: str) -> list[str]:
    """Return the paths of the nodes above one, the highest first."""
    parts = path.split("/")[1:-1]
    return [f"/{'/'.join(parts[: count + 1])}" for count in range(len(parts))]


def config_nodes(state: ClusterState) -> dict[str, dict[str, str]]:
    """Return configurations of topics and brokers, quotas and credentials, by the name of their node in `/config`."""
    written = [SetConfig(ConfigResource.TOPIC, topic.name, topic.config) for topic in state.topics.values()]
    written += [SetConfig(ConfigResource.BROKER, name, config) for name, config in state.broker_config.items()]
    quotas = [SetClientQuota(entity, values) for entity, values in state.client_quotas.items()]
    credentials = [SetScramCredentials(user, each) for user, each in state.scram_credentials.items()]
    operations: list[ConfigOperation] = [*written, *quotas, *credentials]
    found: dict[str, dict[str, str]] = {}
    for operation in operations:
        name = name_of(operation)
        found[name] = content_after(operation, found.get(name, {}))
    return found


def _topic_nodes(topic: TopicState) -> dict[str, bytes]:
    pairs = [parted(replace(each, leader=NO_LEADER)) for each in topic.partitions]
    assigned = {index: assignment for index, (assignment, _) in enumerate(pairs)}
    found = {
        paths.topic(topic.name): encode_topic(TopicNode(topic.topic_id, assigned)),
        paths.partitions(topic.name): b"",
    }
    for index, (_, state) in enumerate(pairs):
        found[paths.partition(topic.name, index)] = b""
        found[paths.partition_state(topic.name, index)] = encode_state(state)
    return found


# -- out of ZooKeeper --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cluster:
    """The content of a cluster's nodes."""

    cluster_id: str
    controller_epoch: int
    topics: Mapping[str, TopicNode]
    states: Mapping[tuple[str, int], StateNode]
    """Of the partitions that have had a leader."""
    contents: Contents = field(default_factory=dict)
    next_producer_id: int = 0
    acls: Acls = field(default_factory=dict)
    deleting: Set[str] = frozenset()
    """The topics that are to be deleted."""


def refusals_to_leave(cluster: Cluster, broker_id: int, held: Set[tuple[str, int]]) -> list[str]:
    """Return why a broker cannot take the whole cluster with it; none if it can.

    Args:
        cluster: what the nodes say.
        broker_id: the broker that leaves.
        held: the partitions that its log directories have.
    """
    found = []
    if cluster.deleting:
        found.append(
            f"the topics {some(cluster.deleting)} are being deleted: start the broker with zookeeper.connect, so that "
            "they can be"
        )
    elsewhere, behind, missing = [], [], []
    for name, topic in cluster.topics.items():
        for index, assignment in topic.partitions.items():
            state = cluster.states.get((name, index))
            if broker_id not in assignment.replicas:
                elsewhere.append(f"{name}-{index}")
            elif state is not None and broker_id not in state.isr:
                behind.append(f"{name}-{index}")
            elif state is not None and (name, index) not in held:
                missing.append(f"{name}-{index}")
    if elsewhere:
        found.append(
            f"broker {broker_id} is no replica of {some(elsewhere)}: start the cluster, and move them to it with "
            "kafkalog reassign"
        )
    if behind:
        found.append(
            f"the replicas on broker {broker_id} of {some(behind)} are not in sync: start the cluster, and wait until "
            "they are"
        )
    if missing:
        found.append(f"the log directories of broker {broker_id} have no log of {some(missing)}")
    gaps = [
        name for name, topic in cluster.topics.items() if set(topic.partitions) != set(range(len(topic.partitions)))
    ]
    if gaps:
        found.append(f"the nodes of the topics {some(gaps)} do not name all of their partitions")
    return found


def registry(cluster: Cluster, broker_id: int, chance: random.Random) -> ClusterState:
    """Return the registry of a broker that is alone from now on, for nodes of which `refusals_to_leave` has none.

    Each partition gets a new leader epoch, as by an election. Configurations of other brokers are left out.

    Args:
        cluster: what the nodes say.
        broker_id: the broker.
        chance: makes the ids of topics that have none, from before 2.8.
    """
    taken = {each.topic_id for each in cluster.topics.values() if each.topic_id is not None}
    topics = {}
    for name, node in sorted(cluster.topics.items()):
        topic_id = node.topic_id or new_topic_id(taken, chance)
        taken.add(topic_id)
        states = [cluster.states.get((name, index)) for index in range(len(node.partitions))]
        topics[name] = TopicState(name, topic_id, tuple(_alone(each, broker_id) for each in states))
    state = ClusterState(
        cluster.cluster_id,
        controller_epoch=cluster.controller_epoch,
        topics=topics,
        next_producer_id=cluster.next_producer_id,
        acls=cluster.acls,
    )
    written = [operations_for(name, content) for name, content in sorted(cluster.contents.items()) if content]
    operations = [each for of_node in written for each in of_node]
    return apply(state, [each for each in operations if _concerns(each, broker_id, topics)])


def _alone(state: StateNode | None, broker_id: int) -> PartitionState:
    if state is None:
        # It was created while no controller was there.
        return PartitionState((broker_id,), (broker_id,), broker_id)
    return PartitionState(
        (broker_id,), (broker_id,), broker_id, state.leader_epoch + 1, state.partition_epoch + 1, state.controller_epoch
    )


def _concerns(operation: ConfigOperation, broker_id: int, topics: Mapping[str, TopicState]) -> bool:
    if isinstance(operation, SetClientQuota):
        return bool(operation.values)
    if isinstance(operation, SetScramCredentials):
        return bool(operation.credentials)
    if operation.resource is ConfigResource.TOPIC:
        return operation.name in topics
    return operation.name in ("", str(broker_id))


def content_left(name: str, content: Mapping[str, str]) -> dict[str, str]:
    """Return what stays of a configuration's node when the cluster is gone: the credentials of a user."""
    quotas = [each for each in operations_for(name, content) if isinstance(each, SetClientQuota)]
    return content_after(replace(quotas[0], values={}), content) if quotas else {}


def has_more(name: str, content: Mapping[str, str]) -> bool:
    """Return whether a configuration has more than stays when a cluster is gone."""
    return content_left(name, content) != dict(content)


# -- both --------------------------------------------------------------------------------------------------------------


def summary(state: ClusterState) -> list[str]:
    """Return in words what a registry has."""
    partitions = sum(len(topic.partitions) for topic in state.topics.values())
    kinds = Counter(name.partition("/")[0] for name, content in config_nodes(state).items() if content)
    quotas = len(state.client_quotas)
    return [
        f"  topics: {len(state.topics)} with {partitions} partitions",
        f"  configurations: {kinds['topics']} of topics, {kinds['brokers']} of brokers",
        f"  quotas: {quotas}",
        f"  ACLs: {sum(map(len, state.acls.values()))}",
        f"  users with SCRAM credentials: {len(state.scram_credentials)}",
        f"  producer ids given out: {state.next_producer_id}",
    ]
