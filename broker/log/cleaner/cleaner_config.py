"""The settings of the log cleaner, for all its threads. Names and defaults are those of Kafka's `log.cleaner.*`."""

from __future__ import annotations

from dataclasses import dataclass

MIN_MAP_BYTES = 1 << 20
MAX_MAP_BYTES = (1 << 31) - 1
"""Largest offset map of one thread, as in Kafka."""


@dataclass(slots=True, frozen=True)
class CleanerConfig:
    """Hold the cleaner's settings. Sizes are in bytes for all threads together, times in milliseconds."""

    threads: int = 1
    dedupe_buffer_size: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_size: int = 512 << 10
    io_max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000
    enabled: bool = True

    def fault(self) -> str | None:
        """Return why these settings contradict each other, or None."""
        if self.enabled and self.dedupe_buffer_size // max(self.threads, 1) <= MIN_MAP_BYTES:
            return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
        return None

    def fault_of_change(self, new: CleanerConfig) -> str | None:
        """Return why these settings cannot be changed to `new` while the broker runs, or None."""
        if new.threads != self.threads:
            if new.threads < 1:
                return "Log cleaner threads should be at least 1"
            if new.threads < self.threads // 2:
                return f"Log cleaner threads cannot be reduced to less than half the current value {self.threads}"
            if new.threads > self.threads * 2:
                return f"Log cleaner threads cannot be increased to more than double the current value {self.threads}"
        return new.fault()

    @property
    def map_bytes(self) -> int:
        """Bytes of one thread's offset map."""
        return min(self.dedupe_buffer_size // max(self.threads, 1), MAX_MAP_BYTES)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of each of a thread's two buffers; a larger batch gets a larger buffer."""
        return max(self.io_buffer_size // max(self.threads, 1) // 2, 4096)
