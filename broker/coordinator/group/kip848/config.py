"""Settings of consumer groups, and whether groups may change their protocol (`group.consumer.*`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class MigrationPolicy(Enum):
    """The groups that may change their protocol while they have members (`group.consumer.migration.policy`)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """The settings in force for a group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = (1 << 31) - 1
    classic_max_size: int = (1 << 31) - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """Names of the assignors that members may choose, the default first."""
    migration_policy: MigrationPolicy = MigrationPolicy.DISABLED
    regex_refresh_ms: int = 10_000
    """The least time between two matchings of a group's regular expressions against changed topics."""

    def with_overrides(self, session_timeout_ms: int | None, heartbeat_interval_ms: int | None) -> ConsumerGroupConfig:
        """Return the settings of a group that overrides some (`consumer.session.timeout.ms`, …)."""
        return replace(
            self,
            session_timeout_ms=self.session_timeout_ms if session_timeout_ms is None else session_timeout_ms,
            heartbeat_interval_ms=(
                self.heartbeat_interval_ms if heartbeat_interval_ms is None else heartbeat_interval_ms
            ),
        )
