"""Reports what was loaded, and how far the loads lag behind the brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import UnknownTopicOrPartitionError
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.load.layout import published
from spark_kafkalog.load.layout.file_names import load_name
from spark_kafkalog.load.layout.offsets_document import Offsets
from spark_kafkalog.offsets import topic_mark

Table = Callable[[list[str], list[list[str]]], str]


class Ends(NamedTuple):
    """The present end offsets of a topic's partitions, and the mark of its id (empty if brokers have none)."""

    latest: Mapping[int, int]
    topic_id: str = ""


NO_TOPIC = Ends({})
"""The ends of a topic that brokers do not know."""
SAME, MISSING, RECREATED = "same", "missing", "recreated"
_STATES = {
    MISSING: "the brokers do not know this topic: it was deleted, or never was on them",
    RECREATED: "the brokers have another topic of this name: it was deleted and created again since the last load",
}


@dataclass(frozen=True)
class Status:
    """The loads of a topic; `now` has its current ends, if brokers were asked."""

    topic: str
    loads: tuple[Offsets, ...]
    now: Ends | None

    @property
    def state(self) -> str | None:
        """The topic's state since the load: `SAME`, `MISSING`, `RECREATED`; None if brokers were not asked."""
        if self.now is None:
            return None
        if not self.now.latest:
            return MISSING
        loaded = self.loads[-1].topic_id
        return RECREATED if loaded and self.now.topic_id and loaded != self.now.topic_id else SAME

    @property
    def latest(self) -> Mapping[int, int] | None:
        """Current ends by partition, if they can be compared with the loaded offsets."""
        return self.now.latest if self.now is not None and self.state == SAME else None

    @property
    def ends(self) -> dict[int, int]:
        return self.loads[-1].ends

    def lag(self, partition: int) -> int | None:
        """Return the number of offsets that are not loaded yet; None if unknown."""
        if self.latest is None:
            return None
        return max(self.latest.get(partition, 0) - self.ends.get(partition, 0), 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as a JSON document."""
        partitions = sorted(self.ends.keys() | (self.latest or {}).keys())
        return {
            "topic": self.topic,
            "state": self.state,
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
        """Return the status as text for people."""
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
        state = _STATES.get(self.state or "")
        return (
            f"{self.topic}\n"
            + (f"{state}\n" if state else "")
            + table(["partition", "loaded", "latest", "lag"], partitions)
            + "\n"
            + table(["load", "when", "rows", "files", "MB", "lost"], loads)
        )


def describe(files: Files, root: str, topic: str, now: Ends | None) -> Status:
    """Read the published loads of a topic, which must have some."""
    return Status(topic, tuple(published.history(files, f"{root.rstrip('/')}/{topic}")), now)


def ends(topics: Sequence[str], bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, Ends]:
    """Request where the partitions of each topic end now.

    Raises:
        KafkaError, ClientError: A request to the brokers has failed.
    """
    config = ClientConfig.from_dict({**properties, "bootstrap.servers": bootstrap_servers})
    with Cluster(config) as cluster:
        return {topic: _ends(cluster, topic, config.isolation_level) for topic in topics}


def _ends(cluster: Cluster, topic: str, isolation_level: int) -> Ends:
    try:
        seen = cluster.topic(topic)
        asked = {TopicPartition(topic, number): LATEST for number in seen.partitions}
        found = list_offsets(cluster, asked, isolation_level)
    except UnknownTopicOrPartitionError:
        return NO_TOPIC
    return Ends({tp.partition: each.offset for tp, each in found.items()}, topic_mark(seen.topic_id) or "")
