"""A mirror's metrics in Prometheus' format, at `GET /metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kafkalog.client.closing import Closing
from kafkalog.client.config import addresses
from kafkalog.client.errors import ConfigError
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import PartitionProgress, Progress

_PARTITION = ("topic", "partition")
_GROUP = ("group", *_PARTITION)
_COUNTERS = {
    "records": "Records that were sent to the target, of transactions that are not committed, too.",
    "bytes": "Bytes of record batches that were sent, compressed as they are.",
    "decoded": "Record batches that had to be written anew.",
}
_GAUGES = {
    "next_offset": "The next offset of the source to mirror, as committed in the target.",
    "end": "The last stable offset of the source when it was last fetched.",
    "lag": "Offsets of the source that are not in the target yet.",
    "held": "1 while the partition waits at a batch that cannot be read, or that the target refuses; 0 otherwise.",
    "committed_at": "When a transaction with the partition was last committed, in seconds since 1970; 0 for never.",
}


class MirrorCollector(Collector):
    """The metrics of the partitions that a process has; topics are named as in the source."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registration does not collect everything to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield one family for each metric."""
        partitions = self._progress.partitions()
        restarts = CounterMetricFamily("kafkalog_mirror_restarts", "How often a worker had to begin again.")
        restarts.add_metric((), self._progress.restarts)
        yield restarts
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"kafkalog_mirror_{name}", text, labels=_PARTITION)
            for tp, each in partitions.items():
                counter.add_metric((tp.topic, str(tp.partition)), getattr(each, name))
            yield counter
        for name, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"kafkalog_mirror_{name}", text, labels=_PARTITION)
            for tp, each in partitions.items():
                if (value := getattr(each, name)) is not None:
                    gauge.add_metric((tp.topic, str(tp.partition)), value)
            yield gauge
        yield from self._groups(partitions)

    def _groups(self, partitions: Mapping[TopicPartition, PartitionProgress]) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "kafkalog_mirror_group_lag", "Offsets of the source that a group has not read there.", labels=_GROUP
        )
        translated = GaugeMetricFamily(
            "kafkalog_mirror_group_translated_offset", "A group's position, translated to the target.", labels=_GROUP
        )
        for (group, tp), (upstream, downstream) in self._progress.groups().items():
            labels = (group, tp.topic, str(tp.partition))
            if downstream is not None:
                translated.add_metric(labels, downstream)
            if tp in partitions and partitions[tp].end >= 0:
                lag.add_metric(labels, max(partitions[tp].end - upstream, 0))
        yield lag
        yield translated


class MetricsEndpoint(Closing):
    """Serve the metrics from construction until `close`.

    Args:
        address: host:port to listen on; port 0 is any free port.
        progress: What the metrics are read from.

    Attributes:
        port: The port that it listens on.

    Raises:
        ConfigError: The address is invalid, or cannot be bound.
    """

    def __init__(self, address: str, progress: Progress) -> None:
        host, _, port = address.rpartition(":")
        if port != "0" or not host:
            addresses(address)
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(MirrorCollector(progress))
        try:
            self._server, self._thread = start_http_server(int(port), host.strip("[]"), registry)
        except OSError as error:
            raise ConfigError(f"metrics cannot be served on {address}: {error.strerror or error}") from error
        self.port: int = self._server.server_address[1]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
