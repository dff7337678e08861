"""The thread that keeps a member in its group while the application works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from kafkalog.client.consumer.classic.member import HeartbeatTimer, Member
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.group.generation import Next
from kafkalog.client.consumer.group.group_requests import GroupRequests
from kafkalog.client.consumer.threads import HeartbeatThread, Monitor
from kafkalog.client.errors import is_retriable
from kafkalog.protocol.errors import KafkaError, error_for

logger = logging.getLogger(__name__)
_LEAVE_S = 5.0


class Heartbeat(HeartbeatThread):
    """Send heartbeats while the member is in the group.

    If the application does not poll for `max.poll.interval.ms`, the member leaves the group. If the coordinator is
    silent for `session.timeout.ms`, it is looked up again. `fail` is called with errors for the application to
    raise.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        requests: GroupRequests,
        member: Member,
        monitor: Monitor,
        fail: Callable[[Exception], None],
    ) -> None:
        super().__init__(monitor)
        self._config, self._requests, self._member = config, requests, member
        self._fail = fail
        self.timer = HeartbeatTimer(config.session_timeout, config.heartbeat_interval, config.max_poll_interval)

    def run(self) -> None:
        while True:
            with self._monitor.lock:
                if self._stopping:
                    return
                pause = self._pause()
                if pause:
                    self._changed.wait(pause)
                    continue
                expired = self.timer.poll_expired(time.monotonic())
            if expired:
                self._leave()
            else:
                self._beat()

    def _pause(self) -> float:
        """Return for how many seconds to wait until the next heartbeat or timeout."""
        now = time.monotonic()
        if not self._member.beating:
            return 3600.0
        if self.timer.poll_expired(now):
            return 0.0
        until_expired = self.timer.polled + self.timer.max_poll_interval - now
        return min(self.timer.due(now), until_expired)

    def _beat(self) -> None:
        with self._monitor.lock:
            now = time.monotonic()
            generation = self._member.generation
            if self.timer.session_expired(now):
                logger.warning("group %s: the coordinator has been silent for too long", self._requests.group_id)
                self._requests.forget()
            self.timer.note_sent(now)
        backoff = self._config.client.retry_backoff
        try:
            code = self._requests.heartbeat(generation)
        except Exception as failure:
            with self._monitor.lock:
                self.timer.note_failed(time.monotonic(), backoff)
            if not is_retriable(failure):
                self._fail(failure)
            return
        with self._monitor.lock:
            now = time.monotonic()
            if not code:
                self.timer.note_received(now)
                return
            todo = self._member.heartbeat_failed(code, generation)
            error = _error(code, self._requests.group_id)
            if todo is Next.FIND:
                self._requests.forget()
            if todo is Next.REJOIN:
                # The coordinator has answered, and it does not remove members that are about to join.
                self.timer.note_received(now)
                logger.info("group %s: the member joins again: %s", self._requests.group_id, error)
            elif todo is Next.FAIL:
                self._fail(error)
            else:
                self.timer.note_failed(now, backoff)
        self._monitor.notify()

    def _leave(self) -> None:
        """Leave the group, because the application does not poll, so that other members get the partitions."""
        with self._monitor.lock:
            generation = self._member.generation
            logger.warning(
                "group %s: poll was not called for %.0f s (max.poll.interval.ms); the member leaves the group. Poll "
                "more often, take fewer records at a time (max.poll.records), or raise max.poll.interval.ms",
                self._requests.group_id,
                self._config.max_poll_interval,
            )
            self._member.reset("poll was not called for max.poll.interval.ms")
        if self._config.group_instance_id is None:
            try:
                self._requests.leave(generation.member_id, "poll was not called for max.poll.interval.ms", _LEAVE_S)
            except Exception as error:
                logger.info("leaving group %s: %s", self._requests.group_id, error)


def _error(code: int, group: str) -> KafkaError:
    error = error_for(code)
    return type(error)(f"group {group}: {error.message}")
