"""The time for which a mirror's transactions may be open, before the target aborts them."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.client.errors import ConfigError
from kafkalog.client.producer.config import ProducerConfig

LEAST_MS = 60_000
"""`transaction.timeout.ms` of a producer unless given."""
MOST_MS = 900_000
"""`transaction.max.timeout.ms` of a broker unless given."""
_TIMES = ("delivery.timeout.ms", "linger.ms", "request.timeout.ms", "transaction.timeout.ms")


def transaction_timeout_ms(interval_ms: int, client: Mapping[str, str]) -> int:
    """Return `transaction.timeout.ms` of producers that commit every `interval_ms`.

    It is the interval and the time of a delivery, as far as brokers allow that by default, unless `client` names it.

    Args:
        interval_ms: `offset.flush.interval.ms`.
        client: The properties of the target's clients.

    Raises:
        ConfigError: A transaction would be aborted before it is committed, or a property cannot have its value.
    """
    given = {key: client[key] for key in _TIMES if key in client}
    config = ProducerConfig.from_dict({"bootstrap.servers": "localhost:1", **given})
    if "transaction.timeout.ms" in given:
        timeout_ms = round(config.transaction_timeout * 1000)
        if timeout_ms <= interval_ms:
            raise ConfigError(
                f"transaction.timeout.ms={timeout_ms} of the target must be longer than "
                f"offset.flush.interval.ms={interval_ms}: transactions would be aborted before they are committed"
            )
        return timeout_ms
    if interval_ms >= MOST_MS:
        raise ConfigError(
            f"offset.flush.interval.ms={interval_ms}: transactions would be open for longer than brokers allow "
            f"(transaction.max.timeout.ms, {MOST_MS} by default). Take less, or set transaction.timeout.ms of the "
            "target where its brokers allow more"
        )
    return min(max(LEAST_MS, interval_ms + round(config.delivery_timeout * 1000)), MOST_MS)
