"""Poll a consumer until all records are there."""

from __future__ import annotations

import time

from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.types import ConsumerRecord

DEADLINE_S = 240.0


def drain(consumer: SimpleConsumer, count: int) -> list[ConsumerRecord]:
    """Poll until `count` records are there."""
    found: list[ConsumerRecord] = []
    end = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < end, f"only {len(found)} of {count} records came"
        found += consumer.poll(1.0)
    return found
