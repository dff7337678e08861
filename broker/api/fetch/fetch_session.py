"""Incremental fetch sessions (KIP-227). Pure: time comes in, decisions go out.

A client that fetches many partitions sends them once; later requests name only what changed, and responses leave out
partitions that have nothing new. A session is named by an id that the broker chose and counted by an epoch that both
sides advance, so that a lost request or response is noticed.

Operations that take long for many partitions are also available in steps, between which other requests have their turn.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

from broker.api.fetch.fetch_partition import FetchPartitionState, PartitionKey
from kafkalog.protocol.errors import ErrorCode
from kafkalog.storage.topics import MAX_TOPIC_NAME

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
IN_STEPS = None
"""The epoch of a session while a request is applied to it in steps: no request has this epoch."""
MAX_EPOCH = (1 << 31) - 1
EVICTION_SECONDS = 120.0
"""A session used within this time is not evicted for a new one."""
MAX_PARTITIONS = 500_000
"""Partitions kept in all sessions together: some 150 MB. Sessions outlive connections, so one client could fill memory.

A client that is given no session, or loses it, sends its partitions with each request."""
MANY_PARTITIONS = 1000
"""Sessions with more partitions than this are served in steps, and freed later, a few entries at a time."""
STEP = 100
"""The number of a request's entries that are examined in one step."""
TOPIC_ID_VERSION = 13


class Rest(Hashable, Protocol):
    """The partitions of a session that requests need not read."""

    woken: list[FetchPartitionState]
    """The partitions whose rest has ended since the last request came."""

    def request_came(self, reader: Any) -> None:
        """Note that the client fetches again, and who it is."""

    def begin(self, state: FetchPartitionState, data: Any) -> None:
        """Let a partition rest, if `data` has told the client that it has all of the partition."""

    def touch(self, state: FetchPartitionState) -> None:
        """End the rest of a partition about which the client's request says something new."""

    def end(self) -> None:
        """End the rest of all partitions."""


class FetchSession:
    """A client's set of partitions.

    Attributes:
        partitions: all of them.
        awake: those that the next request reads, in the order in which they are served.
        rest: the others, if some ever rested.
        names: the topic names by which the partitions were last named.
        is_follower: whether the client is a follower.
        is_over: whether the session has ended.
    """

    __slots__ = (
        "awake", "created", "epoch", "id", "is_follower", "is_over", "last_used", "names", "partitions", "rest",
        "uses_topic_ids",
    )  # fmt: skip

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float, *, is_follower: bool = False) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.created = now
        self.epoch: int | None = 1
        self.last_used = now
        self.partitions: dict[PartitionKey, FetchPartitionState] = {}
        self.awake: dict[PartitionKey, FetchPartitionState] = {}
        self.rest: Rest | None = None
        self.names: Mapping[uuid.UUID, str] | None = None
        self.is_over = False

    def served(self, keys: Iterable[PartitionKey]) -> None:
        """Move partitions that returned records to the end, so that a small response limit starves none."""
        for key in keys:
            state = self.awake.pop(key, None)
            if state is not None:
                self.awake[key] = state

    def touch(self, key: PartitionKey, state: FetchPartitionState) -> None:
        """Read a partition with the next request."""
        if key not in self.awake:
            if self.rest is not None:
                self.rest.touch(state)
            self.awake[key] = state

    def forget(self, key: PartitionKey) -> None:
        """Remove a partition, if it is here."""
        state = self.partitions.get(key)
        if state is not None:
            self.touch(key, state)
            del self.partitions[key], self.awake[key]

    def rename(self, names: Mapping[uuid.UUID, str]) -> Iterator[None]:
        """Name the partitions by the topics that exist now, in steps; topics may have been created or deleted."""
        if names is self.names:
            return
        for at, (key, state) in enumerate(list(self.partitions.items())):
            name = names.get(state.topic_id, "")
            if name != state.name:
                self.touch(key, state)
                state.name = name
            if at % STEP == 0:
                yield
        self.names = names

    def end(self) -> None:
        """Note that the session has ended."""
        self.is_over = True
        if self.rest is not None:
            self.rest.end()


@dataclass(slots=True)
class FetchContext:
    """The partitions that one request fetches, and which of them its response names."""

    error: ErrorCode
    partitions: list[FetchPartitionState]
    """The partitions that the request reads."""
    session: FetchSession | None = None
    incremental: bool = False
    session_id: int = NO_SESSION

    def read_again(self) -> None:
        """Read what is awake in the session by now."""
        session = self.session
        if session is not None and self.incremental and not session.is_over:
            self.partitions = list(session.awake.values())


class FetchSessionCache:
    """All sessions of a broker, at most `slots` of them with at most `max_partitions` in total.

    Args:
        free: gets the partitions of large sessions that have ended, to free them without delaying requests.
    """

    def __init__(
        self,
        slots: int,
        max_partitions: int = MAX_PARTITIONS,
        free: Callable[[dict[PartitionKey, FetchPartitionState]], object] = lambda partitions: None,
        *,
        chance: random.Random,
    ) -> None:
        self._chance = chance
        self._slots = slots
        self._max_partitions = max_partitions
        self._free = free
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, version: int, message: Any, names: Mapping[uuid.UUID, str], now: float) -> FetchContext | None:
        """Return the context of a FetchRequest `message`; `names` resolves topic ids (v13+). `now` is in seconds.

        None where the session has many partitions: ask for `steps`.
        """
        by_id = version >= TOPIC_ID_VERSION
        if message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if message.session_id in self._sessions:
                self.forget(message.session_id)
            partitions: dict[PartitionKey, FetchPartitionState] = {}
            may_keep = _merge(partitions, message.topics, message.forgotten_topics_data, by_id, names)
            states = list(partitions.values())
            return self._begin(message, by_id, names, partitions, dict(partitions), states, now, may_keep)
        session = self._find(message, by_id)
        if not isinstance(session, FetchSession):
            return FetchContext(session, [])
        size = len(session.partitions)
        is_named = not by_id or names is session.names
        if (len(session.awake) if is_named else size) > MANY_PARTITIONS:
            return None
        if not is_named:
            for _ in session.rename(names):
                pass
        may_keep = _merge(session.partitions, message.topics, message.forgotten_topics_data, by_id, names, session)
        return self._go_on(session, message.session_epoch, size, now, may_keep)

    def steps(
        self, version: int, message: Any, names: Mapping[uuid.UUID, str], now: float
    ) -> Generator[None, None, FetchContext]:
        """Make the context that `context` makes, and pause wherever others may have their turn.

        No request can find a new session before it is complete. A session that continues gets an epoch that no other
        request can have, so none finds it half changed; if the request ends early, the session ends. Other requests may
        end it meanwhile.
        """
        by_id = version >= TOPIC_ID_VERSION
        if message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if message.session_id in self._sessions:
                self.forget(message.session_id)
            return (yield from self._begin_in_steps(message, by_id, names, now))
        session = self._find(message, by_id)
        if not isinstance(session, FetchSession):
            return FetchContext(session, [])
        size, epoch = len(session.partitions), message.session_epoch
        session.last_used = now
        session.epoch = IN_STEPS
        try:
            if by_id:
                yield from session.rename(names)
            may_keep = yield from _merge_in_steps(session.partitions, message, by_id, names, session)
            if session.is_over:
                return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
            return self._go_on(session, epoch, size, now, may_keep)
        finally:
            if session.epoch is IN_STEPS:
                session.epoch = epoch
                self._end(session)

    def forget(self, session_id: int) -> None:
        """End a session, if it has not ended already."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._end(session)

    def _end(self, session: FetchSession) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            session.end()
        # If a request is being applied to it, that request calls this again.
        if session.epoch is not IN_STEPS and len(session.partitions) > MANY_PARTITIONS:
            self._free(session.partitions)
            self._free(session.awake)

    def _find(self, message: Any, by_id: bool) -> FetchSession | ErrorCode:
        session = self._sessions.get(message.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != message.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def _go_on(self, session: FetchSession, epoch: int, size: int, now: float, may_keep: bool) -> FetchContext:
        """Return the context of a session that had `size` partitions before its request, which came in `epoch`.

        `may_keep` is what `_merge` has returned.
        """
        if not may_keep or (len(session.partitions) > size and self._partitions() > self._max_partitions):
            self._end(session)
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        session.last_used = now
        if not session.partitions:
            self._end(session)
            return FetchContext(ErrorCode.NONE, [])
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return FetchContext(ErrorCode.NONE, list(session.awake.values()), session, True, session.id)

    def _begin(
        self,
        message: Any,
        by_id: bool,
        names: Mapping[uuid.UUID, str],
        partitions: dict[PartitionKey, FetchPartitionState],
        awake: dict[PartitionKey, FetchPartitionState],
        states: list[FetchPartitionState],
        now: float,
        may_keep: bool,
    ) -> FetchContext:
        """Return the context of a full request; a new session keeps `partitions` if wanted and there is room.

        `awake` and `states` are the same partitions; the session gets the former, the request the latter. `may_keep` is
        what `_merge` has returned.
        """
        context = FetchContext(ErrorCode.NONE, states)
        is_follower = message.replica_id >= 0 or message.replica_state.replica_id >= 0
        wants_one = message.session_epoch == INITIAL_EPOCH and partitions and may_keep
        if wants_one and self._make_room(len(partitions), now, is_follower):
            session = FetchSession(self._new_id(), by_id, now, is_follower=is_follower)
            session.partitions = partitions
            session.awake = awake
            session.names = names
            self._sessions[session.id] = session
            context.session, context.session_id = session, session.id
        return context

    def _begin_in_steps(
        self, message: Any, by_id: bool, names: Mapping[uuid.UUID, str], now: float
    ) -> Generator[None, None, FetchContext]:
        partitions: dict[PartitionKey, FetchPartitionState] = {}
        awake: dict[PartitionKey, FetchPartitionState] = {}
        context = None
        try:
            may_keep = yield from _merge_in_steps(partitions, message, by_id, names)
            states: list[FetchPartitionState] = []
            items = iter(partitions.items())
            while some := dict(islice(items, STEP)):
                awake |= some
                states += some.values()
                yield
            context = self._begin(message, by_id, names, partitions, awake, states, now, may_keep)
            return context
        finally:
            if (context is None or context.session is None) and len(partitions) > MANY_PARTITIONS:
                self._free(partitions)
                self._free(awake)

    def _partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def _make_room(self, size: int, now: float, is_follower: bool) -> bool:
        """Return whether there is room for a session of `size` partitions, after others have ended if need be.

        A session that was not used for `EVICTION_SECONDS` ends first. Then one ends that is worth less: sessions of
        followers are worth most, then those with more partitions. A session has its place for `EVICTION_SECONDS` at
        least, but for that of a client that a follower needs. (Kafka's `FetchSessionCache.tryEvict`)
        """
        if self._partitions() + size > self._max_partitions:
            stale = [session for session in self._sessions.values() if now - session.last_used > EVICTION_SECONDS]
            for session in stale:
                self._end(session)
            if self._partitions() + size > self._max_partitions:
                return False
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used)
        if now - oldest.last_used > EVICTION_SECONDS:
            self._end(oldest)
            return True
        settled = [
            session
            for session in self._sessions.values()
            if now - session.created > EVICTION_SECONDS or (is_follower and not session.is_follower)
        ]
        least = min(settled, key=_worth, default=None)
        if least is None or (is_follower, size) <= _worth(least):
            return False
        self._end(least)
        return True

    def _new_id(self) -> int:
        while True:
            candidate = self._chance.randint(1, MAX_EPOCH)
            if candidate not in self._sessions:
                return candidate


def _worth(session: FetchSession) -> tuple[bool, int]:
    """Return what to compare sessions by, when one of them has to end."""
    return session.is_follower, len(session.partitions)


def _merge(
    partitions: dict[PartitionKey, FetchPartitionState],
    topics: Iterable[Any],
    forgotten: Iterable[Any],
    by_id: bool,
    names: Mapping[uuid.UUID, str],
    session: FetchSession | None = None,
) -> bool:
    """Take the entries of a request into `partitions`, which are those of `session`, unless that is new.

    Return whether a session may keep them: longer names than any topic's would take memory for nothing.
    """
    may_keep = True
    for topic in topics:
        identity = topic.topic_id if by_id else topic.topic
        name = names.get(topic.topic_id, "") if by_id else topic.topic
        if len(name) > MAX_TOPIC_NAME:
            may_keep = False
        for wanted in topic.partitions:
            key = (identity, wanted.partition)
            state = partitions.get(key)
            if state is None:
                state = partitions[key] = FetchPartitionState(name, topic.topic_id, wanted.partition)
            if session is not None:
                session.touch(key, state)
            state.update(wanted)
    for topic in forgotten:
        identity = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            if session is not None:
                session.forget((identity, partition))
            else:
                partitions.pop((identity, partition), None)
    return may_keep


def _merge_in_steps(
    partitions: dict[PartitionKey, FetchPartitionState],
    message: Any,
    by_id: bool,
    names: Mapping[uuid.UUID, str],
    session: FetchSession | None = None,
) -> Generator[None, None, bool]:
    may_keep = True
    for some in _pieces(message.topics):
        may_keep &= _merge(partitions, some, (), by_id, names, session)
        yield
    for some in _pieces(message.forgotten_topics_data):
        _merge(partitions, (), some, by_id, names, session)
        yield
    return may_keep


class _Piece(NamedTuple):
    """Some partitions of a topic."""

    topic: str
    topic_id: uuid.UUID
    partitions: list[Any]


def _pieces(topics: Iterable[Any]) -> Iterator[list[_Piece]]:
    """Yield the topics in pieces of at most so many partitions each, and so many topics."""
    pieces: list[_Piece] = []
    room = STEP
    for topic in topics:
        first = 0
        while True:
            some = topic.partitions[first : first + room]
            pieces.append(_Piece(topic.topic, topic.topic_id, some))
            first += len(some)
            room -= max(len(some), 1)
            if not room:
                yield pieces
                pieces, room = [], STEP
            if first >= len(topic.partitions):
                break
    if pieces:
        yield pieces
