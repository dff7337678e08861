"""Incremental fetch sessions (KIP-227). Pure: time comes in, decisions go out.

A client that fetches many partitions sends them once; later requests name only what changed, and responses leave out
partitions that have nothing new. A session is named by an id that the broker chose and counted by an epoch that both
sides advance, so that a lost request or response is noticed.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.protocol.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = (1 << 31) - 1
EVICTION_SECONDS = 120.0
"""A session used within this time is not evicted for a new one."""
MAX_PARTITIONS = 500_000
"""Partitions kept in all sessions together: some 150 MB. Sessions outlive connections, so one client could fill memory.

A client that is given no session, or loses it, sends its partitions with each request."""
TOPIC_ID_VERSION = 13

ZERO_ID = uuid.UUID(int=0)
PartitionKey = tuple[Any, int]
"""(topic name before v13, topic id from then on; partition)"""


class FetchPartitionState:
    """One partition a fetch asks for, and what its session last told of it."""

    __slots__ = (
        "fetch_offset", "fetched_epoch", "leader_epoch", "log_start", "max_bytes", "name", "partition", "sent_error",
        "sent_high_watermark", "sent_log_start", "topic_id",
    )  # fmt: skip

    def __init__(self, name: str, topic_id: uuid.UUID, partition: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = 0
        self.leader_epoch = -1
        self.fetched_epoch = -1
        self.log_start = -1
        self.max_bytes = 0
        self.sent_high_watermark = -1
        self.sent_log_start = -1
        self.sent_error = False

    def update(self, wanted: Any) -> None:
        """Take the position of a ``FetchPartition`` of the request."""
        self.fetch_offset = wanted.fetch_offset
        self.leader_epoch = wanted.current_leader_epoch
        self.fetched_epoch = wanted.last_fetched_epoch
        self.log_start = wanted.log_start_offset
        self.max_bytes = wanted.partition_max_bytes

    def changed(self, error: int, high_watermark: int, log_start: int, nbytes: int) -> bool:
        """Whether an incremental response must name this partition; remembers what it is told."""
        news = (
            nbytes > 0
            or error != 0
            or self.sent_error
            or high_watermark != self.sent_high_watermark
            or log_start != self.sent_log_start
        )
        self.sent_high_watermark = high_watermark
        self.sent_log_start = log_start
        self.sent_error = error != 0
        return news


class FetchSession:
    """A client's set of partitions, in the order in which they are served next."""

    __slots__ = ("epoch", "id", "last_used", "partitions", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used = now
        self.partitions: dict[PartitionKey, FetchPartitionState] = {}

    def served(self, keys: Iterable[PartitionKey]) -> None:
        """Partitions that gave records go to the end, so that a small response limit starves none."""
        for key in keys:
            state = self.partitions.pop(key, None)
            if state is not None:
                self.partitions[key] = state


@dataclass(slots=True)
class FetchContext:
    """What one request fetches, and how its response is told."""

    error: ErrorCode
    partitions: list[FetchPartitionState]
    session: FetchSession | None = None
    incremental: bool = False
    session_id: int = NO_SESSION


class FetchSessionCache:
    """All sessions of a broker, at most ``slots`` of them with at most ``max_partitions`` between them."""

    def __init__(self, slots: int, max_partitions: int = MAX_PARTITIONS) -> None:
        self._slots = slots
        self._max_partitions = max_partitions
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, version: int, message: Any, names: Mapping[uuid.UUID, str], now: float) -> FetchContext:
        """The context of a FetchRequest ``message``; ``names`` resolves topic ids (v13+). ``now`` in seconds."""
        by_id = version >= TOPIC_ID_VERSION
        if message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._full(message, by_id, names, now)
        session = self._sessions.get(message.session_id)
        if session is None:
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        if session.epoch != message.session_epoch:
            return FetchContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
        if session.uses_topic_ids != by_id:
            return FetchContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, [])
        size = len(session.partitions)
        _merge(session.partitions, message, by_id, names)
        if len(session.partitions) > size and self._partitions() > self._max_partitions:
            del self._sessions[session.id]
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        session.last_used = now
        if not session.partitions:
            del self._sessions[session.id]
            return FetchContext(ErrorCode.NONE, [])
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        for state in session.partitions.values():
            if by_id:
                # The topic may have been made or deleted since.
                state.name = names.get(state.topic_id, "")
        return FetchContext(ErrorCode.NONE, list(session.partitions.values()), session, True, session.id)

    def forget(self, session_id: int) -> None:
        """End a session, if it has not ended already."""
        self._sessions.pop(session_id, None)

    def _full(self, message: Any, by_id: bool, names: Mapping[uuid.UUID, str], now: float) -> FetchContext:
        self._sessions.pop(message.session_id, None)
        partitions: dict[PartitionKey, FetchPartitionState] = {}
        _merge(partitions, message, by_id, names)
        context = FetchContext(ErrorCode.NONE, list(partitions.values()))
        if message.session_epoch == INITIAL_EPOCH and partitions and self._make_room(len(partitions), now):
            session = FetchSession(self._new_id(), by_id, now)
            session.partitions = partitions
            self._sessions[session.id] = session
            context.session, context.session_id = session, session.id
        return context

    def _partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def _make_room(self, size: int, now: float) -> bool:
        if self._partitions() + size > self._max_partitions:
            stale = [session for session in self._sessions.values() if now - session.last_used > EVICTION_SECONDS]
            for session in stale:
                del self._sessions[session.id]
            if self._partitions() + size > self._max_partitions:
                return False
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used)
        if now - oldest.last_used > EVICTION_SECONDS:
            del self._sessions[oldest.id]
            return True
        smallest = min(self._sessions.values(), key=lambda session: len(session.partitions))
        if len(smallest.partitions) < size and now - smallest.last_used > EVICTION_SECONDS:
            del self._sessions[smallest.id]
            return True
        return False

    def _new_id(self) -> int:
        while True:
            candidate = random.randint(1, MAX_EPOCH)
            if candidate not in self._sessions:
                return candidate


def partition_key(state: FetchPartitionState, by_id: bool) -> PartitionKey:
    """The key of ``state`` in its session."""
    return (state.topic_id if by_id else state.name, state.partition)


def _merge(
    partitions: dict[PartitionKey, FetchPartitionState],
    message: Any,
    by_id: bool,
    names: Mapping[uuid.UUID, str],
) -> None:
    for topic in message.topics:
        identity = topic.topic_id if by_id else topic.topic
        name = names.get(topic.topic_id, "") if by_id else topic.topic
        for wanted in topic.partitions:
            key = (identity, wanted.partition)
            state = partitions.get(key)
            if state is None:
                state = partitions[key] = FetchPartitionState(name, topic.topic_id, wanted.partition)
            state.update(wanted)
    for topic in message.forgotten_topics_data:
        identity = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            partitions.pop((identity, partition), None)
