"""Tests of one connection: with a real broker, and with servers that lie."""

from __future__ import annotations

import gc
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import (
    AuthenticationError,
    ClientTimeoutError,
    ConnectionFailedError,
    InvalidResponseError,
    is_retriable,
)
from kafkalog.client.network.connection import Connection
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.sasl import Plain
from tests.support.scripted import Handler, ScriptedBroker, api_versions, frame
from tests.support.secured.sessions import Sessions, ask, make_due
from tests.support.waiting import wait_until
from tests.support.wire import batch, fetch_request, produce_request

CONFIG = ClientConfig.from_dict({"receive.message.max.bytes": 1 << 20, "fetch.max.bytes": 1 << 20})
SASL = ClientConfig.from_dict(
    {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice", "sasl.password": "secret"}
)


@pytest.fixture
def connection(broker_address: str) -> Iterator[Connection]:
    host, _, port = broker_address.rpartition(":")
    with Connection(host, int(port), ClientConfig()) as opened:
        yield opened


def connect(server: ScriptedBroker, config: ClientConfig = CONFIG) -> Connection:
    return Connection("127.0.0.1", server.port, config)


def fill(connection: Connection, topic: str, count: int, size: int) -> None:
    for number in range(count):
        answer = connection.request(produce_request(topic, {0: batch([bytes([number]) * size])}))
        assert answer.responses[0].partition_responses[0].error_code == 0


# A broker that is well


def test_the_newest_common_version_is_spoken(connection: Connection) -> None:
    assert connection.version_of(MetadataRequest) == MetadataRequest.max_version
    assert connection.version_of(FetchRequest, 12) == 12
    assert isinstance(connection.request(MetadataRequest(topics=[])), MetadataResponse)
    with pytest.raises(UnsupportedVersionError, match="FETCH"):
        connection.version_of(FetchRequest, 5, min_version=6)


def test_responses_come_in_the_order_of_their_requests(connection: Connection, new_topic: Callable[..., str]) -> None:
    topics = [new_topic(partitions) for partitions in (1, 2, 3)]
    for topic in topics:
        connection.send(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    assert connection.in_flight == 3
    with pytest.raises(RuntimeError, match="3 requests in flight"):
        connection.request(MetadataRequest(topics=[]))
    described = [connection.receive().topics[0] for _ in topics]
    assert [(topic.name, len(topic.partitions)) for topic in described] == [
        (topic, count) for count, topic in enumerate(topics, 1)
    ]
    assert connection.in_flight == 0
    with pytest.raises(RuntimeError, match="nothing in flight"):
        connection.receive()


def test_a_request_without_an_answer_leaves_nothing_in_flight(
    connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    connection.send(produce_request(topic, {0: batch([b"unanswered"])}, acks=0), answered=False)
    assert connection.in_flight == 0
    fill(connection, topic, 1, 10)
    data = fetch_data(connection, topic)
    assert b"unanswered" in bytes(data.records)


def fetch_data(connection: Connection, topic: str, offset: int = 0, **fields: Any) -> Any:
    answer = connection.request(fetch_request(topic, {0: offset}, **fields), max_version=12)
    return answer.responses[0].partitions[0]


def test_large_requests_go_out_in_pieces_and_come_back_whole(
    connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes="30000000")
    records = batch([bytes(range(256)) * 80_000])
    assert connection.request(produce_request(topic, {0: records})).responses[0].partition_responses[0].error_code == 0
    assert bytes(fetch_data(connection, topic).records)[17:] == bytes(records)[17:]


def test_records_stay_while_somebody_looks_at_them(connection: Connection, new_topic: Callable[..., str]) -> None:
    """The buffer of a large response is used again, but never under a reader."""
    topic = new_topic()
    fill(connection, topic, 12, 200_000)
    limits = {"max_bytes": 1, "partition_max_bytes": 1}
    held = [fetch_data(connection, topic, offset, **limits).records for offset in range(6)]
    slices = [records[100:200] for records in held]
    copies = [bytes(records) for records in held]
    del held
    for _ in range(2):
        for offset in range(6, 12):
            fetch_data(connection, topic, offset, **limits)
    assert [bytes(piece) for piece in slices] == [copy[100:200] for copy in copies]


def test_the_buffer_of_a_large_response_is_used_again(connection: Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    fill(connection, topic, 1, 500_000)
    seen = set()
    for _ in range(20):
        records = fetch_data(connection, topic).records
        seen.add(id(records.obj))
        del records
        gc.collect()
    assert len(seen) <= 2


def test_a_closed_connection_says_so(connection: Connection) -> None:
    connection.close()
    connection.close()
    with pytest.raises(ConnectionFailedError, match="closed"):
        connection.request(MetadataRequest(topics=[]))


# No broker, or one that is not well


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionFailedError, match=rf"127\.0\.0\.1:{port}.*refused"):
        Connection("127.0.0.1", port, CONFIG)


def test_a_name_that_is_none() -> None:
    with pytest.raises(ConnectionFailedError, match="no-such-host"):
        Connection("no-such-host.invalid", 9092, CONFIG)
    for name in ("a..b", "a" * 64):
        with pytest.raises(ConnectionFailedError, match=f"{name}:9092: this is no name of a host"):
            Connection(name, 9092, CONFIG)


def test_a_server_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ClientTimeoutError, match="API_VERSIONS in time"):
            Connection("127.0.0.1", port, CONFIG, timeout=0.2)


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (struct.pack(">i", 0x7FFFFFFF), InvalidResponseError, "2147483647 bytes.*receive.message.max.bytes"),
        (struct.pack(">i", -5), InvalidResponseError, "-5 bytes"),
        (struct.pack(">i", 3), InvalidResponseError, "3 bytes"),
        (b"\x15\x03\x03\x00\x02\x02\x46", InvalidResponseError, "TLS.*security.protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", InvalidResponseError, "HTTP"),
        (struct.pack(">i", 100) + bytes(50), ConnectionFailedError, "in the middle of a response"),
        (b"\x00\x00", ConnectionFailedError, "in the middle of a response"),
        (None, ConnectionFailedError, "instead of answering"),
        (frame(struct.pack(">i", 1) + b"\0" * 3), InvalidResponseError, "bytes that do not parse"),
        (
            frame(struct.pack(">i", 1) + bytes(5) + b"\xff" * 400),
            InvalidResponseError,
            "bytes that do not parse",
        ),
        (frame(struct.pack(">i", 77) + bytes(100)), InvalidResponseError, "answered request 77, where 1 was next"),
    ],
)
def test_a_bad_answer_closes_the_connection(answer: bytes | None, error: type[Exception], match: str) -> None:
    with ScriptedBroker({MetadataRequest: lambda request: answer}) as server, connect(server) as connection:
        with pytest.raises(error, match=match) as caught:
            connection.request(MetadataRequest(topics=[]), timeout=20)
        assert connection.closed
        assert is_retriable(caught.value) == (error is ConnectionFailedError)


def test_memory_is_not_taken_for_an_absurd_length() -> None:
    lengths = iter([CONFIG.max_response_bytes, CONFIG.max_response_bytes + 1])
    with ScriptedBroker({MetadataRequest: lambda request: struct.pack(">i", next(lengths))}) as server:
        with connect(server) as connection, pytest.raises(ConnectionFailedError, match="middle"):
            connection.request(MetadataRequest(topics=[]))
        with connect(server) as connection, pytest.raises(InvalidResponseError, match="at most"):
            connection.request(MetadataRequest(topics=[]))


def test_answers_with_other_correlation_ids_are_refused() -> None:
    server = ScriptedBroker({MetadataRequest: lambda request: MetadataResponse()}, shift_ids=1)
    with server, connect(server) as connection, pytest.raises(InvalidResponseError, match="where 1 was next"):
        connection.request(MetadataRequest(topics=[]))


def test_a_response_that_comes_too_late_closes_the_connection() -> None:
    asked_to_go_on = threading.Event()

    def late(request: MetadataRequest) -> MetadataResponse:
        asked_to_go_on.wait(20)
        return MetadataResponse()

    with ScriptedBroker({MetadataRequest: late}) as server, connect(server) as connection:
        with pytest.raises(ClientTimeoutError, match="METADATA in time"):
            connection.request(MetadataRequest(topics=[]), timeout=0.1)
        assert connection.closed
        asked_to_go_on.set()


# Versions


def test_an_old_broker_names_the_version_it_knows() -> None:
    """KIP-511: UNSUPPORTED_VERSION in version 0, with the range of ApiVersions itself."""
    asked = []

    def answer(request: ApiVersionsRequest) -> ApiVersionsResponse:
        asked.append(request.client_software_name)
        if len(asked) == 1:
            return ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=3)])
        return api_versions(METADATA=9)

    with ScriptedBroker({ApiVersionsRequest: answer}) as server, connect(server) as connection:
        assert asked == ["kafkalog", "kafkalog"]
        assert connection.version_of(MetadataRequest) == 9


def test_a_broker_from_before_kip_511_gets_version_0() -> None:
    asked = []

    def answer(request: ApiVersionsRequest) -> ApiVersionsResponse:
        asked.append(request.client_software_name)
        return ApiVersionsResponse(error_code=35) if len(asked) == 1 else api_versions(METADATA=1)

    with ScriptedBroker({ApiVersionsRequest: answer}) as server, connect(server) as connection:
        assert asked == ["kafkalog", ""]
        assert connection.version_of(MetadataRequest) == 1


def test_an_api_that_the_broker_lacks_is_named() -> None:
    with ScriptedBroker() as server, connect(server) as connection:
        with pytest.raises(UnsupportedVersionError, match=r"DELETE_GROUPS; .* since 1\.1"):
            connection.request(DeleteGroupsRequest(groups_names=["g"]))
        with pytest.raises(UnsupportedVersionError, match="PRODUCE"):
            connection.send(ProduceRequest())
        assert not connection.closed


def test_a_broker_that_is_too_new_is_refused() -> None:
    future = ApiVersionsResponse(api_keys=[ApiVersion(api_key=2, min_version=50, max_version=60)])
    server = ScriptedBroker({ApiVersionsRequest: lambda request: future})
    with (
        server,
        connect(server) as connection,
        pytest.raises(UnsupportedVersionError, match="from version 50 on"),
    ):
        connection.version_of(ListOffsetsRequest)


# SASL


def test_a_mechanism_that_is_not_offered() -> None:
    refusal = SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI", "OAUTHBEARER"])
    server = ScriptedBroker({SaslHandshakeRequest: lambda request: refusal})
    with server, pytest.raises(AuthenticationError, match=r"sasl\.mechanism=PLAIN; it offers: GSSAPI, OAUTHBEARER"):
        connect(server, SASL)


def test_a_password_that_is_wrong() -> None:
    handlers: dict[type[Request], Handler] = {
        SaslHandshakeRequest: lambda request: SaslHandshakeResponse(mechanisms=["PLAIN"]),
        SaslAuthenticateRequest: lambda request: SaslAuthenticateResponse(
            error_code=58, error_message="Invalid username or password"
        ),
    }
    with ScriptedBroker(handlers) as server:
        with pytest.raises(AuthenticationError, match=r"refuses user 'alice'.*Invalid.*sasl\.password") as caught:
            connect(server, SASL)
        assert not is_retriable(caught.value)
        assert "secret" not in str(caught.value)


def test_a_session_is_renewed_before_it_ends() -> None:
    with Sessions(3_600_000, 1, 0) as server:
        connections = [connect(server, SASL) for _ in range(3)]
        try:
            long, short, endless = connections
            wait_until(lambda: short.authentication_due, "the session of a millisecond is about to end")
            assert [each.authentication_due for each in (long, endless)] == [False, False]
            session = long._authentication
            assert session._reauthenticate_at - session._authenticated_at == pytest.approx(3600 * 0.9, rel=0.06)
            assert short.request(ask("a")).cluster_id == "a"
            assert not short.authentication_due
        finally:
            for each in connections:
                each.close()
    assert server.order == ["handshake", "authenticate"] * 4 + ["a"]
    assert server.connections == 3


def test_requests_in_flight_are_answered_in_order_when_a_session_is_renewed() -> None:
    with Sessions(3_600_000) as server, connect(server, SASL) as connection:
        connection.send(ask("a"))
        connection.send(ask("b"))
        make_due(connection)
        connection.send(ask("c"))
        assert connection.in_flight == 3
        assert connection.readable()
        assert [connection.receive().cluster_id for _ in range(2)] == ["a", "b"]
        wait_until(connection.readable, "the last response is there")
        assert connection.receive().cluster_id == "c"
        assert connection.in_flight == 0
    assert server.order == ["handshake", "authenticate", "a", "b", "handshake", "authenticate", "c"]


def test_who_must_not_wait_renews_a_session_only_when_nothing_is_in_flight() -> None:
    with Sessions(3_600_000) as server, connect(server, SASL) as connection:
        assert connection.send_now(ask("a"), patience=60)
        make_due(connection)
        assert connection.send_now(ask("b"), patience=60)
        assert [connection.receive().cluster_id for _ in range(2)] == ["a", "b"]
        assert connection.authentication_due
        assert connection.send_now(ask("c"), patience=60)
        assert connection.receive().cluster_id == "c"
    assert server.order == ["handshake", "authenticate", "a", "b", "handshake", "authenticate", "c"]


def test_a_renewal_that_the_broker_refuses() -> None:
    with Sessions(3_600_000) as server, connect(server, SASL) as connection:
        server.handlers[SaslAuthenticateRequest] = lambda request: SaslAuthenticateResponse(
            error_code=58, error_message="Cannot change principals"
        )
        make_due(connection)
        with pytest.raises(AuthenticationError, match="Cannot change principals"):
            connection.request(ask("a"))
        assert connection.closed
    with Sessions(3_600_000) as server, connect(server, SASL) as connection:
        server.refusal = SaslHandshakeResponse(error_code=34)
        make_due(connection)
        with pytest.raises(ConnectionFailedError, match="authenticate again") as caught:
            connection.request(ask("a"))
        assert is_retriable(caught.value), "a new connection may be authenticated"
        assert connection.closed


def test_a_renewal_without_credentials_is_put_off_while_the_session_lasts() -> None:
    down: list[Exception] = []

    def mechanism(host: str, deadline: float) -> Plain:
        if down:
            raise down[0]
        return Plain("alice", "secret")

    with Sessions(3_600_000) as server:
        connection = Connection("127.0.0.1", server.port, SASL, mechanisms=mechanism)
        down.append(ConnectionFailedError("the token endpoint is down"))
        make_due(connection)
        assert connection.request(ask("a")).cluster_id == "a"
        make_due(connection, ended=True)
        with pytest.raises(ConnectionFailedError, match="the token endpoint is down"):
            connection.request(ask("b"))
        assert connection.closed
    assert server.order == ["handshake", "authenticate", "a"]
