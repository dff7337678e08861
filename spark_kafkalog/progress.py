"""The lag of streaming queries behind the brokers: the metrics that Spark's Kafka source has in a query's progress.

PySpark passes no metrics of a Python source on (`sources[].metrics` stays empty), but a progress has the offsets: those
that the last batch has read (`endOffset`), and the brokers' at its planning (`latestOffset`). `watch` adds a listener
that computes the metrics of every progress, logs them, and keeps the last ones:

    from spark_kafkalog import progress

    watched = progress.watch(spark)
    ...
    watched.last(query)[0].metrics()  # {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "7", …}

The descriptions of Python sources in a progress name a Java object; here a source is known by its topics.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafkalog.client.types import TopicPartition
from spark_kafkalog import offsets

logger = logging.getLogger(__name__)

MOST_QUERIES = 256
"""Queries whose last metrics are kept, those that have ended included."""


@dataclass(frozen=True)
class BehindLatest:
    """The offsets that one source of a query was behind the brokers after a batch. Offsets are not records."""

    query: str
    """The query's name, or its id if it has none."""
    batch: int
    source: int
    """The position among the query's sources."""
    partitions: Mapping[TopicPartition, int]
    """The offsets behind the latest, by partition; at least one."""

    @property
    def topics(self) -> list[str]:
        return sorted({tp.topic for tp in self.partitions})

    @property
    def least(self) -> int:
        return min(self.partitions.values())

    @property
    def most(self) -> int:
        return max(self.partitions.values())

    @property
    def average(self) -> float:
        return self.total / len(self.partitions)

    @property
    def total(self) -> int:
        return sum(self.partitions.values())

    def metrics(self) -> dict[str, str]:
        """Return the metrics under the names, and as the texts, that Spark's Kafka source gives them."""
        return {
            "minOffsetsBehindLatest": str(self.least),
            "maxOffsetsBehindLatest": str(self.most),
            "avgOffsetsBehindLatest": str(self.average),
        }

    def __str__(self) -> str:
        topics, count = ", ".join(self.topics), len(self.partitions)
        return (
            f"query {self.query}, batch {self.batch}: {self.total} offsets behind the latest of {topics} "
            f"(minimum {self.least}, average {self.average:.1f}, maximum {self.most} in {count} partitions)"
        )


Report = Callable[[BehindLatest], None]
"""Called for each kafkalog source of each progress."""


def behind_latest(progress: Any) -> list[BehindLatest]:
    """Compute the metrics of the kafkalog sources of a progress, such as `query.lastProgress`.

    Sources of other formats, and sources that have not read yet, are left out.
    """
    if progress is None:
        return []
    query = str(progress["name"] or progress["id"])
    found = []
    for number, source in enumerate(progress["sources"]):
        end, latest = _position(source["endOffset"]), _position(source["latestOffset"])
        behind = {tp: offset - end[tp] for tp, offset in latest.items() if tp in end}
        if behind:
            found.append(BehindLatest(query, int(progress["batchId"]), number, behind))
    return found


def _position(document: Any) -> Mapping[TopicPartition, int]:
    """Return the offsets in an offset document, or in its text; none if it is of another format."""
    try:
        parsed = json.loads(document) if isinstance(document, str) else document
        return offsets.from_json(parsed) if isinstance(parsed, Mapping) else {}
    except ValueError:
        return {}


def log(behind: BehindLatest) -> None:
    """Log the metrics at the level INFO."""
    logger.info("%s", behind)


class Watch(StreamingQueryListener):
    """Listens to the progress of all queries of a session. `watch` makes one."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._last: OrderedDict[str, list[BehindLatest]] = OrderedDict()

    def last(self, query: Any) -> list[BehindLatest]:
        """Return the last metrics of a query, one for each of its kafkalog sources; none before its first progress.

        Args:
            query: A `StreamingQuery`, or its id.
        """
        with self._lock:
            return list(self._last.get(str(getattr(query, "id", query)), ()))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        found = behind_latest(progress)
        if not found:
            return
        with self._lock:
            self._last[str(progress.id)] = found
            self._last.move_to_end(str(progress.id))
            while len(self._last) > MOST_QUERIES:
                self._last.popitem(last=False)
        for each in found:
            self._report(each)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def watch(spark: Any, report: Report = log) -> Watch:
    """Add a listener to a session, a classic one or one of Spark Connect.

    Args:
        spark: The session.
        report: Called with the metrics of each source of each progress, on the listener's thread.

    Returns:
        The listener. `spark.streams.removeListener` removes it.
    """
    made = Watch(report)
    spark.streams.addListener(made)
    return made
