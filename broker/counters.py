"""Counters of the requests served: plain numbers, incremented on the event loop's thread and read on any."""

from __future__ import annotations

from collections.abc import Iterable


class TopicCounters:
    """Traffic of one topic since the broker started (Kafka's BrokerTopicMetrics).

    Attributes:
        messages_in: records appended.
        bytes_in: bytes of records appended.
        bytes_out: bytes of records sent to consumers.
        bytes_rejected: bytes of records rejected for their size.
        total_produce: appends requested, one for each partition of a produce request.
        failed_produce: appends that failed in a way that a correct client does not expect.
        total_fetch: reads of a partition.
        failed_fetch: reads that failed in a way that a correct client does not expect.
    """

    __slots__ = (
        "bytes_in", "bytes_out", "bytes_rejected", "failed_fetch", "failed_produce", "messages_in", "total_fetch",
        "total_produce",
    )  # fmt: skip

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.total_produce = 0
        self.failed_produce = 0
        self.total_fetch = 0
        self.failed_fetch = 0

    def add(self, other: TopicCounters) -> None:
        """Add the counts of another topic."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RequestCounter:
    """Requests of one API in one version (Kafka's RequestMetrics).

    Attributes:
        api: name of the API as Kafka writes it.
        count: requests answered.
        seconds: the sum of the times from a request's arrival until its response is handed to the connection.
        follower_count: those that followers sent.
        follower_seconds: the sum of their times.
    """

    __slots__ = ("api", "count", "follower_count", "follower_seconds", "seconds", "version")

    def __init__(self, api: str, version: int) -> None:
        self.api = api
        self.version = version
        self.count = 0
        self.seconds = 0.0
        self.follower_count = 0
        self.follower_seconds = 0.0

    def answered(self, seconds: float, *, is_from_follower: bool = False) -> None:
        """Count a request that was answered `seconds` after its arrival."""
        self.count += 1
        self.seconds += seconds
        if is_from_follower:
            self.follower_count += 1
            self.follower_seconds += seconds


class BrokerCounters:
    """All counters of a broker.

    Attributes:
        topics: the counters of topics with partitions on this broker.
        elsewhere: the counters of topics that are deleted or never existed; only part of the broker's totals.
        requests: the counters of every API and version that was requested so far.
        replication_bytes_out: bytes of records sent to followers.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounters] = {}
        self.elsewhere = TopicCounters()
        self.requests: list[RequestCounter] = []
        self.replication_bytes_out = 0

    def topic(self, name: str) -> TopicCounters:
        """Return the counters of a topic with partitions here; create them if needed."""
        counters = self.topics.get(name)
        if counters is None:
            counters = self.topics[name] = TopicCounters()
        return counters

    def known(self, name: str) -> TopicCounters:
        """Return the counters of a topic with partitions here, or the shared counters of all other topics."""
        return self.topics.get(name, self.elsewhere)

    def forget(self, name: str) -> None:
        """Remove the counters of a deleted topic; its traffic stays in the totals."""
        counters = self.topics.pop(name, None)
        if counters is not None:
            self.elsewhere.add(counters)

    def total(self, field: str) -> int:
        """Return the sum of a counter over all topics, including deleted ones."""
        everything: Iterable[TopicCounters] = [*self.topics.values(), self.elsewhere]
        return sum(getattr(counters, field) for counters in everything)
