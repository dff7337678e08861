"""Settings of the transactional mode."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalog.client.config import ClientConfig


@dataclass(frozen=True)
class OnceOptions:
    """What the driver has to know; durations in seconds.

    ``prefix`` is ``kafka.transactional.id``; ``ledger_topic`` lends its name to the offsets that the ledger is kept in;
    ``skip_lost`` has transactions that brokers have aborted after the decision left out instead of ending the query.
    """

    client: ClientConfig = field(repr=False)
    prefix: str
    ledger_topic: str
    transaction_timeout: float
    max_block: float
    skip_lost: bool = False
