"""Rolling a log: close the active segment, and begin a new one that takes the appends."""

from __future__ import annotations

import logging

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.flusher import Flusher
from broker.log.log_config import LogConfig
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.resources import LogResources
from broker.log.segment.segment import Segment
from broker.log.segment.segment_list import SegmentList

logger = logging.getLogger(__name__)


class Roller:
    """Roll one log. On the event loop's thread.

    Attributes:
        config: the log's settings; only the log replaces them.
    """

    __slots__ = ("_directory", "_flusher", "_producers", "_resources", "_segments", "config")

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: SegmentList,
        producers: ProducerStateManager,
        flusher: Flusher,
        config: LogConfig,
        resources: LogResources,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._producers = producers
        self._flusher = flusher
        self._resources = resources
        self.config = config

    def create(self, base_offset: int, now_ms: int) -> Segment:
        """Make a new, empty segment and return it; it does not belong to the log yet.

        Raises:
            OSError: its files could not be made.
        """
        return Segment.create(str(self._directory.path), base_offset, self.config, now_ms, self._resources)

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Begin a new segment at `base_offset`, unless the active segment is empty and begins there.

        Raises:
            OSError: the new segment could not be made, or the old one could not be closed. The old one stays active.
        """
        old = self._segments.active
        if old.size == 0 and old.base_offset == base_offset:
            return
        new = self.create(base_offset, now_ms)
        try:
            old.finish()
        except OSError:
            new.discard()
            raise
        self._segments.replace([*self._segments.all, new])
        self._flusher.names_unsynced = True
        self._flusher.rolled()
        self._producers.end_offset = base_offset
        try:
            self._producers.take_snapshot(sync=False)
        except OSError as error:
            # The state can be rebuilt from the log; the next snapshot is tried at the next roll.
            logger.warning("No producer snapshot of %s at %d: %s", self._directory.label, base_offset, error)
