"""Topics of a data directory of Apache Kafka, and what it served of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from peers.clients.base import Record
from peers.clients.confluent import ConfluentClient
from tests.foreign.records import KEEP

SEGMENTS = {"segment.bytes": "65536", "index.interval.bytes": "1024", **KEEP}

TINY_SEGMENTS = {"segment.bytes": "1500", **KEEP}

PLAIN, TINY, TRANSACTIONS, COMPACT = "plain", "tiny-segments", "transactions", "compacted"


@dataclass
class Topic:
    """The offsets and records of partition 0 of a topic, as Apache Kafka served them."""

    end: int
    records: list[Record]
    committed: list[Record]
    times: dict[int, int] = field(default_factory=dict)


def ends_at(client: ConfluentClient, offset: int) -> bool:
    return client.list_offset(TRANSACTIONS, 0, "latest")[0] == offset


def first_at(records: list[Record], at: int) -> int:
    """Offset of the first record that is not older than `at`, or -1."""
    return next((record.offset for record in records if (record.timestamp or 0) >= at), -1)
