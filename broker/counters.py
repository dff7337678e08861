"""What is counted as requests are served: plain numbers, added to on the event loop's thread, read on any."""

from __future__ import annotations

from collections.abc import Iterable


class TopicCounters:
    """Traffic of one topic since the broker started (Kafka's BrokerTopicMetrics).

    Attributes:
        messages_in: records appended.
        bytes_in: bytes of records appended.
        bytes_out: bytes of records sent to consumers.
        bytes_rejected: bytes of records refused for their size.
        total_produce: appends asked for, one for each partition of a produce request.
        failed_produce: of these, those that failed in a way that a correct client does not expect.
        total_fetch: reads of a partition.
        failed_fetch: of these, those that failed in a way that a correct client does not expect.
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
        """Take over what another has counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RequestCounter:
    """Requests of one API in one version (Kafka's RequestMetrics).

    Attributes:
        api: name of the API as Kafka writes it.
        count: requests answered.
        seconds: time from a request's arrival to its answer's hand-over to the connection, summed.
    """

    __slots__ = ("api", "count", "seconds", "version")

    def __init__(self, api: str, version: int) -> None:
        self.api = api
        self.version = version
        self.count = 0
        self.seconds = 0.0

    def answered(self, seconds: float) -> None:
        """A request was answered, so many seconds after it had come."""
        self.count += 1
        self.seconds += seconds


class BrokerCounters:
    """All of them.

    Attributes:
        topics: of the topics that are here.
        elsewhere: of topics that are gone or never were; in the broker's totals only.
        requests: by API and version, those that were ever asked for.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounters] = {}
        self.elsewhere = TopicCounters()
        self.requests: list[RequestCounter] = []

    def topic(self, name: str) -> TopicCounters:
        """The counters of a topic that is here, made if there are none."""
        counters = self.topics.get(name)
        if counters is None:
            counters = self.topics[name] = TopicCounters()
        return counters

    def known(self, name: str) -> TopicCounters:
        """The counters of a topic that is here, or those of all that are not."""
        return self.topics.get(name, self.elsewhere)

    def forget(self, name: str) -> None:
        """A topic was deleted: its traffic stays in the totals."""
        counters = self.topics.pop(name, None)
        if counters is not None:
            self.elsewhere.add(counters)

    def total(self, field: str) -> int:
        """A counter summed over every topic there ever was."""
        everything: Iterable[TopicCounters] = [*self.topics.values(), self.elsewhere]
        return sum(getattr(counters, field) for counters in everything)
