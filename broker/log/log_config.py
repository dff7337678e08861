"""What a partition's log needs to know of its topic's configuration.

One value per key of Apache Kafka's topic configuration that the log obeys (``LogConfig`` in Kafka's storage
module); the names are Kafka's with ``_`` for ``.``. Parsing and defaults from files belong to
``broker.config``; this class is what a log is handed, and it may be replaced while the log is open: every
read of it is at the time of use.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

MAX_LONG = (1 << 63) - 1
WEEK_MS = 7 * 24 * 3600 * 1000
DAY_MS = 24 * 3600 * 1000

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(slots=True, frozen=True)
class LogConfig:
    """Settings of one log. Sizes are bytes, times milliseconds; -1 in a retention setting is no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = WEEK_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = WEEK_MS
    retention_bytes: int = -1
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    max_message_bytes: int = 1_048_588
    cleanup_policy: tuple[str, ...] = ("delete",)
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_after_max_ms: int = MAX_LONG
    preallocate: bool = False
    file_delete_delay_ms: int = 60_000
    compression_type: str = "producer"
    compression_level: int | None = None
    """Of that codec; None is its default."""
    message_format: int = 2
    """The magic that is stored (``message.format.version``)."""
    message_downconversion_enable: bool = True
    producer_id_expiration_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    delete_retention_ms: int = DAY_MS

    # Worked out once: each append asks for them.
    compact: bool = field(init=False, repr=False, compare=False)
    """Whether old records go by key (``cleanup.policy`` names ``compact``)."""
    delete: bool = field(init=False, repr=False, compare=False)
    """Whether old segments go by time or size (``cleanup.policy`` names ``delete``)."""
    max_segment_ms: int = field(init=False, repr=False, compare=False)
    """Age at which a segment is left. What is active is not compacted, so ``max.compaction.lag.ms`` bounds it."""

    def __post_init__(self) -> None:
        compact = "compact" in self.cleanup_policy
        object.__setattr__(self, "compact", compact)
        object.__setattr__(self, "delete", "delete" in self.cleanup_policy)
        longest = min(self.segment_ms, self.max_compaction_lag_ms) if compact else self.segment_ms
        object.__setattr__(self, "max_segment_ms", longest)

    def with_changes(self, **changes: Any) -> LogConfig:
        """A copy with some settings replaced."""
        return replace(self, **changes)
