"""Hand completed fetches to the application.

Decoding takes time, and the fetcher may learn meanwhile that the log was truncated. So completed fetches are read
without the lock. Then, under the lock, the position moves; or, where `version` has changed, the records are
discarded.

A signal may raise its exception anywhere in this. Then the caller gets nothing, so all positions go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import UUID

from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.errors import LogTruncationError, UnreadableBatchError
from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.consumer.subscription import PartitionState, SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.records.errors import RecordsError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class _Visit(NamedTuple):
    """A partition, and where it was before something was taken from it."""

    state: PartitionState
    version: int
    position: FetchPosition | None


class FetchedBatches(NamedTuple):
    """The record batches that one fetch returned of one partition, as the log holds them."""

    partition: TopicPartition
    offset: int
    """The position of the fetch. Records before it are not the consumer's."""
    next_offset: int
    """The position after all of the batches."""
    fetched: FetchedRecords
    topic_id: UUID
    """The id of the topic that has these records; zero where the broker was asked for the topic by its name."""
    leader_epoch: int
    """The leader epoch of the last of the batches; -1 where it is unknown."""


class FetchCollector:
    """Hand out records or Arrow batches. `make_room` is called when a completed fetch is used up.

    Attributes:
        records: The number of records handed out.
        after: The positions to which partitions were moved since `begin`.
    """

    def __init__(
        self, config: ClientConfig, subscription: SubscriptionState, monitor: Monitor, make_room: Callable[[], None]
    ) -> None:
        self._config, self._subscription, self._monitor = config, subscription, monitor
        self._make_room = make_room
        self.records = 0
        self.after: dict[TopicPartition, FetchPosition] = {}
        self._visits: dict[TopicPartition, _Visit] = {}
        """The partitions that were looked into since `begin`, and where they were before."""
        self._visited: PartitionState | None = None
        """The partition that was looked into last."""

    def take(self, limit: int) -> tuple[list[ConsumerRecord], Exception | None]:
        """Take at most `limit` fetched records, one partition after the other.

        Returns:
            The records; and without records, the error of a partition, if one has an error. So an exception that this
            raises is one of a signal's handler.
        """
        taken: list[ConsumerRecord] = []
        failure: Exception | None = None
        try:
            for state in self._in_line():
                if len(taken) >= limit:
                    break
                more: list[ConsumerRecord] = []
                error = self._take_error(state, keep=bool(taken))
                if error is None and state.ready():
                    more, error = self._take_from(state, limit - len(taken))
                if error is not None:
                    failure = _located(error, state)
                    break
                if more:
                    taken += more
                    with self._monitor.lock:
                        self._subscription.to_end_of_line(state.tp)
            self.records += len(taken)
        except BaseException as interruption:
            self._go_back(interruption)
            raise
        # An error that comes after records is met again by the next call.
        return taken, None if taken else failure

    def _take_first(self, take: Callable[[PartitionState], tuple[T | None, Exception | None]]) -> T | None:
        """Return what `take` finds in the first partition that has something, or raise that partition's error."""
        failure: Exception | None = None
        try:
            for state in self._in_line():
                found: T | None = None
                error = self._take_error(state)
                if error is None:
                    found, error = take(state)
                if error is not None:
                    failure = _located(error, state)
                    break
                if found is not None:
                    with self._monitor.lock:
                        self._subscription.to_end_of_line(state.tp)
                    return found
        except BaseException as interruption:
            self._go_back(interruption)
            raise
        if failure is not None:
            self.begin()
            raise failure
        return None

    def begin(self) -> None:
        """Have `go_back` lead to here: what was taken before is the caller's."""
        self._visits, self.after, self._visited = {}, {}, None

    def go_back(self) -> None:
        """Move the partitions back to where they were at `begin`, because the caller gets an exception."""
        with self._monitor.lock:
            for state, version, position in self._visits.values():
                # A signal may have come while the partition changed its place.
                self._subscription.partitions.setdefault(state.tp, state)
                moved = self.after.get(state.tp)
                if state.version == version or (moved is not None and state.position == moved):
                    state.position = position
                    state.refetch()
            self.after = {}
        self._make_room()

    def _in_line(self) -> Iterator[PartitionState]:
        """Yield the partitions, and note where each is before something is taken from it."""
        for state in list(self._subscription.partitions.values()):
            self._visits.setdefault(state.tp, _Visit(state, state.version, state.position))
            self._visited = state
            yield state

    def _go_back(self, error: BaseException) -> None:
        """Move the partitions back to where they were, because the caller gets an error and not what was taken."""
        if isinstance(error, Exception) and self._visited is not None:
            _located(error, self._visited)
        self.go_back()

    def _take_error(self, state: PartitionState, *, keep: bool = False) -> Exception | None:
        """Return a partition's error, if it has one; unless `keep`, forget it, so that the fetcher tries again.

        The error that the log was truncated is always kept: only a seek or another assignment gives the partition a
        good position. The other partitions come first the next time.
        """
        if state.error is None:
            return None
        with self._monitor.lock:
            error = state.error
            if error is None:
                return None
            if not keep:
                self._subscription.to_end_of_line(state.tp)
                if not isinstance(error, LogTruncationError):
                    state.error = None
        self._make_room()
        return error.with_traceback(None)

    def _take_from(self, state: PartitionState, count: int) -> tuple[list[ConsumerRecord], Exception | None]:
        """Take records; return them, and the error that comes before the first record, if there is one."""
        with self._monitor.lock:
            version, completed_fetches = state.version, list(state.completed_fetches)
        taken: list[ConsumerRecord] = []
        after: FetchPosition | None = None
        failure: RecordsError | None = None
        used, stale = 0, False
        for completed in completed_fetches:
            if completed.columns is not None:
                stale = True
                break
            try:
                more, position = completed.take(count - len(taken), self._config)
            except RecordsError as error:
                failure, stale = error, True
                break
            taken += more
            after = position or after
            stale = completed.broken
            if stale or len(taken) >= count:
                break
            used, after = used + 1, completed.next
        with self._monitor.lock:
            if state.version != version:
                return [], None
            for _ in range(used):
                state.completed_fetches.popleft()
            if after is not None:
                state.position = self.after[state.tp] = after
            if stale:
                state.refetch()
        if stale or used:
            self._make_room()
        return taken, None if failure is None or taken else _named(failure, state)

    def take_fetched(self) -> FetchedBatches | None:
        """Take what the next fetch returned, undecoded, one partition after the other.

        Raises:
            Exception: A partition has this error.
        """
        return self._take_first(self._take_fetched_from)

    def _take_fetched_from(self, state: PartitionState) -> tuple[FetchedBatches | None, Exception | None]:
        with self._monitor.lock:
            if not state.ready():
                return None, None
            version, completed = state.version, state.completed_fetches[0]
        if completed.columns is not None or not completed.untouched:
            self._refetch(state, version)
            return None, None
        try:
            fetched = completed.take_fetched()
        except RecordsError as error:
            return None, _named(error, state) if self._refetch(state, version) else None
        if not self._took(state, version, completed, completed.next):
            return None, None
        after, epoch = completed.next
        return FetchedBatches(state.tp, completed.start, after, fetched, completed.topic_id, epoch), None

    def take_arrow(self, columns: Sequence[str]) -> pa.RecordBatch | None:
        """Take the next fetched Arrow batch, one partition after the other.

        Raises:
            Exception: A partition has this error.
        """
        wanted = tuple(columns)
        batch = self._take_first(lambda state: self._take_arrow_from(state, wanted))
        self.records += 0 if batch is None else batch.num_rows
        return batch

    def _take_arrow_from(
        self, state: PartitionState, columns: tuple[str, ...]
    ) -> tuple[pa.RecordBatch | None, Exception | None]:
        while True:
            with self._monitor.lock:
                if not state.ready():
                    return None, None
                version, completed = state.version, state.completed_fetches[0]
            try:
                if completed.columns is None and completed.untouched:
                    completed.decode_arrow(columns, self._config)
                if completed.columns != columns:
                    self._refetch(state, version)
                    return None, None
                batch, position = completed.take_arrow()
            except RecordsError as error:
                if not self._refetch(state, version):
                    continue
                return None, _named(error, state)
            if self._took(state, version, completed, position) and batch is not None:
                return batch, None

    def _took(self, state: PartitionState, version: int, completed: CompletedFetch, position: FetchPosition) -> bool:
        """Move the position; return False where the completed fetch was discarded meanwhile."""
        with self._monitor.lock:
            if state.version != version:
                return False
            state.position = position
            used_up = not completed.arrow_left
            if used_up:
                state.completed_fetches.popleft()
        if used_up:
            self._make_room()
        return True

    def _refetch(self, state: PartitionState, version: int) -> bool:
        """Discard fetched records, to fetch them again; return False where that was done meanwhile."""
        with self._monitor.lock:
            if state.version != version:
                return False
            state.refetch()
        self._make_room()
        return True


def _named(error: RecordsError, state: PartitionState) -> Exception:
    if state.position is None:
        return error
    named = UnreadableBatchError(state.tp, state.position.offset, error)
    named.__cause__ = error
    return named


def _located(error: Exception, state: PartitionState) -> Exception:
    where = f"in partition {state.tp}, at offset {state.position.offset if state.position else '?'}"
    if where not in getattr(error, "__notes__", ()):
        error.add_note(where)
    return error
