"""The metadata store of a broker in a cluster over ZooKeeper.

What the controller decides comes by UpdateMetadata, and is merged into the state by `publish`. A commit writes nodes: a
topic that it creates, changes or deletes is in the state once the controller has told of it. Configurations, quotas and
producer ids are in the state when the commit returns.

A decision is made again if it does not fit what is in the tree. Topics are written one by one, configurations as a
whole. Nothing is kept on this broker's disk.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from broker.metadata.model import ClusterState, TopicState
from broker.metadata.operations import (
    AddPartitions,
    ConfigResource,
    CreateTopic,
    DeleteTopic,
    Operation,
    SetAcls,
    SetClientQuota,
    SetConfig,
    SetScramCredentials,
    SetToken,
    TakeProducerIds,
    apply,
)
from broker.metadata.store import Decision, Listener, tell
from broker.metadata.tree.acls import AclTree
from broker.metadata.tree.entities import TOPICS, NoNodeForError, changes, name_of, operations_for
from broker.metadata.tree.notices import OF_CONFIGS, Notices
from broker.metadata.tree.reading import read_all, read_nodes
from broker.metadata.tree.session import MAX_BYTES, Session, each_of
from broker.metadata.tree.tokens import TokenTree
from broker.metadata.tree.topics import TopicOperation, TopicWriter, View
from broker.metadata.tree.writing import ConfigWriter, next_producer_id, take_producer_ids
from broker.metadata.znodes import paths
from broker.security.authorizer.model import Entries, ResourcePattern
from broker.security.tokens import Token
from broker.zookeeper.interface import ZooKeeper, ZooKeeperError

logger = logging.getLogger(__name__)

ATTEMPTS = 20
"""The number of attempts of a commit whose nodes others keep changing."""

_WRITTEN = (
    CreateTopic, AddPartitions, DeleteTopic, SetConfig, SetClientQuota, SetScramCredentials, SetAcls, SetToken,
    TakeProducerIds,
)  # fmt: skip
"""The operations that commits may contain."""

Merge: TypeAlias = Callable[[ClusterState], tuple[ClusterState, Sequence[Operation]]]
"""Returns the state after a request of the controller, and the operations for the listeners."""


class ZooKeeperStore:
    """The metadata store over ZooKeeper. Used on the event loop's thread only.

    Args:
        zookeeper: a session, whose watches are set again here after each loss of its connection.
        broker_id: the id of this broker.
        cluster_id: the id of the cluster.
        loop: the event loop.
        now_ms: the wall clock.
        patience_s: how long a commit waits for a connection to ZooKeeper.
        with_topic_ids: whether new topics get ids (`inter.broker.protocol.version` is 2.8 or later).
        with_acls: whether access control entries are read, because the broker has an authorizer.
        with_tokens: whether delegation tokens are read, because the broker has their secret.
        max_bytes: the size of a request that ZooKeeper takes (its `jute.maxbuffer`).
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        *,
        broker_id: int,
        cluster_id: str,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        patience_s: float = 18.0,
        with_topic_ids: bool = True,
        with_acls: bool = False,
        with_tokens: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._broker_id = broker_id
        self._session = Session(zookeeper, loop, patience_s=patience_s, max_bytes=max_bytes)
        self._state = ClusterState(cluster_id)
        self._contents: dict[str, dict[str, str]] = {}
        """The configurations below `/config`, by the name of the node."""
        self._unread: dict[str, int] = {}
        """The topics in the state whose configuration was not read since they came, with the last read before that.

        Such a read may have found the configuration of a former topic of the name, or none yet."""
        self._reads = 0
        self._read_by: dict[str, int] = {}
        """The number of the read that brought the content of a node."""
        self._in_turn = asyncio.Lock()
        self._listeners: list[Listener] = []
        self._topics = TopicWriter(self._session, with_ids=with_topic_ids)
        self._configs = ConfigWriter(self._session, f"{broker_id}-{zookeeper.session_id:x}")
        self._notices = Notices(OF_CONFIGS, self._session, now_ms, self._read_again, self._read_all)
        self._acls = AclTree(self._session, now_ms, lambda: self._state.acls, self._take_acls) if with_acls else None
        self._tokens = None
        if with_tokens:
            self._tokens = TokenTree(self._session, now_ms, lambda: self._state.tokens, self._take_tokens)
        self._reading: asyncio.Task[None] | None = None

    @property
    def state(self) -> ClusterState:
        return self._state

    def subscribe(self, listener: Listener) -> None:
        """See `MetadataStore.subscribe`."""
        self._listeners.append(listener)

    async def start(self) -> ClusterState:
        """Read the configurations and access control entries, and begin to follow their changes.

        Raises:
            OSError: there was no connection for too long.
        """
        await self._notices.start()
        if self._acls is not None:
            await self._acls.start()
        if self._tokens is not None:
            await self._tokens.start()
        return self._state

    async def stop(self) -> None:
        """Stop following changes. The session stays open."""
        await self._notices.stop()
        if self._acls is not None:
            await self._acls.stop()
        if self._tokens is not None:
            await self._tokens.stop()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    # -- what the controller tells

    def publish(self, change: Merge) -> None:
        """Merge what the controller has told into the state, and tell the listeners.

        The configurations of new topics are added here, as far as they are known. They are read, and told as a change
        then, whether they differ or not: partitions here may have been hosted with others.
        """
        state, operations = change(self._state)
        if state.topics is not self._state.topics:
            for operation in operations:
                if isinstance(operation, DeleteTopic):
                    # The controller deletes its configuration without a notice. There may be a new topic of this name.
                    self._contents.pop(f"{TOPICS}/{operation.name}", None)
                    self._read_by.pop(f"{TOPICS}/{operation.name}", None)
                    self._unread.pop(operation.name, None)
                elif isinstance(operation, CreateTopic):
                    self._unread[operation.topic.name] = self._reads
            state = self._configured(state)
        self._replace(state, operations)
        if self._unread and (self._reading is None or self._reading.done()):
            self._reading = self._session.loop.create_task(self._read_unread())

    async def read_topic_configs(self, names: Iterable[str]) -> None:
        """Read the configurations of topics, before their logs are created here.

        No notice tells of the configuration with which a topic is created. What is known of a topic may be that of a
        former one of the name, as long as the controller has not told of the new one.

        Raises:
            OSError: there was no connection for too long.
        """
        await self._read_again(f"{TOPICS}/{name}" for name in dict.fromkeys(names))

    def forget_topics(self, gone: Collection[TopicState]) -> None:
        """Take topics that do not exist any more out of the state, and tell the listeners.

        Args:
            gone: the topics as the state has had them. Those of which the controller has told since stay.
        """
        found = {topic.name: topic for topic in gone if self._state.topics.get(topic.name) is topic}
        if found:
            topics = {name: topic for name, topic in self._state.topics.items() if name not in found}
            operations = [DeleteTopic(name, topic.topic_id) for name, topic in found.items()]
            self.publish(lambda state: (replace(state, topics=topics), operations))

    async def missing_topics(self, names: Iterable[str]) -> set[str]:
        """Return those of the topics that the tree does not have.

        Raises:
            ZooKeeperError: there is no connection, or it was lost; it is not waited for.
        """
        asked = list(names)
        nodes = await each_of(map(paths.topic, asked), self._session.zookeeper.get)
        return {name for name, node in zip(asked, nodes, strict=True) if node is None}

    def topic_config(self, name: str) -> dict[str, str]:
        """Return the configuration of a topic as far as it is known, also of one that is not in the state yet."""
        return self._contents.get(f"{TOPICS}/{name}", {})

    def has_topic_config(self, name: str) -> bool:
        """Return whether the configuration of a topic was read or written, so that an empty one is its own."""
        node = f"{TOPICS}/{name}"
        return node in self._read_by or node in self._contents

    def _configured(self, state: ClusterState) -> ClusterState:
        before, given = self._state.topics, {}
        for name, topic in state.topics.items():
            if before.get(name) is not topic:
                given[name] = self._with_config(topic)
        return replace(state, topics={**state.topics, **given}) if given else state

    def _with_config(self, topic: TopicState) -> TopicState:
        config = self.topic_config(topic.name)
        return topic if topic.config == config else replace(topic, config=config)

    def check_topic(self, topic: TopicState) -> None:
        """Refuse a new topic that ZooKeeper would not take.

        Raises:
            PolicyViolationError: one of its nodes would be too large.
        """
        self._topics.topic_data(topic)
        self._topics.config_data(topic)

    # -- committing

    async def commit(self, decide: Decision) -> ClusterState:
        """See `MetadataStore.commit`, and this module for when a change is in the state.

        Raises:
            NoNodeForError: an operation changes what a cluster over ZooKeeper does not keep; nothing is changed.
            PolicyViolationError: a node would be larger than ZooKeeper takes; nothing is changed but, perhaps, topics
                before it.
            OSError: ZooKeeper could not be reached, or others changed the same all the time. Whether the change was
                made is not known.
        """
        async with self._in_turn:
            view = View()
            done: set[tuple[str, ...]] = set()
            for _ in range(ATTEMPTS):
                state = view.over(self._state)
                operations = [each for each in decide(state) if _key(each) not in done]
                if await self._carry_out(state, operations, view, done):
                    return self._state
            raise OSError(errno.EAGAIN, "other brokers change the same nodes in ZooKeeper all the time")

    async def _carry_out(
        self, state: ClusterState, operations: Sequence[Operation], view: View, done: set[tuple[str, ...]]
    ) -> bool:
        """Write what the operations change; return False if something was not as the decision took it to be."""
        topics = [each for each in operations if isinstance(each, TopicOperation)]
        configs = [each for each in operations if isinstance(each, SetConfig | SetClientQuota | SetScramCredentials)]
        acls = {each.pattern: each.entries for each in operations if isinstance(each, SetAcls)}
        tokens = {each.token_id: each.token for each in operations if isinstance(each, SetToken)}
        ids = [each for each in operations if isinstance(each, TakeProducerIds)]
        others = {type(each).__name__ for each in operations if not isinstance(each, _WRITTEN)}
        if others:
            raise NoNodeForError(
                f"{', '.join(sorted(others))} is for the controller to write, or has no node in ZooKeeper"
            )
        by_node = {name_of(each): each for each in configs}
        # What the decision is based on, before anything else is read.
        known = {name: self._contents.get(name, {}) for name in by_node}
        try:
            written = await self._write_topics(state, topics, view, done)
            if by_node:
                written &= await self._configs.write(by_node, known)
                await self._read_again(by_node)
            if acls:
                assert self._acls is not None
                written &= await self._acls.write(acls, {each: state.acls.get(each, frozenset()) for each in acls})
            if tokens:
                assert self._tokens is not None
                written &= await self._tokens.write(tokens, state.tokens)
            for taken in ids:
                written &= await self._take_ids(state.next_producer_id, taken)
        except ZooKeeperError as error:
            raise OSError(errno.EIO, f"ZooKeeper refuses the change: {error!r}") from error
        return written

    async def _write_topics(
        self, state: ClusterState, operations: Sequence[TopicOperation], view: View, done: set[tuple[str, ...]]
    ) -> bool:
        async def write(operation: TopicOperation) -> bool:
            former = self._state.topics.get(operation.topic.name) if isinstance(operation, CreateTopic) else None
            if not await self._topics.write(view, state, operation):
                return False
            key = _key(operation)
            done.add(key)
            # If the rest is decided again, the controller may have told of this, as if others had done it.
            view.topics[key[1]] = state.topics.get(key[1])
            if isinstance(operation, CreateTopic):
                if former is not None:
                    # The name was free in the tree. Whoever waits for the new topic must not take this one for it.
                    self.forget_topics([former])
                self._contents[f"{TOPICS}/{operation.topic.name}"] = dict(operation.topic.config)
            return True

        return all(await each_of(operations, write))

    async def _take_ids(self, first: int, operation: TakeProducerIds) -> bool:
        taken, found = await take_producer_ids(self._session, self._broker_id, first, operation.next_id)
        self._replace(replace(self._state, next_producer_id=found), [TakeProducerIds(found)])
        return taken

    # -- reading

    def _take_acls(self, found: Mapping[ResourcePattern, Entries]) -> None:
        operations = [SetAcls(pattern, entries) for pattern, entries in found.items()]
        self._replace(apply(self._state, operations), operations)

    def _take_tokens(self, found: Mapping[str, Token | None]) -> None:
        operations = [SetToken(token_id, token) for token_id, token in found.items()]
        self._replace(apply(self._state, operations), operations)

    async def _read_all(self) -> None:
        number = self._next_read()
        found = {name: node.content for name, node in (await read_all(self._session)).items()}
        gone = self._contents.keys() - found.keys()
        self._learn(number, {**found, **{name: {} for name in gone}})
        following = await next_producer_id(self._session)
        if following != self._state.next_producer_id:
            self._replace(replace(self._state, next_producer_id=following), [TakeProducerIds(following)])

    async def _read_again(self, names: Iterable[str]) -> None:
        number = self._next_read()
        found = await read_nodes(self._session, names)
        self._learn(number, {name: node.content for name, node in found.items()})

    async def _read_unread(self) -> None:
        try:
            while self._unread:
                await self._read_again(f"{TOPICS}/{name}" for name in self._unread)
        except (ZooKeeperError, OSError) as error:
            # They are read again after the next word of the controller.
            count = len(self._unread)
            logger.error("The configurations of %d new topics cannot be read from ZooKeeper: %s", count, error)

    def _next_read(self) -> int:
        self._reads += 1
        return self._reads

    def _learn(self, number: int, contents: dict[str, dict[str, str]]) -> None:
        """Note what was read below `/config`; tell the listeners what that changes.

        ZooKeeper answers in the order of the requests. So what a later read has found is newer, whichever ends first.
        """
        operations: list[Operation] = []
        first: list[Operation] = []
        for name, content in contents.items():
            if number < self._read_by.get(name, 0):
                continue
            self._read_by[name] = number
            if content:
                self._contents[name] = content
            else:
                self._contents.pop(name, None)
            for operation in operations_for(name, content):
                topic = _topic_of(operation)
                if topic is not None and self._unread.get(topic, number) < number:
                    del self._unread[topic]
                    first.append(operation)
                else:
                    operations.append(operation)
        changed = [*changes(self._state, operations), *first]
        if changed:
            self._replace(apply(self._state, changed), changed)

    def _replace(self, state: ClusterState, operations: Sequence[Operation]) -> None:
        self._state = replace(state, revision=self._state.revision + 1)
        tell(self._listeners, self._state, operations)


def _topic_of(operation: Operation) -> str | None:
    """Return the topic whose configuration an operation sets, or None."""
    if isinstance(operation, SetConfig) and operation.resource is ConfigResource.TOPIC:
        return operation.name
    return None


def _key(operation: Operation) -> tuple[str, ...]:
    """Return what identifies an operation on a topic among those of a commit."""
    match operation:
        case CreateTopic(topic):
            return ("create", topic.name, str(topic.topic_id))
        case AddPartitions(topic, first, partitions):
            return ("grow", topic, str(first), str(len(partitions)))
        case DeleteTopic(name, topic_id):
            return ("delete", name, str(topic_id))
    return (type(operation).__name__, *(str(each) for each in operation.nodes()))
