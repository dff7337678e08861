"""Comparison of both sides of a mirror that keeps offsets."""

from __future__ import annotations

from kafkalog.client.types import (
    ConsumerRecord,
)
from kafkalog.mirror.keeping.errors import KeepingError
from tests.kafkalog.mirror.conftest import (
    Clusters,
    Mirror,
    contents,
    read_all,
)
from tests.support.waiting import wait_until

KEEP = {"replication_offsets": "keep"}


def located(found: dict[int, list[ConsumerRecord]]) -> dict[int, list[tuple[object, ...]]]:
    """Return offset, time of records and what a mirror keeps of them, by partition."""
    return {
        number: [
            (each.offset, each.timestamp_type, *content)
            for each, content in zip(records, contents(records), strict=True)
        ]
        for number, records in found.items()
    }


def same(clusters: Clusters, topic: str, remote: str, count: int) -> None:
    """Check that both sides have the same committed records at the same offsets."""
    assert located(read_all(clusters.target, remote, count)) == located(read_all(clusters.source, topic, count))


def fails(mirror: Mirror) -> str:
    """Wait until a mirror ends; return the message of its error, which must be one of keeping."""
    wait_until(lambda: not mirror.running, "the mirror ends")
    failure = mirror.stop()
    assert isinstance(failure, KeepingError), failure
    return str(failure)
