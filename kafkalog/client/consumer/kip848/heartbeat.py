"""The thread that sends heartbeats under the consumer protocol: a member joins and leaves by them."""

from __future__ import annotations

import logging
import time

from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.group.generation import Next
from kafkalog.client.consumer.group.group_requests import GroupRequests
from kafkalog.client.consumer.kip848.member import Beat, Member
from kafkalog.client.consumer.threads import HeartbeatThread, Monitor
from kafkalog.client.errors import is_retriable
from kafkalog.protocol.errors import ErrorCode, KafkaError, UnsupportedVersionError, error_for
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

logger = logging.getLogger(__name__)
_LEAVE_S = 5.0


class Heartbeat(HeartbeatThread):
    """Send the heartbeats that `member` says are due, and pass it the answers.

    It holds the lock except while it waits.
    """

    def __init__(self, config: ConsumerConfig, requests: GroupRequests, member: Member, monitor: Monitor) -> None:
        super().__init__(monitor)
        self._config, self._requests, self._member = config, requests, member

    def run(self) -> None:
        while True:
            with self._monitor.lock:
                if self._stopping:
                    return
                now = time.monotonic()
                pause = self._member.due(now)
                if pause > 0:
                    self._changed.wait(min(pause, 3600.0))
                    continue
                beat = self._member.beat(now)
            if beat.is_last:
                self._leave(beat.request)
            else:
                self._send(beat)
            self._monitor.notify()

    def _send(self, beat: Beat) -> None:
        group, member = self._requests.group_id, self._member
        try:
            answer = self._requests.group_heartbeat(beat.request, self._config.client.request_timeout)
        except Exception as failure:
            with self._monitor.lock:
                if self._stopping:
                    return
                if is_retriable(failure):
                    logger.info("group %s: heartbeat: %s", group, failure)
                    self._requests.note_failure(failure)
                    member.failed(beat, time.monotonic())
                else:
                    self._give_up(beat, failure)
            return
        code = answer.error_code
        if code == ErrorCode.UNSUPPORTED_VERSION:
            with self._monitor.lock:
                self._give_up(beat, UnsupportedVersionError(answer.error_message))
            return
        with self._monitor.lock:
            if not code:
                member.answered(beat, answer)
                return
            todo = member.refused(beat, code, answer.error_message, time.monotonic())
        error = error_for(code, answer.error_message)
        # `poll` raises an error that is final: to warn of it as well would show it twice.
        logger.info("group %s: heartbeat: %s", group, error)
        if todo is Next.FIND:
            self._requests.note_failure(error)

    def _give_up(self, beat: Beat, failure: Exception) -> None:
        """End the membership, because no heartbeat can succeed."""
        if beat.incarnation != self._member.incarnation:
            return
        group = self._requests.group_id
        if isinstance(failure, UnsupportedVersionError):
            remedy = (
                "the cluster does not serve the consumer group protocol (KIP-848); set group.protocol=classic until it "
                "is upgraded"
            )
            if beat.request.subscribed_topic_regex is not None:
                remedy = (
                    "the cluster does not match regular expressions for its groups; subscribe to a pattern that is a "
                    "string, which the consumer matches itself"
                )
            failure = UnsupportedVersionError(f"group {group}: {remedy} ({failure.message})")
        elif not isinstance(failure, KafkaError):
            failure.add_note(f"in a heartbeat of group {group}")
        logger.info("group %s: heartbeat: %s", group, failure)
        self._member.fail(failure)

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Leave the group, because the application does not poll, so that other members get the partitions."""
        logger.warning(
            "group %s: poll was not called for %.0f s (max.poll.interval.ms); the member leaves the group. Poll more "
            "often, take fewer records at a time (max.poll.records), or raise max.poll.interval.ms",
            self._requests.group_id,
            self._config.max_poll_interval,
        )
        try:
            self._requests.group_heartbeat(request, _LEAVE_S)
        except Exception as error:
            logger.info("leaving group %s: %s", self._requests.group_id, error)
