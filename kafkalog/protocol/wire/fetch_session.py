"""The side of a consumer or a follower in an incremental fetch session (KIP-227). Pure.

The first request of a session names all partitions, later ones what has changed since. A broker that gives no session
gets all partitions each time. After an error, a lost response, or a change between topic names and topic ids, the next
request begins a new session, and ends the one before. Source: Kafka's `FetchSessionHandler`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

NO_SESSION = 0
INITIAL_EPOCH = 0
MAX_EPOCH = (1 << 31) - 1
TOPIC_ID_VERSION = 13
"""From this version on topics are named by their ids alone."""
LAST_EPOCH_VERSION = 12
"""From this version on a follower says which epoch its last record is of."""

PartitionKey = tuple[str, int]


class Wanted(NamedTuple):
    """The request for one partition."""

    topic_id: uuid.UUID
    """Zero where it is not known."""
    offset: int
    log_start_offset: int
    """A follower's own; -1 for a consumer."""
    max_bytes: int
    leader_epoch: int
    fetched_epoch: int
    """The epoch of a follower's last record; or -1."""


class FetchSessionHandler:
    """The session with one broker; see the module.

    Attributes:
        wanted: what the next request asks for or, while it is under way, what it has asked for.
    """

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self.wanted: dict[PartitionKey, Wanted] = {}
        self._before: dict[PartitionKey, Wanted | None] = {}
        """The entries of the broker's session for the partitions that have changed since the last request."""
        self._by_id = False

    @property
    def is_new(self) -> bool:
        """Return whether the next request, or the one under way, begins a session."""
        return self._epoch == INITIAL_EPOCH

    def want(self, key: PartitionKey, wanted: Wanted | None) -> None:
        """Ask for a partition from the next request on; None: not any more."""
        before = self.wanted.get(key)
        if before == wanted:
            return
        self._before.setdefault(key, before)
        if wanted is None:
            del self.wanted[key]
        else:
            self.wanted[key] = wanted

    def build(self, version: int) -> FetchRequest:
        """Make the next request, in a version of Fetch; the caller adds the limits and its own id."""
        by_id = version >= TOPIC_ID_VERSION
        if by_id != self._by_id:
            self.begin_again()
        self._by_id = by_id
        changed, gone = (self.wanted, {}) if self.is_new else self._changes()
        self._before = {}
        return FetchRequest(
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_topics(changed, version),
            forgotten_topics_data=_forgotten(gone, by_id=by_id),
        )

    def _changes(self) -> tuple[dict[PartitionKey, Wanted], dict[PartitionKey, Wanted]]:
        """Return what the broker has to learn, and what it has to forget."""
        changed: dict[PartitionKey, Wanted] = {}
        gone: dict[PartitionKey, Wanted] = {}
        for key, before in self._before.items():
            now = self.wanted.get(key)
            if now is not None and now != before:
                changed[key] = now
            # A session by names cannot forget a topic's former id: the broker forgets after it has taken the new one.
            if before is not None and (now is None or (self._by_id and now.topic_id != before.topic_id)):
                gone[key] = before
        return changed, gone

    def answered(self, session_id: int) -> None:
        """Note that the request was answered without an error of the session."""
        if session_id == NO_SESSION:
            # The broker keeps no session, or has ended it because nothing was left in it.
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif session_id != self._id or self.is_new:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def begin_again(self) -> None:
        """Begin a new session with the next request, which ends the present one."""
        self._epoch = INITIAL_EPOCH

    def forget(self) -> None:
        """Begin a new session with the next request; the broker does not know the present one."""
        self._id, self._epoch = NO_SESSION, INITIAL_EPOCH


def _topics(wanted: Mapping[PartitionKey, Wanted], version: int) -> list[FetchTopic]:
    topics: dict[tuple[str, uuid.UUID], FetchTopic] = {}
    for (name, index), each in wanted.items():
        topic = topics.get((name, each.topic_id))
        if topic is None:
            topic = topics[name, each.topic_id] = FetchTopic(topic=name, topic_id=each.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                last_fetched_epoch=each.fetched_epoch if version >= LAST_EPOCH_VERSION else -1,
                log_start_offset=each.log_start_offset,
                partition_max_bytes=each.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[PartitionKey, Wanted], *, by_id: bool) -> list[ForgottenTopic]:
    topics: dict[object, ForgottenTopic] = {}
    for (name, index), each in gone.items():
        key = each.topic_id if by_id else name
        topic = topics.setdefault(key, ForgottenTopic(topic=name, topic_id=each.topic_id))
        topic.partitions.append(index)
    return list(topics.values())
