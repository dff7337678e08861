"""Commit offsets one after the other, in a thread of their own, so that no commit overtakes an earlier one."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Protocol

from kafkalog.client.backoff import client_backoff
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.errors import CommitFailedError, RetriableCommitFailedError
from kafkalog.client.consumer.group.generation import Generation
from kafkalog.client.consumer.group.group_requests import GroupRequests, OutdatedMemberError
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.threads import Monitor, Worker
from kafkalog.client.errors import ClientTimeoutError, is_retriable
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    KafkaError,
    RebalanceInProgressError,
    UnknownTopicOrPartitionError,
    error_for,
)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], None]
"""Called in the thread that polls: with committed offsets and None, or with the offsets of a failed commit and its
error."""

logger = logging.getLogger(__name__)
_OF_THE_MEMBER = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


def checked_offsets(
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check offsets to commit.

    Raises:
        ValueError: An offset is negative.
    """
    given = {
        TopicPartition(*tp): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
        for tp, each in offsets.items()
    }
    for tp, (offset, _, _) in given.items():
        if offset < 0:
            raise ValueError(f"offset {offset} of {tp} is negative")
    return given


class Committer(Protocol):
    """The member's state, in either protocol. It learns from commits that are refused."""

    @property
    def fenced(self) -> bool: ...

    def commit_refused(self, code: int, generation: Generation) -> bool: ...

    def commit_fenced(self, generation: Generation) -> bool: ...


class Commits:
    """The commits of one consumer, automatic ones among them.

    `generation`, `assigned` and `grouped` (whether the group assigns the partitions) are called, under the lock, when a
    commit begins. A member epoch (KIP-848) may
    change while a commit is under way. The commit is then sent again under the new epoch, as long as the member has
    stayed in the group and kept the partitions. Otherwise other members may already have gone on with them.

    `call_back` tells `interceptors` of each commit that has succeeded.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        requests: GroupRequests,
        member: Committer,
        monitor: Monitor,
        generation: Callable[[], Generation],
        assigned: Callable[[], Collection[TopicPartition]],
        grouped: Callable[[], bool],
        interceptors: ConsumerInterceptors,
    ) -> None:
        self._config, self._requests, self._member, self._monitor = config, requests, member, monitor
        self._interceptors = interceptors
        self._generation, self._assigned, self._grouped = generation, assigned, grouped
        self.worker = Worker("kafkalog-consumer-commit", monitor.notify)
        self._done: deque[tuple[CommitCallback, dict[TopicPartition, OffsetAndMetadata], Exception | None]] = deque()
        self.count = 0

    def begin(self, offsets: Offsets, deadline: float | None, *, drop_unknown: bool = False) -> Future[None]:
        """Commit, and retry until `deadline`; try only once where that is None.

        With `drop_unknown`, the offset of a partition that does not exist is not sent again. Its topic was deleted, and
        by the next try there may be another one of its name, where the offset means nothing.
        """
        copy = dict(offsets)
        with self._monitor.lock:
            generation, held = self._generation(), frozenset(copy).intersection(self._assigned())
            is_outside = self._grouped() and not generation.valid
        return self.worker.submit(lambda: self._commit(copy, generation, held, deadline, drop_unknown, is_outside))

    def begin_async(self, offsets: Offsets, callback: CommitCallback | None) -> Future[None]:
        """Commit once; then `call_back` will call `callback`."""
        copy = dict(offsets)
        future = self.begin(copy, None)

        def done(future: Future[None]) -> None:
            error = future.exception()
            if error is not None and is_retriable(error):
                wrapped = RetriableCommitFailedError(f"the commit failed; another may succeed: {error}")
                wrapped.__cause__ = error
                error = wrapped
            if callback is not None:
                self._done.append((callback, copy, error if isinstance(error, Exception) else None))
                self._monitor.notify()
            elif error is not None:
                logger.warning("group %s: commit of %d partitions: %s", self._requests.group_id, len(copy), error)

        future.add_done_callback(done)
        return future

    @property
    def has_finished(self) -> bool:
        """Return whether `call_back` has something to tell."""
        return bool(self._done)

    def call_back(self) -> None:
        """Tell interceptors what was committed, and call the callbacks of finished commits."""
        while self._done:
            callback, offsets, error = self._done.popleft()
            callback(offsets, error)

    def call_all_back(self) -> None:
        """Call callbacks as `call_back` does, but all of them, whatever they raise: no later call will do so.

        Raises:
            Exception: A callback has raised it, as the first one that did.
        """
        failure: Exception | None = None
        while self._done:
            try:
                self.call_back()
            except Exception as error:
                if failure is not None:
                    logger.exception("group %s: another commit's callback failed", self._requests.group_id)
                failure = failure or error
        if failure is not None:
            raise failure

    def _commit(
        self,
        offsets: Offsets,
        generation: Generation,
        held: Collection[TopicPartition],
        deadline: float | None,
        drop_unknown: bool,
        is_outside: bool,
    ) -> None:
        if not offsets:
            return
        if self._member.fenced:
            raise self._requests.fenced()
        if is_outside:
            # A group without members would take it as a commit by hand, and go back to what others have read.
            raise self._outdated(ErrorCode.UNKNOWN_MEMBER_ID)
        client = self._config.client
        backoff, failures = client_backoff(client), 0
        while True:
            timeout = (
                client.request_timeout if deadline is None else min(client.request_timeout, deadline - time.monotonic())
            )
            try:
                answer = self._requests.commit(offsets, generation, max(timeout, 0.001))
                if not answer.error_code:
                    self.count += 1
                    if self._interceptors.want_commits:
                        self._done.append((self._intercept, dict(offsets), None))
                    return
                error: Exception = self._refused(answer.error_code, str(answer.partition), generation)
                if drop_unknown:
                    offsets = {tp: each for tp, each in offsets.items() if tp not in answer.unknown}
            except Exception as failure:
                error = failure
            self._requests.note_failure(error)
            unknown = isinstance(error, UnknownTopicOrPartitionError)
            if deadline is None or (unknown and drop_unknown) or not (unknown or is_retriable(error)):
                raise error
            failures += 1
            pause = backoff.pause(failures)
            if time.monotonic() + pause >= deadline:
                raise ClientTimeoutError(f"the commit of group {self._requests.group_id} failed: {error}") from error
            time.sleep(pause)
            if isinstance(error, OutdatedMemberError):
                generation = self._renewed(generation, held)

    def _intercept(self, offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        self._interceptors.on_commit(offsets)

    def _renewed(self, generation: Generation, held: Collection[TopicPartition]) -> Generation:
        """Return the identity under which to commit again.

        Raises:
            CommitFailedError: The member has left the group, or has given up some of the partitions.
        """
        # Without the lock, partitions that are just moving within the order would seem to be missing.
        with self._monitor.lock:
            now, assigned = self._generation(), frozenset(self._assigned())
        if now.incarnation != generation.incarnation or not now.valid or not assigned.issuperset(held):
            raise self._outdated(ErrorCode.STALE_MEMBER_EPOCH)
        return now

    def _refused(self, code: int, partition: str, generation: Generation) -> Exception:
        group = self._requests.group_id
        error: KafkaError = error_for(code)
        if code not in _OF_THE_MEMBER:
            if code == ErrorCode.FENCED_INSTANCE_ID:
                with self._monitor.lock:
                    if self._member.commit_fenced(generation):
                        return self._requests.fenced()
            return type(error)(f"group {group}, committing {partition}: {error.message}")
        with self._monitor.lock:
            only_now = generation.valid and self._member.commit_refused(code, generation)
        if only_now and code == ErrorCode.STALE_MEMBER_EPOCH:
            return OutdatedMemberError(f"group {group}, committing {partition}: {error.message}")
        if only_now:
            return RebalanceInProgressError(
                f"group {group} rebalances: the offsets can be committed after the rebalance, by poll, as far as the "
                "partitions are kept"
            )
        if not generation.valid:
            return CommitFailedError(
                f"group {group} has members, and this consumer is none of them: offsets of partitions that were "
                "assigned by hand can be committed only while the group is empty"
            )
        return self._outdated(error.code)

    def _outdated(self, code: ErrorCode) -> CommitFailedError:
        return CommitFailedError(
            f"group {self._requests.group_id} has gone on without this member ({code.name}), and others have its "
            "partitions: poll was not called for max.poll.interval.ms, the session timed out, or an administrator has "
            "removed the member. If polls are too far apart, take fewer records at a time (max.poll.records), or raise "
            "max.poll.interval.ms"
        )
