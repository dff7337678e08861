"""The growing pauses of a client (KIP-580)."""

from __future__ import annotations

from kafkalog.backoff import Backoff
from kafkalog.client.config import ClientConfig


def client_backoff(config: ClientConfig, *, steady: int = 1) -> Backoff:
    """Make the pauses of a client: from `retry.backoff.ms` to `retry.backoff.max.ms`."""
    return Backoff(config.retry_backoff, config.retry_backoff_max, steady)
