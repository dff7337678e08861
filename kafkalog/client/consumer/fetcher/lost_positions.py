"""Positions that the log does not have, or whose batch the broker cannot read.

The consumer goes on as `auto.offset.reset` says, or raises an error. All functions of `LostPositions` are called under
the consumer's lock.
"""

from __future__ import annotations

import logging
import time

from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.errors import LogTruncationError, PositionOutOfRangeError, UnreadableBatchError
from kafkalog.client.consumer.fetcher.asked_partition import AskedPartition
from kafkalog.client.consumer.fetcher.fetch_position import Truncation
from kafkalog.client.consumer.subscription import PartitionState
from kafkalog.client.types import EARLIEST, LATEST, OffsetAndMetadata
from kafkalog.protocol.errors import CorruptMessageError, OffsetOutOfRangeError

logger = logging.getLogger(__name__)

RESET_TIMESTAMPS = {"earliest": EARLIEST, "latest": LATEST}


class LostPositions:
    """The handling of such positions by one consumer."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._reset = RESET_TIMESTAMPS.get(config.auto_offset_reset)

    def truncated(self, state: PartitionState, divergent: Truncation) -> None:
        """Handle that the leader's log ends, or differs, below what was fetched."""
        position, end = state.position, divergent.end
        assert position is not None
        if end is not None and end.offset >= position.offset:
            # The records that were handed out are still in the log.
            state.refetch()
            return
        if self._reset is None:
            known = {state.tp: OffsetAndMetadata(end.offset, end.epoch)} if end is not None else {}
            state.refetch()
            state.error = LogTruncationError({state.tp: position.offset}, known)
        elif end is not None:
            logger.warning(
                "partition %s: the log was truncated; going back from %d to %d", state.tp, position.offset, end.offset
            )
            state.move(end, state.topic_id)
        else:
            logger.warning(
                "partition %s: the log was truncated; going on with the %s", state.tp, self._config.auto_offset_reset
            )
            state.look_up(self._reset)

    def created_again(self, state: PartitionState) -> None:
        """Give up a position in a topic that was deleted, because there is another one of its name."""
        what = f"partition {state.tp}: the topic was deleted and created again"
        if state.completed_fetches:
            # The fetched records are handed out first.
            self._look_later(state)
        elif self._reset is None:
            assert state.position is not None
            offset = state.position.offset
            gone = f"{what}, so there is no position {offset} any more"
            state.error = PositionOutOfRangeError(state.tp, offset, gone)
        else:
            logger.warning("%s; going on with the %s of the new one", what, self._config.auto_offset_reset)
            state.look_up(self._reset)

    def out_of_range(self, asked: AskedPartition, error: OffsetOutOfRangeError) -> None:
        """Handle that a broker does not have the offset that it was asked for."""
        state = asked.state
        if asked.of_follower or state.completed_fetches:
            # A follower may be behind the leader, or may have deleted more records. Fetched records are handed out
            # first. Then the leader is asked.
            self._look_later(state)
        elif self._reset is None:
            state.error = PositionOutOfRangeError(state.tp, asked.position.offset, error.message)
        else:
            logger.warning(
                "partition %s has no offset %d: going on with the %s",
                state.tp,
                asked.position.offset,
                self._config.auto_offset_reset,
            )
            state.look_up(self._reset)

    def unreadable(self, asked: AskedPartition, error: CorruptMessageError) -> None:
        """Handle that a broker cannot read the batch at the offset that it was asked for."""
        state = asked.state
        # The leader's copy may be whole. Fetched records are handed out first.
        if not asked.of_follower and not state.completed_fetches:
            state.error = UnreadableBatchError(state.tp, asked.position.offset, error)
            state.error.__cause__ = error
        self._look_later(state)

    def _look_later(self, state: PartitionState) -> None:
        state.retry_at = time.monotonic() + self._config.retry_backoff
