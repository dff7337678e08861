"""The loop of a poll: do the steps that are due, then take records, or wait. Other calls wait in it, too."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TypeVar

from kafkalog.client.consumer.deserializers import Deserializers
from kafkalog.client.consumer.errors import WakeupError
from kafkalog.client.consumer.fetcher.fetch_collector import FetchCollector
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.consumer.fetcher.fetcher import Fetcher
from kafkalog.client.consumer.group.abstract_coordinator import AbstractCoordinator
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.offsets.position_reset import PositionReset
from kafkalog.client.consumer.subscription import SubscriptionState, SubscriptionType
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.types import ConsumerRecord, TopicPartition

T = TypeVar("T")
logger = logging.getLogger(__name__)

_CAUSE_S = 0.1
"""The time to wait after a deadline for the thread that works on the call to report what was wrong."""


class PollLoop:
    """The loop of one consumer, in the application's thread. `coordinator` is None for a consumer without a group."""

    def __init__(
        self,
        subscription: SubscriptionState,
        monitor: Monitor,
        fetcher: Fetcher,
        collector: FetchCollector,
        deserializers: Deserializers,
        interceptors: ConsumerInterceptors,
        coordinator: AbstractCoordinator | None,
        position_reset: PositionReset,
    ) -> None:
        self._subscription, self._monitor, self._fetcher = subscription, monitor, fetcher
        self._collector, self._deserializers = collector, deserializers
        self._interceptors = interceptors
        self._coordinator, self._position_reset = coordinator, position_reset
        self._refused: tuple[TopicPartition, int, Exception] | None = None
        """The record before which the last call ended, and why it cannot be deserialized."""

    def poll(
        self,
        use: AbstractContextManager[None],
        timeout: float,
        take: Callable[[], T],
        columns: tuple[str, ...] | None = None,
    ) -> T:
        """Return the first result of `take` within `use`, which keeps other threads out.

        What was taken is taken again where an exception keeps it from the caller. It may be one of a signal's handler.
        """
        is_inside = False
        try:
            with use:
                self._collector.begin()
                is_inside = True
                self._fetcher.columns = columns
                return self._next(time.monotonic() + timeout, take)
        except BaseException:
            if is_inside:
                self._collector.go_back()
            raise

    def _next(self, deadline: float, take: Callable[[], T]) -> T:
        """Return the first result of `take` that is not empty, or its result at the deadline."""
        if self._subscription.kind is SubscriptionType.NONE:
            raise RuntimeError("nothing to read: subscribe to topics, or assign partitions")
        while True:
            self._collector.begin()
            self._step()
            found = take()
            if found is not None and (not isinstance(found, list) or found):
                return found
            if time.monotonic() >= deadline:
                return found
            self._monitor.wait(min(deadline, self._next_time()), self._step_due)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Take fetched records, deserialize and intercept them.

        Raises:
            Exception: A partition has this error; or the next record cannot be deserialized, and comes again with the
                next call.
        """
        records, error = self._take(limit)
        if error is not None:
            self._refused = None
            self._collector.begin()
            raise error
        return records

    def _take(self, limit: int) -> tuple[list[ConsumerRecord], Exception | None]:
        """Take as `take` does, but return the error. An exception that this raises is one of a signal's handler."""
        if (error := self._refusal()) is not None:
            return [], error
        records, error = self._collector.take(limit)
        if not records:
            return records, error
        try:
            found, error = self._deserializers.deserialize(records)
            if error is not None:
                refused = records[len(found)]
                self.go_back(records[len(found) :], self._collector.after)
                self._refused = TopicPartition(refused.topic, refused.partition), refused.offset, error
            return (self._interceptors.on_consume(found), None) if found else ([], error)
        except BaseException:
            # A signal's exception, too: what is not returned does not count as read.
            self.go_back(records, self._collector.after)
            raise

    def _refusal(self) -> Exception | None:
        """Return why the record at a position cannot be deserialized, if the last call has found that out.

        As in Java (`CompletedFetch.fetchRecords`), the deserializer is not called again before the error is raised.
        """
        if self._refused is None:
            return None
        tp, offset, error = self._refused
        state = self._subscription.partitions.get(tp)
        position = None if state is None else state.position
        if state is not None and position is not None and position.offset == offset:
            return None if state.paused else error
        self._refused = None
        return None

    def take_more(self, taken: list[ConsumerRecord], limit: int, deadline: float) -> None:
        """Wait for further records without doing other steps, and add them to `taken`.

        A commit or a rebalance would count the records in `taken` as read, but the application does not have them
        yet. An error that comes after records is left for the next call. An exception that this raises is one of a
        signal's handler.
        """
        while taken and len(taken) < limit and time.monotonic() < deadline:
            self._monitor.wait(deadline, self._due)
            if self._interrupted():
                break
            more, error = self._take(limit - len(taken))
            if error is not None:
                logger.debug("comes again with the next call: %s", error)
                break
            taken += more

    def go_back(self, records: Sequence[ConsumerRecord], after: MutableMapping[TopicPartition, FetchPosition]) -> None:
        """Move positions back to these records.

        Partitions whose position is not the one in `after` any more are left alone. `after` gets the new positions, so
        that earlier records of the same poll can be gone back to afterwards.
        """
        first = {TopicPartition(record.topic, record.partition): record.offset for record in reversed(records)}
        with self._monitor.lock:
            for tp, offset in first.items():
                state = self._subscription.partitions.get(tp)
                if state is not None and state.position is not None and state.position == after.get(tp):
                    after[tp] = FetchPosition(offset, state.position.epoch)
                    state.move(after[tp], state.topic_id)
        self._fetcher.wake()

    def check_woken(self) -> None:
        """Check that no other thread has called `Monitor.wakeup`.

        Raises:
            WakeupError: One has called it.
        """
        if self._monitor.woken:
            self._monitor.woken = False
            raise WakeupError("the consumer was woken up")

    def wait_for(self, future: Future[T], deadline: float, what: str) -> T:
        """Wait for work of another thread, and return its result or raise its error; `what` names it.

        Raises:
            ClientTimeoutError: It has not ended by the deadline.
            WakeupError: Another thread has called `Monitor.wakeup`.
        """
        self._monitor.wait(deadline + _CAUSE_S, future.done)
        self.check_woken()
        if not future.done():
            raise ClientTimeoutError(f"{what} did not end in time")
        return future.result()

    def wait_for_position(self, tp: TopicPartition, deadline: float, backoff: float) -> FetchPosition:
        """Find where reading begins in an assigned partition, and look every `backoff` seconds at least.

        Raises:
            ClientTimeoutError: It is not known by the deadline.
            WakeupError: Another thread has called `Monitor.wakeup`.
        """
        state = self._subscription.state(tp)
        while state.position is None:
            self.check_woken()
            self._position_reset.step()
            if state.error is not None:
                with self._monitor.lock:
                    error, state.error = state.error, None
                # The next call looks again.
                self._fetcher.wake()
                raise error.with_traceback(None)
            if time.monotonic() >= deadline:
                raise ClientTimeoutError(f"the position of {tp} could not be found in time")
            until = min(deadline, time.monotonic() + backoff)
            self._monitor.wait(until, lambda: state.position is not None)
        return state.position

    def _step(self) -> None:
        """Do all steps that are due, except taking records."""
        self.check_woken()
        if self._coordinator is not None:
            self._coordinator.step()
        if self._fetcher.failure is not None:
            with self._monitor.lock:
                failure, self._fetcher.failure = self._fetcher.failure, None
            if failure is not None:
                raise failure
        self._position_reset.step()

    def _step_due(self) -> bool:
        """Tell whether `_step` or a take has something to do."""
        return self._due() or (self._coordinator is not None and self._coordinator.commits.has_finished)

    def _due(self) -> bool:
        """Tell as `_step_due` does, except that callbacks of commits can wait."""
        return any(state.ready() for state in self._subscription.partitions.values()) or self._interrupted()

    def _interrupted(self) -> bool:
        """Tell whether a step is due, apart from taking records."""
        if self._monitor.woken or self._fetcher.failure is not None or self._position_reset.due():
            return True
        if any(state.error is not None for state in self._subscription.partitions.values()):
            return True
        return self._coordinator is not None and self._coordinator.due()

    def _next_time(self) -> float:
        member = float("inf") if self._coordinator is None else self._coordinator.next_time()
        return min(member, self._position_reset.next_time())
