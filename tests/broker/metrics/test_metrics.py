"""Test that the metrics that Prometheus scrapes match what clients did."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics

from broker.config.definition import ConfigError
from broker.metrics.catalog import CATALOG, Kind
from broker.metrics.document import render
from broker.metrics.endpoint import MOST_SCRAPES, MetricsEndpoint, _Handler, parse_address
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from peers.process import PeerFailedError, free_port
from tests.broker.metrics.support import of, scrape, url
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.requests.quotas import ask, limit
from tests.support.secured.authority import server_file
from tests.support.waiting import wait_until
from tests.support.wire import (
    batch,
    create_topic,
    exchange,
    fetch,
    fetch_request,
    list_offset,
    produce,
    produce_request,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    settings = {
        "kafkalog.metrics.listener": "127.0.0.1:0",
        "auto.create.topics.enable": "false",
        # Logins are counted on such listeners only, and only these have certificates.
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.keystore.location": str(server_file()),
    }
    with KafkalogBroker(tmp_path_factory.mktemp("metrics"), settings) as broker:
        yield broker


@pytest.fixture
def wire(broker: KafkalogBroker) -> Iterator[socket.socket]:
    with broker.connect() as sock:
        yield sock


def test_logs_and_traffic(broker: KafkalogBroker, wire: socket.socket) -> None:
    topic = "traffic"
    traffic = "kafka_server_brokertopicmetrics_"
    before = scrape(broker)
    create_topic(wire, topic, partitions=2, segment_bytes="1000", max_message_bytes="2000")
    sent = [batch([b"x" * 600]), batch([b"y" * 300, b"z" * 300]), batch([b"w"])]
    sizes = [len(each) for each in sent]
    for each in sent:
        assert produce(wire, topic, each).error_code == 0
    assert produce(wire, topic, batch([b"x" * 3000])).error_code == 10
    assert produce(wire, topic, batch([b"x"])[:-1] + b"!").error_code != 0
    read = fetch(wire, topic, {0: 0, 1: 0}, partition_max_bytes=1 << 20)
    assert fetch(wire, topic, {0: 99})[0].error_code == 1
    log = {"topic": topic, "partition": "0"}
    now = scrape(broker)
    assert of(now, "kafka_log_log_size", **log) == sum(sizes)
    assert of(now, "kafka_log_log_logendoffset", **log) == list_offset(wire, topic).offset == 4
    assert of(now, "kafka_log_log_logstartoffset", **log) == 0
    assert of(now, "kafka_log_log_numlogsegments", **log) == len(list(broker.log_dir.glob(f"{topic}-0/*.log"))) == 2
    assert of(now, "kafka_log_log_size", topic=topic, partition="1") == 0
    expected = {
        "messagesin": 4,
        "bytesin": sum(sizes),
        "bytesout": len(read[0].records),
        "bytesrejected": len(batch([b"x" * 3000])),
        "totalproducerequests": 5,
        "failedproducerequests": 0,
        "totalfetchrequests": 3,
        "failedfetchrequests": 0,
    }
    found = {name: of(now, f"{traffic}{name}_total", topic=topic) for name in expected}
    assert found == expected
    for name, value in expected.items():
        assert of(now, f"{traffic}{name}_total") - of(before, f"{traffic}{name}_total") == value
    # Deleted, a topic keeps its part in the totals.
    exchange(wire, DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 1)
    later = scrape(broker)
    assert (f"{traffic}messagesin_total", (("topic", topic),)) not in later
    assert of(later, f"{traffic}messagesin_total") == of(now, f"{traffic}messagesin_total")
    assert ("kafka_log_log_size", tuple(sorted(log.items()))) not in later


def test_requests(broker: KafkalogBroker, wire: socket.socket) -> None:
    name = "kafka_network_requestmetrics_requests_total"
    create_topic(wire, "requests", partitions=1)
    before = scrape(broker)
    for _ in range(5):
        produce(wire, "requests", batch([b"x"]), version=9)
    for _ in range(3):
        fetch(wire, "requests", {0: 0}, version=12)
    now = scrape(broker)
    assert (
        of(now, name, request="Produce", version="9")
        - before.get((name, (("request", "Produce"), ("version", "9"))), 0)
        == 5
    )
    assert (
        of(now, name, request="Fetch", version="12") - before.get((name, (("request", "Fetch"), ("version", "12"))), 0)
        == 3
    )
    for api in ("Produce", "Fetch", "FetchConsumer"):
        assert of(now, "kafka_network_requestmetrics_totaltimems_count", request=api) >= 3
        assert 0 < of(now, "kafka_network_requestmetrics_totaltimems_sum", request=api) < 60_000
    # A fetch that waits is one operation; its time is its waiting.
    wire.sendall(encode_request(fetch_request("requests", {0: 5}, max_wait_ms=20_000), 12, 1, "metrics"))
    while of(scrape(broker), "kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch") != 1:
        pass
    with broker.connect() as other:
        produce(other, "requests", batch([b"x"]))
    assert of(scrape(broker), "kafka_server_socket_server_metrics_connection_count", listener="PLAINTEXT") >= 1


def test_partitions_directories_and_the_process(broker: KafkalogBroker, wire: socket.socket) -> None:
    before = scrape(broker)
    create_topic(wire, "partitions", partitions=7)
    now = scrape(broker)
    for name in ("partitioncount", "leadercount"):
        assert of(now, f"kafka_server_replicamanager_{name}") - of(before, f"kafka_server_replicamanager_{name}") == 7
    for name in ("offlinereplicacount", "underreplicatedpartitions", "underminisrpartitioncount"):
        assert of(now, f"kafka_server_replicamanager_{name}") == 0
    assert of(now, "kafka_log_logmanager_offlinelogdirectorycount") == 0
    assert of(now, "kafka_log_logmanager_logdirectoryoffline", logDirectory=str(broker.log_dir)) == 0
    assert of(now, "process_open_fds") > 7
    assert of(now, "process_resident_memory_bytes") > 1 << 20


def test_flushes_are_counted(broker: KafkalogBroker, wire: socket.socket) -> None:
    name = "kafka_log_logflushstats_logflushrateandtimems"
    create_topic(wire, "flushed", partitions=1, flush_messages="1")
    before = scrape(broker)
    for _ in range(4):
        assert produce(wire, "flushed", batch([b"x"])).error_code == 0
    now = scrape(broker)
    assert of(now, f"{name}_count") - of(before, f"{name}_count") >= 4
    assert of(now, f"{name}_sum") > of(before, f"{name}_sum")


def test_every_metric_is_there_and_no_other(broker: KafkalogBroker, wire: socket.socket) -> None:
    create_topic(wire, "every", partitions=1)
    use_quotas(wire, "every", "every-client")
    names = {name for name, _ in scrape(broker) if not name.startswith("process_")}
    expected = set()
    for metric in CATALOG:
        expected |= {f"{metric.name}_count", f"{metric.name}_sum"} if metric.kind is Kind.SUMMARY else {metric.name}
    assert names == expected
    assert all(metric.name.endswith("_total") == (metric.kind is Kind.COUNTER) for metric in CATALOG)


def use_quotas(wire: socket.socket, topic: str, client_id: str) -> None:
    """Use some of every quota that a client can have."""
    values = {"producer_byte_rate": 1e9, "consumer_byte_rate": 1e9, "request_percentage": 1e6}
    limit(wire, [("client-id", client_id)], **values, controller_mutation_rate=1e6)
    ask(wire, client_id, produce_request(topic, {0: batch([b"x"])}), 9)
    ask(wire, client_id, fetch_request(topic, {0: 0}), 12)
    made = CreatableTopic(name=f"{topic}-more", num_partitions=3, replication_factor=1)
    ask(wire, client_id, CreateTopicsRequest(topics=[made], timeout_ms=30_000), 6)


def test_what_clients_use_of_their_quotas(broker: KafkalogBroker, wire: socket.socket) -> None:
    create_topic(wire, "metered", partitions=1)
    use_quotas(wire, "metered", "metered-client")
    of_client = {"client_id": "metered-client"}
    now = scrape(broker)
    for name in ("produce_byte_rate", "fetch_byte_rate", "request_request_time", "controllermutation_tokens"):
        assert of(now, f"kafka_server_{name}", **of_client) > 0
    assert of(now, "kafka_server_produce_throttle_time_ms_count", **of_client) == 0
    limit(wire, [("client-id", "metered-client")], producer_byte_rate=1)
    with broker.connect() as sock:
        waits_ms = ask(sock, "metered-client", produce_request("metered", {0: batch([b"x"])}), 9).throttle_time_ms
    now = scrape(broker)
    assert of(now, "kafka_server_produce_throttle_time_ms_count", **of_client) == 1
    assert of(now, "kafka_server_produce_throttle_time_ms_sum", **of_client) == waits_ms > 0


def test_a_scrape_may_ask_for_some_metrics_only(broker: KafkalogBroker, wire: socket.socket) -> None:
    create_topic(wire, "some", partitions=1)
    wanted = {
        "kafka_log_log_size",
        "kafka_server_brokertopicmetrics_bytesin_total",
        "kafka_log_logflushstats_logflushrateandtimems_count",
        "process_open_fds",
    }
    found = scrape(broker, "&".join(f"name[]={name}" for name in (*wanted, "unknown")))
    assert {name for name, _ in found} == wanted


def test_open_metrics_for_scrapers_that_ask_for_it(broker: KafkalogBroker) -> None:
    request = urllib.request.Request(
        url(broker), headers={"Accept": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert "openmetrics" in answer.headers["Content-Type"]
        families = {family.name: family for family in parse_open_metrics(answer.read().decode())}
    assert families["kafka_server_brokertopicmetrics_bytesin"].type == "counter"


def test_silent_scrapers_have_so_many_threads_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Handler, "timeout", 0.2)
    server = MetricsEndpoint("127.0.0.1:0", sources=SimpleNamespace())  # type: ignore[arg-type]
    try:
        before = threading.active_count()
        with ExitStack() as stack:
            address = ("127.0.0.1", server.port)
            silent = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(3 * MOST_SCRAPES)]
            for each in silent[MOST_SCRAPES:]:
                assert each.recv(1) == b"", "closed at once"
            assert threading.active_count() <= before + MOST_SCRAPES
            for each in silent[:MOST_SCRAPES]:
                assert each.recv(1) == b"", "closed after a while"
        wait_until(lambda: threading.active_count() == before, "all threads have ended")
        with socket.create_connection(address, 30) as sock:
            sock.sendall(b"GET /metrics?name[]=python_info HTTP/1.0\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.0 200")
    finally:
        server.close()


@pytest.mark.usefixtures("processes")
def test_they_are_not_served_unasked(tmp_path: Path) -> None:
    with KafkalogBroker(tmp_path) as broker:
        assert "metrics are served" not in broker.logged()
        broker.stop()


@pytest.mark.usefixtures("processes")
def test_an_address_in_use_is_told(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        broker = KafkalogBroker(tmp_path, {"kafkalog.metrics.listener": f"127.0.0.1:{port}"})
        with pytest.raises(PeerFailedError):
            broker.start()
    assert f"kafkalog.metrics.listener: cannot serve metrics on 127.0.0.1:{port}" in broker.logged()


@pytest.mark.parametrize("address", ["", "9404", "localhost:", "localhost:http", "localhost:70000", "localhost:-1"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigError, match=r"kafkalog\.metrics\.listener"):
        parse_address(address)


def test_addresses() -> None:
    assert parse_address("127.0.0.1:9404") == ("127.0.0.1", 9404)
    assert parse_address(":0") == ("", 0)
    assert parse_address("[::1]:9404") == ("::1", 9404)


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "reference" / "metrics.md").read_text() == render(), "run: make docs"
