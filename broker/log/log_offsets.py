"""The offsets that bound what a log holds and what may be read from it."""

from __future__ import annotations

from collections.abc import Callable

from broker.log.producer_state.producer_state_manager import ProducerStateManager


class LogOffsets:
    """Hold the offsets of one log. Only the event loop's thread changes them; any thread may read them.

    Attributes:
        start: the log start offset, the first that may be read.
        end: the log end offset, which the next record gets.
        high_watermark: records below it are replicated; it lies between `start` and `end`.
        cleaned: the offset up to which the log was compacted; None if it never was.
        has_lowered_cleaned: whether a truncation has lowered `cleaned`, and the checkpoint may have the former value.
        on_start_raised: called after `start` was raised.
    """

    __slots__ = (
        "_producers", "cleaned", "end", "has_lowered_cleaned", "high_watermark", "on_start_raised", "start",
    )  # fmt: skip

    def __init__(self, start: int, end: int, producers: ProducerStateManager) -> None:
        self.start = start
        self.end = end
        self.high_watermark = start
        self.cleaned: int | None = None
        self.has_lowered_cleaned = False
        self._producers = producers
        self.on_start_raised: Callable[[], object] = lambda: None

    def set_high_watermark(self, offset: int) -> None:
        """Move the high watermark to `offset`, or as near to it as log start and log end allow."""
        self.high_watermark = offset = min(max(offset, self.start), self.end)
        self._producers.on_high_watermark(offset)

    @property
    def last_stable(self) -> int:
        """The last stable offset: every transaction below it is decided. It bounds read_committed consumers."""
        unstable = self._producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.start), self.high_watermark)

    def raise_start(self, offset: int) -> None:
        """Move the log start offset up to `offset`; the high watermark stays at or above it."""
        self.start = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.on_start_raised()

    def truncate(self, start: int, end: int) -> None:
        """Let the log begin at `start` and end at `end`, and lower the other offsets to match."""
        self.end = end
        self.start = start
        if self.cleaned is not None and self.cleaned > end:
            self.cleaned = end
            self.has_lowered_cleaned = True
        self.high_watermark = min(max(self.high_watermark, start), end)
