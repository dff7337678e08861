"""Hand completed fetches to the application.

Decoding takes time, and the fetcher may learn meanwhile that the log was truncated. So completed fetches are read
without the lock. Then, under the lock, the position moves; or, where `version` has changed, the records are
discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple
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
        after: The positions to which the last `take` moved.
    """

    def __init__(
        self, config: ClientConfig, subscription: SubscriptionState, monitor: Monitor, make_room: Callable[[], None]
    ) -> None:
        self._config, self._subscription, self._monitor = config, subscription, monitor
        self._make_room = make_room
        self.records = 0
        self.after: dict[TopicPartition, FetchPosition] = {}

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Take at most `limit` fetched records, one partition after the other.

        Raises:
            Exception: A partition has this error, and no records were taken before.
        """
        taken: list[ConsumerRecord] = []
        self.after = {}
        for state in list(self._subscription.partitions.values()):
            if len(taken) >= limit:
                break
            try:
                self._raise_error(state, keep=bool(taken))
                more = self._take_from(state, limit - len(taken)) if state.ready() else []
            except Exception as error:
                if taken:
                    # The error is raised by the next call.
                    break
                raise _located(error, state) from error.__cause__
            if more:
                taken += more
                with self._monitor.lock:
                    self._subscription.to_end_of_line(state.tp)
        self.records += len(taken)
        return taken

    def _raise_error(self, state: PartitionState, *, keep: bool = False) -> None:
        """Raise a partition's error, if it has one; unless `keep`, forget it, so that the fetcher tries again.

        The error that the log was truncated is always kept: only a seek or another assignment gives the partition a
        good position. The other partitions come first the next time.
        """
        if state.error is None:
            return
        with self._monitor.lock:
            error = state.error
            if error is None:
                return
            if not keep:
                self._subscription.to_end_of_line(state.tp)
                if not isinstance(error, LogTruncationError):
                    state.error = None
        self._make_room()
        raise error.with_traceback(None)

    def _take_from(self, state: PartitionState, count: int) -> list[ConsumerRecord]:
        with self._monitor.lock:
            version, completed_fetches = state.version, list(state.completed_fetches)
        taken: list[ConsumerRecord] = []
        after: FetchPosition | None = None
        failure: Exception | None = None
        used, stale = 0, False
        for completed in completed_fetches:
            if completed.columns is not None:
                stale = True
                break
            try:
                more, position = completed.take(count - len(taken), self._config)
            except Exception as error:
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
                return []
            for _ in range(used):
                state.completed_fetches.popleft()
            if after is not None:
                state.position = self.after[state.tp] = after
            if stale:
                state.refetch()
        if stale or used:
            self._make_room()
        if failure is not None and not taken:
            raise _named(failure, state) from failure
        return taken

    def take_fetched(self) -> FetchedBatches | None:
        """Take what the next fetch returned, undecoded, one partition after the other.

        Raises:
            Exception: A partition has this error.
        """
        for state in list(self._subscription.partitions.values()):
            try:
                self._raise_error(state)
                found = self._take_fetched_from(state)
            except Exception as error:
                raise _located(error, state) from error.__cause__
            if found is not None:
                with self._monitor.lock:
                    self._subscription.to_end_of_line(state.tp)
                return found
        return None

    def _take_fetched_from(self, state: PartitionState) -> FetchedBatches | None:
        with self._monitor.lock:
            if not state.ready():
                return None
            version, completed = state.version, state.completed_fetches[0]
        if completed.columns is not None or not completed.untouched:
            self._refetch(state, version)
            return None
        try:
            fetched = completed.take_fetched()
        except RecordsError as error:
            if not self._refetch(state, version):
                return None
            raise _named(error, state) from error
        if not self._took(state, version, completed, completed.next):
            return None
        after, epoch = completed.next
        return FetchedBatches(state.tp, completed.start, after, fetched, completed.topic_id, epoch)

    def take_arrow(self, columns: Sequence[str]) -> pa.RecordBatch | None:
        """Take the next fetched Arrow batch, one partition after the other.

        Raises:
            Exception: A partition has this error.
        """
        for state in list(self._subscription.partitions.values()):
            try:
                self._raise_error(state)
                batch = self._take_arrow_from(state, tuple(columns))
            except Exception as error:
                raise _located(error, state) from error.__cause__
            if batch is not None:
                with self._monitor.lock:
                    self._subscription.to_end_of_line(state.tp)
                self.records += batch.num_rows
                return batch
        return None

    def _take_arrow_from(self, state: PartitionState, columns: tuple[str, ...]) -> pa.RecordBatch | None:
        while True:
            with self._monitor.lock:
                if not state.ready():
                    return None
                version, completed = state.version, state.completed_fetches[0]
            try:
                if completed.columns is None and completed.untouched:
                    completed.decode_arrow(columns, self._config)
                if completed.columns != columns:
                    self._refetch(state, version)
                    return None
                batch, position = completed.take_arrow()
            except Exception as error:
                if not self._refetch(state, version):
                    continue
                raise _named(error, state) from error
            if self._took(state, version, completed, position) and batch is not None:
                return batch

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


def _named(error: Exception, state: PartitionState) -> Exception:
    if not isinstance(error, RecordsError) or state.position is None:
        return error
    return UnreadableBatchError(state.tp, state.position.offset, error)


def _located(error: Exception, state: PartitionState) -> Exception:
    where = f"in partition {state.tp}, at offset {state.position.offset if state.position else '?'}"
    if where not in getattr(error, "__notes__", ()):
        error.add_note(where)
    return error
