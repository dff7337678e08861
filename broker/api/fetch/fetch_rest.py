"""The partitions of a fetch session that rest (`broker.replica.resting`): requests do not read them.

What a request that leaves a partition out says about it is noted later, at the latest when the partition wakes: that
the follower was still at the end of the log, and when.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.api.fetch.fetch_partition import FetchPartitionState, partition_key
from broker.api.fetch.fetch_session import FetchSession
from broker.counters import TopicCounters
from broker.net.session import Principal
from broker.replica.isolation import FetchIsolation
from broker.replica.manager import ANY_MINIMUM, ReplicaManager
from broker.replica.partition import Partition
from kafkalog.protocol.messages.fetch import PartitionData

READ_ALL_AFTER_MS = 60_000
"""After this time a session's partitions are all read again, for changes that wake nobody: those of configurations."""
READ_AT_ONCE = 100
"""The most of these that one request reads, so that it does not hold the event loop."""


class Authority(NamedTuple):
    """The client that fetches, and the access control entries by which it may."""

    principal: Principal
    host: str
    revision: int
    """The number of changes of the entries so far."""


class Reader(NamedTuple):
    """The properties of a request that change its answer. A change of them wakes all partitions of a session."""

    replica: int
    """The follower's broker id; negative for a consumer."""
    isolation: FetchIsolation
    version: int
    rack: str
    """The consumer's rack, if it may be sent to another broker in it; else empty."""
    broker_epoch: int
    """The epoch of the follower's registration, if it tells. Its next life has to be noted of each partition."""
    authority: Authority | None = None
    """The client whose rights count, so that no partition rests that it may not read any more."""


class _Resting(NamedTuple):
    state: FetchPartitionState
    partition: Partition


class SessionRest:
    """Keep the resting partitions of one session.

    Args:
        session: the session.
        replicas: the partitions of this broker.
        reader: who fetches.

    Attributes:
        woken: partitions that woke since the last request came, or since the list was last emptied.
    """

    def __init__(self, session: FetchSession, replicas: ReplicaManager, reader: Reader) -> None:
        self._session = session
        self._replicas = replicas
        self._reader = reader
        self._resting: dict[tuple[str, int], _Resting] = {}
        self._counted: dict[TopicCounters, int] = {}
        """The number of resting partitions of each topic."""
        self._fetched_ms = self._read_all_ms = replicas.runtime.monotonic_ms()
        self._to_read: list[tuple[str, int]] = []
        """Partitions that were not read for long."""
        self.woken: list[FetchPartitionState] = []

    def __len__(self) -> int:
        return len(self._resting)

    # -- requests

    def request_came(self, reader: Reader) -> None:
        """Note that the client fetches again, and so still is where it was in all that rests.

        A reader that differs from the one before wakes all. Those that were not read for long wake a few at a time.
        """
        now_ms = self._replicas.runtime.monotonic_ms()
        if reader != self._reader:
            self.end()
            self._reader = reader
        if now_ms >= self._read_all_ms + READ_ALL_AFTER_MS:
            self._read_all_ms, self._to_read = now_ms, list(self._resting)
        for _ in range(min(len(self._to_read), READ_AT_ONCE)):
            self._end_rest(self._to_read.pop())
        self.woken = []
        self._fetched_ms = now_ms
        for counters, count in self._counted.items():
            counters.total_fetch += count

    def begin(self, state: FetchPartitionState, data: PartitionData) -> None:
        """Let a partition rest, if `data` has told the client that it has all of the partition."""
        if data.error_code or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0:
            return
        partition = self._replicas.get(state.name, state.partition)
        if partition is None or self._session.is_over or self._reader.rack or not self._has_all(partition, state):
            return
        if self._session.awake.pop(partition_key(state, self._session.uses_topic_ids), None) is None:
            # The client has forgotten it meanwhile.
            return
        self._resting[partition.key] = _Resting(state, partition)
        self._counted[partition.counters] = self._counted.get(partition.counters, 0) + 1
        self._replicas.resting.add(partition.key, self)

    def _has_all(self, partition: Partition, state: FetchPartitionState) -> bool:
        leading, offsets = partition.leading, partition.log.offsets
        if leading is None or partition.log.offline is not None:
            return False
        if (state.sent_high_watermark, state.sent_log_start) != (offsets.high_watermark, offsets.start):
            return False
        replica = self._reader.replica
        if replica < 0:
            return state.fetch_offset == partition.end_for(self._reader.isolation)
        # What depends on time, leaving the ISR and holding the high watermark back, does not concern such a follower.
        follower = leading.followers.get(replica)
        return (
            state.fetch_offset == offsets.end == offsets.high_watermark
            and state.leader_epoch == leading.epoch
            and follower is not None
            and follower.log_end_offset == offsets.end
            and replica in leading.isr
            and leading.proposed is None
        )

    # -- the end of the rest

    def wake(self, key: tuple[str, int], amount: int) -> None:
        """End the rest of a partition that may have changed, and let the session's waiting request look at it."""
        self.woken.append(self._leave(self._resting[key]))
        self._replicas.fetch_purgatory.notify(self, amount)

    def touch(self, state: FetchPartitionState) -> None:
        """End the rest of a partition about which the client's request says something new."""
        found = self._resting.get((state.name, state.partition))
        if found is not None and found.state is state:
            self._replicas.resting.remove(found.partition.key, self)
            self._leave(found)

    def end(self) -> None:
        """End the rest of all partitions."""
        for key in list(self._resting):
            self._end_rest(key)
        self._replicas.fetch_purgatory.notify(self, ANY_MINIMUM)

    def _end_rest(self, key: tuple[str, int]) -> None:
        found = self._resting.get(key)
        if found is not None:
            self._replicas.resting.remove(key, self)
            self.woken.append(self._leave(found))

    def settle(self, key: tuple[str, int]) -> None:
        """Note for a resting partition that its follower was there at the last request."""
        state, partition = self._resting[key]
        leading = partition.leading
        if self._reader.replica >= 0 and leading is not None and leading.epoch == state.leader_epoch:
            leading.stayed(self._reader.replica, state.fetch_offset, self._fetched_ms)

    def _leave(self, found: _Resting) -> FetchPartitionState:
        state, partition = found
        self.settle(partition.key)
        del self._resting[partition.key]
        self._session.awake[partition_key(state, self._session.uses_topic_ids)] = state
        left = self._counted[partition.counters] - 1
        if left:
            self._counted[partition.counters] = left
        else:
            del self._counted[partition.counters]
        return state
