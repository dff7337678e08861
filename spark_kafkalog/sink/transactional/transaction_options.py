"""Settings of the transactional mode."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalog.client.config import ClientConfig


@dataclass(frozen=True)
class OnceOptions:
    """Settings of the driver; durations in seconds.

    `prefix` is `kafka.transactional.id`. `ledger_topic` lends its name to the offsets that store the ledger. With
    `skip_lost`, transactions that brokers have aborted after the decision are skipped; otherwise they end the query.
    """

    client: ClientConfig = field(repr=False)
    prefix: str
    ledger_topic: str
    transaction_timeout: float
    max_block: float
    skip_lost: bool = False
