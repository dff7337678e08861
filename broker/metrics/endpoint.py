"""The HTTP server that Prometheus scrapes: `GET /metrics`.

Each scrape is collected and rendered on its own thread, from state that the event loop may change meanwhile: numbers
are read one by one, lists and dictionaries are copied in one step. A scrape of 10,000 partitions produces 50,000 lines,
so the thread sleeps briefly after every `SAMPLES_PER_TURN` lines. That gives the interpreter to the loop at once, not
only after the switch interval.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from broker.config.definition import ConfigError
from broker.metrics.catalog import CATALOG, Kind, Metric, Sources

logger = logging.getLogger(__name__)

SAMPLES_PER_TURN = 64
TURN_SECONDS = 50e-6
MOST_SCRAPES = 16
"""The number of scrapes at the same time. Each has a thread; connections beyond them are closed."""
SILENCE_SECONDS = 30
"""A scraper that neither sends nor takes anything for so long is disconnected."""


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
        try:
            self._server = _Server(host or "0.0.0.0", port)
        except OSError as error:
            raise ConfigError(
                f"kafkalog.metrics.listener: cannot serve metrics on {address}: {error.strerror or error}. "
                "Name another address or port"
            ) from error
        self._server.set_app(make_wsgi_app(registry))
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self.port: int = self._server.server_port
        logger.info("metrics are served on http://%s:%d/metrics", host or "0.0.0.0", self.port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Write no line for each scrape."""


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a thread for each connection, and a bound for them.

    Raises:
        OSError: the address cannot be bound.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        self._room = threading.Semaphore(MOST_SCRAPES)
        super().__init__((str(address[0]), port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            logger.debug("closing connection from %s: %d scrapes are under way", client_address, MOST_SCRAPES)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread could be started.
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the failure of one connection: its scraper was silent for too long, or left."""
        logger.debug("the connection of the scraper %s failed: %r", client_address, sys.exception())


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
