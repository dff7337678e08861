"""The HTTP server that Prometheus scrapes: `GET /metrics`.

Each scrape is collected and rendered on its own thread, from state that the event loop may change meanwhile: numbers
are read one by one, lists and dictionaries are copied in one step. A scrape of 10,000 partitions produces 50,000 lines,
so the thread sleeps briefly after every `SAMPLES_PER_TURN` lines. That gives the interpreter to the loop at once, not
only after the switch interval.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from broker.config.definition import ConfigError
from broker.metrics.catalog import CATALOG, Kind, Metric, Sources

logger = logging.getLogger(__name__)

SAMPLES_PER_TURN = 64
TURN_SECONDS = 50e-6


class MetricsEndpoint:
    """Serve the catalog's metrics, and those of the process, from construction until `close`.

    Args:
        address: host:port; an empty host means every interface, port 0 any free port.
        sources: the objects that the values are read from.

    Raises:
        ConfigError: the address is invalid, or cannot be bound.
    """

    def __init__(self, address: str, sources: Sources) -> None:
        host, port = parse_address(address)
        # The registry asks each collector for its names, by which a scrape may choose: `/metrics?name[]=...`.
        registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=registry)
        registry.register(BrokerCollector(sources))
        self._server: WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(port, host or "0.0.0.0", registry)
        except OSError as error:
            raise ConfigError(
                f"kafkalog.metrics.listener: cannot serve metrics on {address}: {error.strerror or error}. "
                "Name another address or port"
            ) from error
        self.port: int = self._server.server_address[1]
        logger.info("metrics are served on http://%s:%d/metrics", host or "0.0.0.0", self.port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class BrokerCollector(Collector):
    """The catalog as prometheus-client collects it."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self) -> Iterator[Family]:
        """Return families without samples, so that registration does not collect everything to learn the names."""
        return map(_family, CATALOG)

    def collect(self) -> Iterator[Family]:
        """Yield families whose samples are made while they are rendered."""
        for metric in CATALOG:
            family = _family(metric)
            family.samples = _Samples(metric, self._sources)  # type: ignore[assignment]
            yield family


def _family(metric: Metric) -> Family:
    name = metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name
    return Family(name, metric.doc, metric.kind.value)


class _Samples:
    def __init__(self, metric: Metric, sources: Sources) -> None:
        self._metric = metric
        self._sources = sources

    def __iter__(self) -> Iterator[Sample]:
        metric = self._metric
        for count, (values, value) in enumerate(metric.read(self._sources), 1):
            labels = {label: text for label, text in zip(metric.labels, values, strict=True) if text}
            if isinstance(value, tuple):
                yield Sample(f"{metric.name}_count", labels, value[0])
                yield Sample(f"{metric.name}_sum", labels, value[1])
            else:
                yield Sample(metric.name, labels, value)
            if count % SAMPLES_PER_TURN == 0:
                time.sleep(TURN_SECONDS)


def parse_address(address: str) -> tuple[str, int]:
    """Split `host:port` into host and port.

    Raises:
        ConfigError: `address` has another form.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"kafkalog.metrics.listener: {address!r} is not host:port, such as 127.0.0.1:9404")
    return host.strip("[]"), int(port)
