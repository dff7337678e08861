"""The bound up to which a fetch may read."""

from __future__ import annotations

from enum import IntEnum


class FetchIsolation(IntEnum):
    """The bound up to which a fetch may read.

    The first two are the protocol's isolation levels read_uncommitted, read_committed.
    """

    HIGH_WATERMARK = 0
    LAST_STABLE_OFFSET = 1
    LOG_END = 2

    @classmethod
    def of(cls, replica_id: int, isolation_level: int) -> FetchIsolation:
        """Return the bound for a follower, which sends its broker id, or a consumer, whose replica id is negative."""
        if replica_id >= 0 or replica_id == FUTURE_REPLICA:
            return cls.LOG_END
        return cls.LAST_STABLE_OFFSET if isolation_level else cls.HIGH_WATERMARK


FUTURE_REPLICA = -3
"""The replica id with which Apache Kafka copies a log into another of its own log directories."""
