"""Tests of TLS with a server: which certificates are trusted, and the errors for others."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ConfigError, ConnectionFailedError
from kafkalog.client.network import probe
from kafkalog.client.network.connection import Connection
from kafkalog.client.security.tls import TlsContexts
from kafkalog.client.security.tls_options import TlsOptions
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.protocol.messages.produce import ProduceRequest, ProduceResponse
from peers import require
from peers.security.certificates import PASSWORD, Certificates, make_certificates, missing
from tests.kafkalog.client.fetch.answers import answer
from tests.support.scripted import Halted, ScriptedBroker, taken
from tests.support.wire import batch, fetch_request, produce_request

DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def certificates(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    require(missing())
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def server_context(certificates: Certificates, own: Path | None = None, ask: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own or certificates.server)
    if ask:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.authority)
    return context


@pytest.fixture
def server(certificates: Certificates) -> Iterator[ScriptedBroker]:
    with ScriptedBroker(
        {MetadataRequest: lambda request: MetadataResponse(controller_id=5)}, tls=server_context(certificates)
    ) as running:
        yield running


def connect(server: ScriptedBroker, host: str = "127.0.0.1", **properties: Any) -> Connection:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return Connection(host, server.port, ClientConfig.from_dict({"security.protocol": "SSL", **named}), timeout=20)


def controller(connection: Connection) -> int:
    with connection:
        found: int = connection.request(MetadataRequest(topics=[])).controller_id
        return found


@pytest.mark.parametrize("tls", [False, True])
def test_what_has_come_of_a_response_is_kept(certificates: Certificates, tls: bool) -> None:
    """A response is received without waiting for what a server has not sent, and then by either way of receiving."""
    go_on = threading.Event()
    records = bytes(batch([b"x" * 100_000]))
    with ScriptedBroker(
        {FetchRequest: lambda request: Halted(answer(data=records), go_on)},
        tls=server_context(certificates) if tls else None,
    ) as server:
        properties: dict[str, Any] = {
            "security_protocol": "SSL" if tls else "PLAINTEXT",
            "ssl_ca_location": certificates.authority,
        }
        with connect(server, **properties) as connection:
            for waits in (False, True):
                go_on.clear()
                connection.send(fetch_request("t", {0: 0}), max_version=11)
                assert connection.readable(20)
                for _ in range(3):
                    assert connection.receive_now() is None
                    assert connection.in_flight == 1
                go_on.set()
                found = connection.receive(timeout=20) if waits else None
                while found is None:
                    assert connection.readable(20)
                    found = connection.receive_now()
                assert bytes(found.responses[0].partitions[0].records) == records
                assert connection.in_flight == 0
            go_on.clear()
            connection.send(fetch_request("t", {0: 0}), max_version=11)
            assert connection.readable(20)
            assert connection.receive_now() is None
            connection.interrupt()
            # Over TLS newer versions of Python say the latter.
            with pytest.raises(ConnectionFailedError, match=r"in the middle of a response|reset by peer"):
                connection.receive_now()
            assert connection.closed
            go_on.set()


@pytest.mark.parametrize("tls", [False, True])
def test_a_request_is_sent_in_parts(certificates: Certificates, tls: bool) -> None:
    """Without waiting for a server that reads nothing; the rest follows when it does."""
    go_on = threading.Event()
    received: list[bytes] = []

    def late(request: ProduceRequest) -> ProduceResponse:
        assert go_on.wait(DEADLINE_S)
        received.append(bytes(request.topic_data[0].partition_data[0].records or b""))
        return taken(request)

    parts = [batch([b"%d" % n * (8 << 20)]) for n in range(2)]
    properties: dict[str, Any] = {
        "security_protocol": "SSL" if tls else "PLAINTEXT",
        "ssl_ca_location": certificates.authority,
    }
    with (
        ScriptedBroker(
            {ProduceRequest: late}, tls=server_context(certificates) if tls else None, receive_buffer=1 << 16
        ) as server,
        connect(server, **properties) as connection,
    ):
        assert connection.send_now(produce_request("t", {0: batch([b"small"])}))
        assert not connection.send_now(produce_request("t", {0: parts[0]}))
        assert not connection.send_rest()
        with pytest.raises(RuntimeError, match="not sent yet"):
            connection.send_now(produce_request("t", {0: parts[1]}))
        assert connection.receive_now() is None
        go_on.set()
        while not connection.send_rest():
            assert any(select.select([], [connection.fileno()], [], DEADLINE_S))
        connection.receive()
        connection.receive()
        assert connection.in_flight == 0
        connection.request(produce_request("t", {0: parts[1]}))
    assert received[1:] == [bytes(part) for part in parts]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_trusted_broker(server: ScriptedBroker, certificates: Certificates, host: str) -> None:
    assert controller(connect(server, host, ssl_ca_location=certificates.authority)) == 5
    pem = certificates.authority.read_text()
    assert controller(connect(server, host, ssl_truststore_type="PEM", ssl_truststore_certificates=pem)) == 5
    folded = pem.replace("\n", "\\n")
    assert controller(connect(server, host, ssl_truststore_type="PEM", ssl_truststore_certificates=folded)) == 5
    location = certificates.authority
    assert controller(connect(server, host, ssl_truststore_type="PEM", ssl_truststore_location=location)) == 5


def test_a_broker_that_nobody_vouches_for(server: ScriptedBroker, certificates: Certificates) -> None:
    stranger = certificates.stranger
    trusting: list[tuple[dict[str, Any], str]] = [
        ({"ssl_ca_location": stranger}, "ssl.ca.location does not have the certificate"),
        ({"ssl_truststore_location": stranger}, "ssl.truststore.location does not have the certificate"),
        ({"ssl_truststore_certificates": stranger.read_text()}, "ssl.truststore.certificates does not have"),
        ({}, "set ssl.truststore.location or ssl.ca.location"),
    ]
    for properties, says in trusting:
        with pytest.raises(AuthenticationError, match="certificate is not trusted") as caught:
            connect(server, **properties)
        assert says in str(caught.value)


def test_a_certificate_that_is_trusted_itself(server: ScriptedBroker, certificates: Certificates) -> None:
    """As in Java, where no authority need be known."""
    certificate = certificates.server.read_text()
    leaf = certificate[certificate.index("-----BEGIN CERTIFICATE") :]
    assert controller(connect(server, ssl_truststore_certificates=leaf)) == 5


@pytest.mark.parametrize(
    ("name", "says"), [("elsewhere", "ssl.endpoint.identification.algorithm=none"), ("expired", "not valid now")]
)
def test_a_certificate_of_another_host_or_time(certificates: Certificates, name: str, says: str) -> None:
    handlers: dict[Any, Any] = {MetadataRequest: lambda request: MetadataResponse(controller_id=5)}
    with ScriptedBroker(handlers, tls=server_context(certificates, getattr(certificates, name))) as server:
        with pytest.raises(AuthenticationError, match=says):
            connect(server, ssl_ca_location=certificates.authority)
        for off in ("", "none") if name == "elsewhere" else ():
            connection = connect(
                server, ssl_ca_location=certificates.authority, ssl_endpoint_identification_algorithm=off
            )
            assert controller(connection) == 5
        assert controller(connect(server, enable_ssl_certificate_verification=False)) == 5


def test_a_client_with_a_certificate(certificates: Certificates) -> None:
    both = certificates.client.read_text()
    cut = both.index("-----BEGIN CERTIFICATE")
    ways: list[dict[str, Any]] = [
        {"ssl_certificate_location": certificates.client},
        {"ssl_keystore_type": "PEM", "ssl_keystore_location": certificates.client},
        {"ssl_keystore_type": "PEM", "ssl_keystore_key": both[:cut], "ssl_keystore_certificate_chain": both[cut:]},
    ]
    with ScriptedBroker(tls=server_context(certificates, ask=True)) as server:
        server.handlers[MetadataRequest] = lambda request: MetadataResponse(controller_id=5)
        for way in ways:
            connection = connect(server, ssl_ca_location=certificates.authority, ssl_key_password=PASSWORD, **way)
            assert controller(connection) == 5
        with pytest.raises(AuthenticationError, match=r"wants a client's certificate; set ssl\.keystore\.location"):
            controller(connect(server, ssl_ca_location=certificates.authority))
        with pytest.raises(AuthenticationError, match=r"refuses the client's certificate; check ssl\.keystore"):
            controller(
                connect(server, ssl_ca_location=certificates.authority, ssl_certificate_location=certificates.intruder)
            )


def test_versions_and_suites_that_do_not_meet(certificates: Certificates) -> None:
    context = server_context(certificates)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    with ScriptedBroker(tls=context) as server:
        with pytest.raises(AuthenticationError, match=r"ssl\.enabled\.protocols allows"):
            connect(server, ssl_ca_location=certificates.authority, ssl_enabled_protocols="TLSv1.3")
        with pytest.raises(AuthenticationError, match=r"ssl\.cipher\.suites"):
            connect(
                server,
                ssl_ca_location=certificates.authority,
                ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            )
        connect(
            server,
            ssl_ca_location=certificates.authority,
            ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        ).close()


def test_plaintext_to_a_tls_listener(server: ScriptedBroker) -> None:
    with pytest.raises(AuthenticationError, match=r"=PLAINTEXT at .*speaks TLS; set security\.protocol=SSL"):
        Connection("127.0.0.1", server.port, ClientConfig(), timeout=20)


def test_tls_to_a_plaintext_listener(certificates: Certificates, broker_address: str) -> None:
    host, _, port = broker_address.rpartition(":")
    config = ClientConfig.from_dict({"security.protocol": "SSL", "ssl.ca.location": certificates.authority})
    with pytest.raises(AuthenticationError, match=r"=SSL at .*does not speak TLS; set security\.protocol to PLAINTEXT"):
        Connection(host, int(port), config, timeout=20)


def test_a_listener_that_answers_tls_by_an_alert_only_is_not_taken_for_one_of_tls(broker_address: str) -> None:
    host, _, port = broker_address.rpartition(":")
    assert not probe.speaks_tls(host, int(port))
    assert probe.speaks_plaintext(host, int(port))


def test_what_is_no_broker_is_not_asked_for_long(certificates: Certificates) -> None:
    """A listener that ends every connection may be a broker that stops, so that the error is retriable."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ended = threading.Event()

        def end_all() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    listener.accept()[0].close()

        thread = threading.Thread(target=end_all)
        thread.start()
        try:
            for protocol in ("SSL", "PLAINTEXT"):
                config = ClientConfig.from_dict(
                    {"security.protocol": protocol, "ssl.ca.location": certificates.authority}
                )
                with pytest.raises(ConnectionFailedError) as caught:
                    Connection("127.0.0.1", port, config, timeout=20)
                assert caught.value.retriable
        finally:
            ended.set()
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join(20)


def test_large_responses_and_what_tls_holds_back(server: ScriptedBroker, certificates: Certificates) -> None:
    data = bytes(batch([b"x" * 5_000_000]))
    server.handlers[FetchRequest] = lambda request: answer(data=data)
    with connect(server, ssl_ca_location=certificates.authority) as connection:
        for _ in range(3):
            connection.send(fetch_request("t", {0: 0}), max_version=12)
        for _ in range(3):
            assert connection.readable(20)
            assert connection.receive().responses[0].partitions[0].records == data
        assert not connection.readable()


def test_files_that_change(certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """New files are used for new connections; while they cannot be read, what was read before."""
    path = tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match=r"ca\.pem: cannot be read"):
        TlsContexts(TlsOptions(ca_location=str(path)))()
    path.write_text(certificates.authority.read_text())
    contexts = TlsContexts(TlsOptions(ca_location=str(path)))
    first = contexts()
    assert contexts() is first
    path.write_text("half of a certificate")
    assert contexts() is first
    assert contexts() is first
    assert [record.getMessage() for record in caplog.records if "stay in use" in record.getMessage()] != []
    assert len(caplog.records) == 1
    path.write_text(certificates.stranger.read_text())
    second = contexts()
    assert second is not first
    assert second.get_ca_certs() != first.get_ca_certs()
