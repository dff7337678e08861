"""Creates and deletes topics and adds partitions, by the nodes that the controller watches.

Each topic is written by itself: that another one cannot be created changes nothing for it. The tree may be newer than
the last UpdateMetadata. A decision that does not fit the tree is not written. A `View` then notes the topic as the tree
has it, for the next decision.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from broker.metadata.model import (
    NO_LEADER,
    NO_TOPIC_ID,
    ClusterState,
    PartitionState,
    TopicState,
    may_be_one_topic,
)
from broker.metadata.operations import AddPartitions, CreateTopic, DeleteTopic
from broker.metadata.tree.entities import TOPICS
from broker.metadata.tree.session import LOST, Session
from broker.metadata.znodes import configs, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import Assignment, TopicNode, decode_topic, encode_topic
from broker.zookeeper.interface import (
    BadVersionError,
    Check,
    Create,
    MultiError,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)

logger = logging.getLogger(__name__)

TopicOperation = CreateTopic | AddPartitions | DeleteTopic


class View:
    """The topics that a commit has found in the tree, and that UpdateMetadata has not brought yet, or differently.

    Those that the commit itself has changed are in it as they were before. A value of None is a topic that does not
    exist.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicState | None] = {}

    def over(self, state: ClusterState) -> ClusterState:
        """Return `state` with these topics."""
        if not self.topics:
            return state
        topics = {name: topic for name, topic in state.topics.items() if name not in self.topics}
        topics |= {name: topic for name, topic in self.topics.items() if topic is not None}
        return replace(state, topics=topics)


class TopicWriter:
    """Creates and deletes topics, and adds partitions.

    Args:
        session: the session with ZooKeeper.
        with_ids: whether topics get ids (`inter.broker.protocol.version` is 2.8 or later).
    """

    def __init__(self, session: Session, *, with_ids: bool = True) -> None:
        self._session = session
        self._zookeeper = session.zookeeper
        self._with_ids = with_ids

    async def write(self, view: View, state: ClusterState, operation: TopicOperation) -> bool:
        """Carry out one operation, decided on `state`; return False if the topic was not as expected.

        In that case `view` has the topic as it is.

        Raises:
            PolicyViolationError: a node would be too large for ZooKeeper.
            OSError: there was no connection for too long.
            ZnodeError: the node of a topic to change or delete is damaged.
        """
        if isinstance(operation, CreateTopic):
            return await self._create(view, operation.topic)
        if isinstance(operation, DeleteTopic):
            return await self._delete(view, operation)
        return await self._grow(view, state, operation)

    def topic_data(self, topic: TopicState) -> bytes:
        """Return the data of a new topic's node.

        Raises:
            PolicyViolationError: it would be too large for ZooKeeper.
        """
        assigned = {index: Assignment(each.replicas) for index, each in enumerate(topic.partitions)}
        data = encode_topic(TopicNode(topic.topic_id if self._with_ids else None, assigned))
        self._session.check_size(paths.topic(topic.name), data)
        return data

    def config_data(self, topic: TopicState) -> bytes:
        """Return the data of the node of a new topic's configuration; see `topic_data`."""
        data = configs.encode(topic.config)
        self._session.check_size(paths.config(TOPICS, topic.name), data)
        return data

    async def _create(self, view: View, topic: TopicState) -> bool:
        """Write the configuration and the assignment at once, so that no controller finds one without the other."""
        path, config_path = paths.topic(topic.name), paths.config(TOPICS, topic.name)
        data, config = self.topic_data(topic), self.config_data(topic)
        first: Operation = Create(config_path, config)
        while True:
            try:
                await self._zookeeper.multi([first, Create(path, data)])
                return True
            except MultiError as error:
                if error.index == 0 and isinstance(error.reason, NodeExistsError):
                    # Left by a topic that was deleted, or written in advance: it is replaced, as by Kafka.
                    first = SetData(config_path, config)
                elif error.index == 0 and isinstance(error.reason, NoNodeError):
                    await self._session.ensure(config_path.rpartition("/")[0])
                    first = Create(config_path, config)
                elif isinstance(error.reason, NodeExistsError):
                    return await self._found(view, topic.name)
                elif isinstance(error.reason, NoNodeError):
                    await self._session.ensure(paths.TOPICS)
                else:
                    raise error.reason from error
            except LOST:
                # It may have been carried out.
                await self._session.connected()
                present = await self._get(path)
                if present is not None:
                    return present.data == data or await self._found(view, topic.name)

    async def _grow(self, view: View, state: ClusterState, operation: AddPartitions) -> bool:
        path = paths.topic(operation.topic)
        while True:
            node = await self._get(path)
            present = None if node is None else _topic(operation.topic, node.data)
            known = state.topics.get(operation.topic)
            if node is None or present is None or known is None or not _agree(present, known):
                view.topics[operation.topic] = present
                return False
            found = decode_topic(operation.topic, node.data)
            new = {operation.first + at: Assignment(each.replicas) for at, each in enumerate(operation.partitions)}
            data = encode_topic(TopicNode(found.topic_id, {**found.partitions, **new}))
            self._session.check_size(path, data)
            try:
                await self._zookeeper.set(path, data, node.stat.version)
                return True
            except (BadVersionError, NoNodeError):
                continue
            except LOST:
                await self._session.connected()
                node = await self._get(path)
                if node is not None and node.data == data:
                    return True

    async def _delete(self, view: View, operation: DeleteTopic) -> bool:
        """Write the order on condition that the topic's node is the one that was judged.

        After a lost connection the order may have been carried out, and the topic may have been created again.
        """
        path, order = paths.topic(operation.name), Create(paths.delete_topic(operation.name))
        asked_for: int | None = None
        while True:
            node = await self._get(path)
            if asked_for is not None and (node is None or node.stat.created != asked_for):
                return True
            present = None if node is None else _topic(operation.name, node.data)
            if node is None or present is None or not may_be_one_topic(present.topic_id, operation.topic_id):
                view.topics[operation.name] = present
                return False
            try:
                await self._zookeeper.multi([Check(path, node.stat.version), order])
                return True
            except MultiError as error:
                if error.index == 0 and isinstance(error.reason, BadVersionError | NoNodeError):
                    continue
                if isinstance(error.reason, NodeExistsError):
                    # Somebody else has asked for it, or this request before the connection broke.
                    return True
                if not isinstance(error.reason, NoNodeError):
                    raise error.reason from error
                await self._session.ensure(paths.DELETE_TOPICS)
            except LOST:
                asked_for = node.stat.created
                await self._session.connected()

    async def _found(self, view: View, name: str) -> bool:
        node = await self._get(paths.topic(name))
        try:
            view.topics[name] = None if node is None else _topic(name, node.data)
        except ZnodeError as error:
            # It exists, whatever it is. Other topics can be created all the same.
            logger.error("%s", error)
            view.topics[name] = TopicState(name, NO_TOPIC_ID, ())
        return False

    async def _get(self, path: str) -> Node | None:
        return await self._session.read(partial(self._zookeeper.get, path))


def _topic(name: str, data: bytes) -> TopicState:
    """Return a topic as its node has it; nothing is known of its leaders."""
    node = decode_topic(name, data)
    assigned: Sequence[Assignment] = [node.partitions[index] for index in sorted(node.partitions)]
    partitions = tuple(
        PartitionState(each.replicas, (), NO_LEADER, adding=each.adding, removing=each.removing) for each in assigned
    )
    return TopicState(name, node.topic_id or NO_TOPIC_ID, partitions)


def _agree(present: TopicState, known: TopicState) -> bool:
    """Return whether a decision on `known` fits the topic as it is: its id, and the replicas of its partitions.

    UpdateMetadata does not tell which replicas are being added or removed; a decision is made again with them.
    """
    if len(present.partitions) != len(known.partitions) or not may_be_one_topic(present.topic_id, known.topic_id):
        return False
    pairs = zip(present.partitions, known.partitions, strict=True)
    return all(
        (one.replicas, one.adding, one.removing) == (other.replicas, other.adding, other.removing)
        for one, other in pairs
    )
