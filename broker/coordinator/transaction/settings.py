"""The coordinator's settings, as values."""

from __future__ import annotations

from dataclasses import dataclass

from broker.config.server import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The settings of the transaction coordinator, in ms; `of` names the keys of the broker's configuration."""

    max_timeout_ms: int = 900_000
    expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> TransactionSettings:
        """Return the settings of `config`."""
        return cls(
            config["transaction.max.timeout.ms"],
            config["transactional.id.expiration.ms"],
            config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            config["transaction.remove.expired.transaction.cleanup.interval.ms"],
        )
