"""What was loaded, and how far behind the brokers that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition

from . import published
from .document import Offsets
from .files import Files
from .names import load_name

Table = Callable[[list[str], list[list[str]]], str]


@dataclass(frozen=True)
class Status:
    """The loads of a topic; ``latest`` by partition where brokers were asked."""

    topic: str
    loads: tuple[Offsets, ...]
    latest: Mapping[int, int] | None

    @property
    def ends(self) -> dict[int, int]:
        return self.loads[-1].ends

    def lag(self, partition: int) -> int | None:
        """Offsets that are not loaded yet; None where the brokers were not asked."""
        if self.latest is None:
            return None
        return max(self.latest.get(partition, 0) - self.ends.get(partition, 0), 0)

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        partitions = sorted(self.ends.keys() | (self.latest or {}).keys())
        return {
            "topic": self.topic,
            "partitions": [
                {
                    "partition": number,
                    "loaded": self.ends.get(number),
                    "latest": None if self.latest is None else self.latest.get(number),
                    "lag": self.lag(number),
                }
                for number in partitions
            ],
            "loads": [
                {
                    "load": each.load,
                    "path": load_name(each.load),
                    "createdAt": each.created_at,
                    "rows": each.rows,
                    "files": len(each.files),
                    "bytes": each.size,
                    "lost": sum(lost.end - lost.start for lost in each.lost),
                    "restarted": each.restarted,
                }
                for each in self.loads
            ],
        }

    def text(self, table: Table) -> str:
        """For people."""
        document = self.to_dict()
        partitions = [
            ["-" if value is None else f"{value}" for value in each.values()] for each in document["partitions"]
        ]
        loads = [
            [
                str(each["load"]),
                each["createdAt"],
                f"{each['rows']:,}",
                str(each["files"]),
                f"{each['bytes'] / 1e6:,.1f}",
                f"{each['lost']:,}",
            ]
            for each in document["loads"]
        ]
        return (
            f"{self.topic}\n"
            + table(["partition", "loaded", "latest", "lag"], partitions)
            + "\n"
            + table(["load", "when", "rows", "files", "MB", "lost"], loads)
        )


def describe(files: Files, root: str, topic: str, latest: Mapping[int, int] | None) -> Status:
    """The published loads of a topic that has some."""
    return Status(topic, tuple(published.history(files, f"{root.rstrip('/')}/{topic}")), latest)


def lags(
    files: Files, root: str, topics: Sequence[str], bootstrap_servers: str, properties: Mapping[str, str]
) -> dict[str, dict[int, int]]:
    """Where the partitions of each topic end now. Raises what asking the brokers raises."""
    config = ClientConfig.from_dict({**properties, "bootstrap.servers": bootstrap_servers})
    with Cluster(config) as cluster:
        asked = {TopicPartition(topic, number): LATEST for topic in topics for number in cluster.partitions(topic)}
        found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        for tp, each in list_offsets(cluster, asked, config.isolation_level).items():
            found[tp.topic][tp.partition] = each.offset
    return found
