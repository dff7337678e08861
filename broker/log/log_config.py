"""The topic settings that a log obeys, as `LogConfig` in Apache Kafka's storage module.

There is one value for each key of Kafka's topic configuration that concerns the log. The names are Kafka's, with `_`
for `.`. `broker.config` parses the keys and knows the defaults of configuration files.

The config of an open log may be replaced, so code reads each setting when it needs it.
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
    """Hold the settings of one log. Sizes are bytes, times milliseconds; -1 in a retention setting is no limit."""

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
    """Level of that codec; None is the codec's default."""
    message_format: int = 2
    """The magic of stored batches (`message.format.version`)."""
    message_downconversion_enable: bool = True
    producer_id_expiration_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    delete_retention_ms: int = DAY_MS
    mirror_source: str = ""
    """The alias of the cluster that the topic mirrors with its offsets (`kafkalog.mirror.source`); empty for none."""
    is_held: bool = False
    """True if neither retention nor compaction removes anything, because the stored configuration cannot be read."""
    is_policy_known: bool = True
    """False if `cleanup_policy` is only a default, because the stored one cannot be read."""

    # Computed once, because each append reads them.
    compact: bool = field(init=False, repr=False, compare=False)
    """True if the log is compacted (`cleanup.policy` contains `compact`)."""
    delete: bool = field(init=False, repr=False, compare=False)
    """True if retention deletes old segments (`cleanup.policy` contains `delete`)."""
    requires_keys: bool = field(init=False, repr=False, compare=False)
    """True if clients' records need a key: compaction removes those without, now or once the policy can be read."""
    max_segment_ms: int = field(init=False, repr=False, compare=False)
    """Age at which a new segment is begun.

    `max.compaction.lag.ms` bounds it, because the active segment is not compacted.
    """

    def __post_init__(self) -> None:
        compact = "compact" in self.cleanup_policy
        object.__setattr__(self, "compact", compact)
        object.__setattr__(self, "delete", "delete" in self.cleanup_policy)
        object.__setattr__(self, "requires_keys", compact or not self.is_policy_known)
        longest = min(self.segment_ms, self.max_compaction_lag_ms) if compact else self.segment_ms
        object.__setattr__(self, "max_segment_ms", longest)

    def with_changes(self, **changes: Any) -> LogConfig:
        """Return a copy with some settings replaced."""
        return replace(self, **changes)
