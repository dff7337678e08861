"""Find where to begin in newly assigned partitions: at the committed offset, or where `auto.offset.reset` says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.errors import NoOffsetForPartitionError
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.consumer.fetcher.lost_positions import RESET_TIMESTAMPS
from kafkalog.client.consumer.group.abstract_coordinator import AbstractCoordinator
from kafkalog.client.consumer.subscription import PartitionState, SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.errors import is_retriable
from kafkalog.client.types import OffsetAndMetadata, TopicPartition


class PositionReset:
    """Find first positions; another thread reads committed offsets.

    `coordinator` is None for a consumer without a group.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: AbstractCoordinator | None,
        subscription: SubscriptionState,
        monitor: Monitor,
        wake_fetcher: Callable[[], None],
    ) -> None:
        self._config, self._coordinator = config, coordinator
        self._subscription, self._monitor, self._wake_fetcher = subscription, monitor, wake_fetcher
        self._asking: Future[dict[TopicPartition, OffsetAndMetadata]] | None = None
        self._after = 0.0

    def forget(self) -> None:
        """Forget the query under way: nothing is assigned any more."""
        self._asking = None

    def due(self) -> bool:
        """Tell whether `step` has something to do now."""
        if not self._waiting():
            return False
        return self._asking.done() if self._asking is not None else time.monotonic() >= self._after

    def next_time(self) -> float:
        """Return when to call `step` even if nothing has changed (`time.monotonic`)."""
        return self._after if self._asking is None and self._waiting() else float("inf")

    def _waiting(self) -> bool:
        return any(state.lost for state in self._subscription.partitions.values())

    def step(self) -> None:
        """Begin to find positions for partitions that have none, or use positions that were found.

        Raises:
            NoOffsetForPartitionError: A partition has no committed offset, and `auto.offset.reset` is none.
            KafkaError: A broker reports an error that is not retriable.
        """
        states = [state for state in self._subscription.partitions.values() if state.lost]
        if not states:
            if self._asking is not None and self._asking.done():
                # All partitions of the query were given up meanwhile, or got positions by `seek`.
                self._asking = None
            return
        if self._coordinator is None:
            self._reset(states)
        elif self._asking is not None:
            if self._asking.done():
                self._take(states)
        elif time.monotonic() >= self._after:
            deadline = time.monotonic() + self._config.client.default_api_timeout
            for state in states:
                state.committed_asked = True
            self._asking = self._coordinator.begin_fetching_offsets([state.tp for state in states], deadline)

    def _take(self, states: Sequence[PartitionState]) -> None:
        assert self._asking is not None
        future, self._asking = self._asking, None
        asked = [state for state in states if state.committed_asked]
        for state in asked:
            state.committed_asked = False
        try:
            found = future.result()
        except Exception as error:
            self._after = time.monotonic() + self._config.client.retry_backoff
            if not is_retriable(error):
                raise
            return
        with self._monitor.lock:
            for state in asked:
                if state.tp in found:
                    offset, epoch, _ = found[state.tp]
                    state.move(FetchPosition(offset, epoch))
        self._wake_fetcher()
        self._reset([state for state in asked if state.tp not in found])

    def _reset(self, states: Sequence[PartitionState]) -> None:
        if not states:
            return
        timestamp = RESET_TIMESTAMPS.get(self._config.client.auto_offset_reset)
        if timestamp is None:
            self._after = time.monotonic() + self._config.client.retry_backoff
            raise NoOffsetForPartitionError(state.tp for state in states)
        with self._monitor.lock:
            for state in states:
                state.look_up(timestamp)
        self._wake_fetcher()
