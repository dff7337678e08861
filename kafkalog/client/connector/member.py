"""A member of a group in ZooKeeper: it registers, claims its partitions, and gives them up, as steps.

The algorithm is that of `ZookeeperConsumerConnector` of Kafka 0.8.2. A member that learns of a change stops fetching,
commits, and releases its partitions. It reads the group and the topics, decides which partitions are its own, and
claims them by ephemeral nodes. A claim fails while another member has the node. Then the member releases what it has
claimed, waits, and tries again.

Four things differ, and other members do not notice them:

- Each claim, release and commit names the member's own ephemeral node as a condition. So what was decided in a session
  is never carried out in a later one, when the partition may be another member's.
- A node is released only if the member's own session owns it.
- Offsets are read after the claims, so that they are those that the owner before committed at its end.
- After the last try, Kafka's member owns nothing until the group changes again. This one goes on (`connector`).

The effects `StopFetching`, `CommitOffsets`, `LoadOffsets`, `StartFetching` and `Pause` are carried out by the user of
these steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from kafkalog.client.connector.assignment import Assign, AssignmentError, Decision, GroupView
from kafkalog.client.connector.subscription import Subscription, ThreadId, in_order, threads_of
from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.steps import (
    Children,
    CurrentSession,
    NodeExistsError,
    NoNodeError,
    Read,
    SessionExpiredError,
    Steps,
    Write,
    WriteError,
    ZooKeeperError,
    ensure,
)
from kafkalog.zookeeper.values import ANY_VERSION, Check, Create, Delete, SetData

logger = logging.getLogger(__name__)

CLAIMS_AT_ONCE = 500
"""Claims in one request, which ZooKeeper bounds to 1 MiB."""


class ConsumerRebalanceFailedError(ClientError):
    """The member could not claim its partitions within `rebalance.max.retries` tries."""


class Watch(Enum):
    """The subject of a watch."""

    MEMBERS = "members"
    PARTITIONS = "partitions"
    TOPICS = "topics"
    BROKERS = "brokers"


@dataclass(frozen=True, slots=True)
class StopFetching:
    """Stop fetching and forget what was fetched: no record of before is handed out after this."""

    are_lost: bool = False
    """True if other members may have the partitions already, so that nothing of them may be committed."""


@dataclass(frozen=True, slots=True)
class AnnounceRelease:
    """Tell the application that partitions will be released."""


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit the offsets of what was consumed."""


@dataclass(frozen=True, slots=True)
class LoadOffsets:
    """Read the committed offsets of partitions; brings a mapping without those that have none."""

    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class StartFetching:
    """Fetch partitions for their streams, from these offsets on."""

    owners: Mapping[TopicPartition, ThreadId]
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


class Member:
    """A member of a group. One thread at a time carries out its steps.

    Args:
        group: The group's name.
        consumer: The member's id, which no other member of the group has.
        subscription: What it reads.
        assign: The strategy of the group.
        exclude_internal: Whether filters leave out internal topics.
        auto_commit: Whether to commit before partitions are released.
        tries: `rebalance.max.retries`.
        backoff: Seconds between tries.
        session_timeout: Returns that of the session, in seconds; so long a node of an earlier session may remain.
        now_ms: Tells the time.

    Attributes:
        owned: The partitions that the member reads, each with its stream.
        rebalances: How many rebalances have ended.
        rebalance_ms: The time that they took, in ms.
    """

    def __init__(
        self,
        group: str,
        consumer: str,
        subscription: Subscription,
        *,
        assign: Assign,
        exclude_internal: bool = True,
        auto_commit: bool = True,
        tries: int = 4,
        backoff: float = 2.0,
        session_timeout: Callable[[], float] = lambda: 6.0,
        now_ms: Callable[[], int],
    ) -> None:
        self.group = group
        self.consumer = consumer
        self.subscription = subscription
        self.owned: Decision = {}
        self.rebalances = 0
        self.rebalance_ms = 0
        self._assign = assign
        self._exclude_internal = exclude_internal
        self._auto_commit = auto_commit
        self._tries = tries
        self._backoff = backoff
        self._session_timeout = session_timeout
        self._now_ms = now_ms
        self._claims: set[TopicPartition] = set()
        """Partitions whose nodes may be this member's."""
        self._view: GroupView | None = None
        """The view from which the present partitions were decided."""

    @property
    def path(self) -> str:
        """The member's own node."""
        return f"{nodes.members(self.group)}/{self.consumer}"

    # Steps

    def join(self) -> Steps[None]:
        """Register for the first time. If that fails, delete the node, if it exists all the same."""
        try:
            yield from self.register()
        except ZooKeeperError:
            # An answer may be lost. A node of another session is not this member's to delete.
            try:
                node = yield Read(self.path)
                if node is not None and node.stat.owner == (yield CurrentSession()):
                    yield Write([Delete(self.path)])
            except ZooKeeperError as error:
                logger.info("%s cannot be deleted now: %s", self.path, error)
            raise

    def register(self) -> Steps[None]:
        """Create the member's node; wait for one of an earlier session to vanish."""
        yield from ensure(nodes.members(self.group))
        while True:
            data = self.subscription.encode(self._now_ms())
            try:
                yield Write([Create(self.path, data, is_ephemeral=True)])
            except WriteError as error:
                if not isinstance(error.reason, NodeExistsError):
                    raise
            else:
                return
            node = yield Read(self.path)
            if node is not None and node.stat.owner == (yield CurrentSession()):
                # An earlier try has created it, perhaps for other topics.
                yield Write([SetData(self.path, data)])
                return
            logger.info("%s is still registered by an earlier session; waiting for its end", self.consumer)
            yield Pause(self._session_timeout())

    def rebalance(self) -> Steps[None]:
        """Claim the partitions that are this member's; try again as often as configured.

        Raises:
            ConsumerRebalanceFailedError: No try succeeded. The member has released its partitions.
            SessionExpiredError: The session has expired.
        """
        began_ms = self._now_ms()
        try:
            yield from self._rebalance_with_retries()
        finally:
            # Clocks may be set back.
            self.rebalance_ms += max(0, self._now_ms() - began_ms)
            self.rebalances += 1

    def look(self) -> Steps[None]:
        """Read again what the partitions were decided from, and rebalance if it has changed.

        Raises:
            ConsumerRebalanceFailedError, SessionExpiredError: As `rebalance`.
        """
        has_brokers = bool((yield Children(nodes.BROKER_IDS, Watch.BROKERS)))
        if self._view is None or not has_brokers or (yield from self._read_view()) != self._view:
            yield from self.rebalance()

    def expired(self) -> Steps[None]:
        """Give up the partitions of the session that has expired, register again and rebalance."""
        yield StopFetching(are_lost=True)
        # The claims stay noted, because they may be of the present session: the last one has expired during a
        # rebalance, or somebody has deleted the member's node. The rebalance releases those.
        self.owned = {}
        self._view = None
        yield from self.register()
        yield from self.rebalance()

    def touch(self) -> Steps[None]:
        """Read the member's own node.

        Raises:
            SessionExpiredError: It does not exist.
        """
        if (yield Read(self.path)) is None:
            raise SessionExpiredError(f"{self.path} does not exist: the session has expired")

    def leave(self) -> Steps[None]:
        """Release the partitions and delete the member's node."""
        yield from self._release()
        try:
            yield Write([Delete(self.path)])
        except WriteError as error:
            if not isinstance(error.reason, NoNodeError):
                raise

    # Inside

    def _rebalance_with_retries(self) -> Steps[None]:
        last: Exception | None = None
        for number in range(self._tries):
            logger.info("%s: rebalancing, try %d", self.consumer, number)
            try:
                if (yield from self._rebalance_once()):
                    return
            except SessionExpiredError:
                raise
            except (ZooKeeperError, AssignmentError) as error:
                # What is read may change meanwhile, such as a member that has left between two reads.
                logger.info("%s: rebalancing failed: %s", self.consumer, error)
                last = error
            self._view = None
            yield from self._stop()
            yield Pause(self._backoff)
        yield from self._release()
        cause = "" if last is None else f"; the last error: {last}"
        raise ConsumerRebalanceFailedError(f"{self.consumer} can't rebalance after {self._tries} retries{cause}")

    def _rebalance_once(self) -> Steps[bool]:
        if not (yield Children(nodes.BROKER_IDS, Watch.BROKERS)):
            # A watch tells of the first one.
            logger.warning("%s: no brokers are registered in ZooKeeper", self.consumer)
            self._view = None
            return True
        yield from self._stop()
        yield from self._release()
        if (yield Read(self.path)) is None:
            # Somebody has deleted the node, or the session has expired.
            yield from self.register()
        view = yield from self._read_view()
        decision = self._assign(view)
        if not (yield from self._claim(decision)):
            return False
        offsets = yield LoadOffsets(sorted(decision))
        self.owned = decision
        self._view = view
        yield StartFetching(decision, offsets)
        logger.info("%s owns %s", self.consumer, ", ".join(map(str, sorted(decision))) or "no partitions")
        return True

    def _stop(self) -> Steps[None]:
        yield StopFetching()
        if not self.owned:
            return
        yield AnnounceRelease()
        if self._auto_commit:
            yield CommitOffsets()

    def _read_view(self) -> Steps[GroupView]:
        """Read the group and the topics, and watch both."""
        names = (yield Children(nodes.members(self.group), Watch.MEMBERS)) or []
        subscriptions: dict[str, Subscription] = {}
        for name in names:
            path = f"{nodes.members(self.group)}/{name}"
            node = yield Read(path)
            if node is not None:
                subscriptions[name] = Subscription.decode(path, node.data)
        topics: list[str] = []
        if any(each.is_filter for each in subscriptions.values()) or self.subscription.is_filter:
            topics = (yield Children(nodes.TOPICS, Watch.TOPICS if self.subscription.is_filter else None)) or []
        threads: dict[str, list[ThreadId]] = {}
        for name, subscription in subscriptions.items():
            chosen = subscription.select(topics, exclude_internal=self._exclude_internal)
            for topic, found in threads_of(name, chosen).items():
                threads.setdefault(topic, []).extend(found)
        mine = threads_of(self.consumer, self.subscription.select(topics, exclude_internal=self._exclude_internal))
        partitions: dict[str, list[int]] = {}
        for topic in sorted(mine):
            path = nodes.topic(topic)
            node = yield Read(path, Watch.PARTITIONS)
            partitions[topic] = [] if node is None else nodes.parse_partitions(path, node.data)
        ordered = {topic: in_order(found) for topic, found in threads.items()}
        return GroupView(self.consumer, mine, ordered, partitions)

    def _claim(self, decision: Decision) -> Steps[bool]:
        """Claim all partitions of a decision; if one is another's still, release those just claimed."""
        for topic in sorted({tp.topic for tp in decision}):
            yield from ensure(nodes.owners(self.group, topic))
        wanted = sorted(decision.items())
        for start in range(0, len(wanted), CLAIMS_AT_ONCE):
            part = wanted[start : start + CLAIMS_AT_ONCE]
            # An answer may be lost: the nodes may exist even where the write seems to have failed.
            self._claims.update(tp for tp, _ in part)
            creations = [Create(nodes.owner(self.group, tp), str(thread).encode(), True) for tp, thread in part]
            try:
                yield Write([Check(self.path, ANY_VERSION), *creations])
            except WriteError as error:
                if not error.index:
                    raise SessionExpiredError(f"{self.path} does not exist: the session has expired") from error
                if not isinstance(error.reason, NodeExistsError):
                    raise
                logger.info("%s: waiting for %s to be released", self.consumer, part[error.index - 1][0])
                yield from self._release()
                return False
        return True

    def _release(self) -> Steps[None]:
        """Delete the nodes of all claims that are this session's."""
        session = yield CurrentSession()
        for tp in sorted(self._claims):
            path = nodes.owner(self.group, tp)
            node = yield Read(path)
            # The answer to the deletion may be lost: from here on the partition may be another member's.
            self.owned.pop(tp, None)
            if node is not None and node.stat.owner == session:
                try:
                    yield Write([Check(self.path, ANY_VERSION), Delete(path, node.stat.version)])
                except WriteError as error:
                    if not error.index:
                        raise SessionExpiredError(f"{self.path} does not exist: the session has expired") from error
                    if not isinstance(error.reason, NoNodeError):
                        raise
            self._claims.discard(tp)
