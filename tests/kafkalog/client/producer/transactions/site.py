"""A topic of three partitions for a test's transactions, and what consumers see of it."""

from __future__ import annotations

import time
import uuid
from typing import Any

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.offsets import list_offsets
from kafkalog.client.producer import Producer
from kafkalog.client.types import LATEST, TopicPartition
from tests.support.waiting import wait_until

DEADLINE_S = 240.0


class Site:
    """A topic of three partitions on a broker, and a transactional id."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"txn-{uuid.uuid4().hex[:12]}"
        self.id = f"id-{self.topic}"
        with Admin(self.config()) as admin:
            admin.create_topics([NewTopic(self.topic, 3, 1)])

    def config(self, **properties: Any) -> ClientConfig:
        return ClientConfig.from_dict({"bootstrap.servers": self.bootstrap, **named(properties)})

    def producer(self, **properties: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.id, **named(properties)})

    def ends(self, isolation: str) -> dict[TopicPartition, int]:
        """Return the end offsets for consumers of this isolation level."""
        config = self.config(isolation_level=isolation)
        tps = [TopicPartition(self.topic, number) for number in range(3)]
        with Cluster(config) as cluster:
            found = list_offsets(cluster, dict.fromkeys(tps, LATEST), isolation_level=config.isolation_level)
            return {tp: each.offset for tp, each in found.items()}

    def stable(self) -> bool:
        """Tell whether every transaction has ended: read_committed consumers read as far as others."""
        return self.ends("read_committed") == self.ends("read_uncommitted")

    def read(self, isolation: str = "read_committed") -> list[bytes | None]:
        """Return the values that a consumer sees after all transactions have ended."""
        wait_until(self.stable, "every transaction has ended", DEADLINE_S)
        ends = self.ends(isolation)
        found: list[bytes | None] = []
        with SimpleConsumer(self.config(isolation_level=isolation, auto_offset_reset="earliest")) as consumer:
            consumer.assign(ends)
            end = time.monotonic() + DEADLINE_S
            while any(consumer.position(tp) < ends[tp] for tp in ends):
                assert time.monotonic() < end
                found += [record.value for record in consumer.poll(0.5)]
        return found


def named(properties: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in properties.items()}
