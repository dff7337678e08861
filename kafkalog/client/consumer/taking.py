"""Taking what was fetched: the application's side of the partitions' chunks. Positions move here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkalog.client.config import ClientConfig
from kafkalog.client.types import ConsumerRecord

from .positions import Position
from .shared import Shared
from .subscription import PartitionState, SubscriptionState

if TYPE_CHECKING:
    import pyarrow as pa


class Taking:
    """Hands out records or Arrow batches. ``make_room`` is called when a chunk has been used up."""

    def __init__(
        self, config: ClientConfig, subscription: SubscriptionState, shared: Shared, make_room: Callable[[], None]
    ) -> None:
        self._config, self._subscription, self._shared = config, subscription, shared
        self._make_room = make_room
        self.records = 0
        """Records handed out."""

    def take(self, limit: int) -> list[ConsumerRecord]:
        """At most ``limit`` records that are there, of one partition after the other; raises a partition's error."""
        taken: list[ConsumerRecord] = []
        for state in list(self._subscription.partitions.values()):
            if len(taken) >= limit or (taken and state.error is not None):
                break
            try:
                self._raise_error(state)
                more = self._take_from(state, limit - len(taken)) if state.ready() else []
            except Exception as error:
                if taken:
                    # It comes again.
                    break
                raise _located(error, state) from error.__cause__
            if more:
                taken += more
                with self._shared.lock:
                    self._subscription.to_end_of_line(state.tp)
        self.records += len(taken)
        return taken

    def _raise_error(self, state: PartitionState) -> None:
        if state.error is not None:
            with self._shared.lock:
                error, state.error = state.error, None
            assert error is not None
            raise error

    def _take_from(self, state: PartitionState, count: int) -> list[ConsumerRecord]:
        taken: list[ConsumerRecord] = []
        while len(taken) < count and state.chunks:
            chunk = state.chunks[0]
            if chunk.columns is not None:
                self._refetch(state)
                break
            try:
                more, position = chunk.take(count - len(taken), self._config)
            except Exception:
                self._refetch(state)
                if taken:
                    break
                raise
            taken += more
            if position is not None:
                state.position = position
            if chunk.broken:
                self._refetch(state)
            elif len(taken) < count:
                self._used_up(state, chunk.next)
        return taken

    def take_arrow(self, columns: Sequence[str]) -> pa.RecordBatch | None:
        """The next Arrow batch that is there, of one partition after the other; raises a partition's error."""
        for state in list(self._subscription.partitions.values()):
            try:
                self._raise_error(state)
                batch = self._take_arrow_from(state, tuple(columns))
            except Exception as error:
                raise _located(error, state) from error.__cause__
            if batch is not None:
                with self._shared.lock:
                    self._subscription.to_end_of_line(state.tp)
                self.records += batch.num_rows
                return batch
        return None

    def _take_arrow_from(self, state: PartitionState, columns: tuple[str, ...]) -> pa.RecordBatch | None:
        while state.ready():
            chunk = state.chunks[0]
            if chunk.columns is None and chunk.untouched:
                try:
                    chunk.decode_arrow(columns, self._config)
                except Exception:
                    self._refetch(state)
                    raise
            if chunk.columns != columns:
                self._refetch(state)
                return None
            batch, position = chunk.take_arrow()
            if batch is not None:
                state.position = position
                if not chunk.arrow_left:
                    self._used_up(state, chunk.next)
                return batch
            self._used_up(state, chunk.next)
        return None

    def _used_up(self, state: PartitionState, position: Position) -> None:
        with self._shared.lock:
            state.chunks.popleft()
            state.position = position
        self._make_room()

    def _refetch(self, state: PartitionState) -> None:
        with self._shared.lock:
            state.refetch()
        self._make_room()


def _located(error: Exception, state: PartitionState) -> Exception:
    where = f"in partition {state.tp}, at offset {state.position.offset if state.position else '?'}"
    if where not in getattr(error, "__notes__", ()):
        error.add_note(where)
    return error
