"""Test the clients that people have with a broker that asks for SASL: right logins, wrong ones, and none."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kafkalog.client.admin import Admin
from kafkalog.client.errors import AuthenticationError
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from peers import require
from peers.kcat import missing, run_kcat
from tests.support.secured.sasl_broker import MECHANISMS, PASSWORDS, SaslBroker
from tests.support.secured.uses import produce, read_as_member
from tests.support.wire import exchange, is_closed, receive_frame

pytestmark = [pytest.mark.timeout(300)]

WRONG = [("alice", "guessed"), ("nobody", "a-secret")]


def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


# -- our own clients


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "bob"])
def test_our_own_clients(sasl_broker: SaslBroker, mechanism: str, user: str) -> None:
    config, topic = sasl_broker.properties(mechanism, user), name()
    assert produce(config, topic) == 0
    assert read_as_member(config, topic) == [b"x"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), WRONG)
def test_our_own_clients_are_refused(sasl_broker: SaslBroker, mechanism: str, user: str, password: str) -> None:
    with pytest.raises(AuthenticationError, match=r"check sasl\.username") as caught:
        Admin(sasl_broker.properties(mechanism, user, password)).list_topics()
    assert "guessed" not in str(caught.value)
    assert "guessed" not in sasl_broker.logged()


def test_a_mechanism_that_is_not_offered(sasl_broker: SaslBroker) -> None:
    config = sasl_broker.properties("OAUTHBEARER") | {"sasl.oauthbearer.token": "x"}
    with pytest.raises(AuthenticationError, match="PLAIN"):
        Admin(config).list_topics()


# -- librdkafka


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(sasl_broker: SaslBroker, mechanism: str) -> None:
    config, topic = sasl_broker.properties(mechanism, "bob"), name()
    producer = Producer(config)
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.value() == b"x"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), WRONG)
def test_librdkafka_is_refused(sasl_broker: SaslBroker, mechanism: str, user: str, password: str) -> None:
    errors: list[str] = []
    config: dict[str, Any] = {**sasl_broker.properties(mechanism, user, password), "log_level": 0}
    config["error_cb"] = lambda error: errors.append(str(error))
    admin = AdminClient(config)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(5)
    assert any("Authentication failed" in error for error in errors), errors


# -- kafka-python


def kafka_python(broker: SaslBroker, mechanism: str, user: str, password: str | None = None) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.sasl_address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORDS[user] if password is None else password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(sasl_broker: SaslBroker, mechanism: str) -> None:
    config, topic = kafka_python(sasl_broker, mechanism, "alice"), name()
    producer = KafkaProducer(**config)
    producer.send(topic, b"x").get(60)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **config)
    assert next(consumer).value == b"x"
    consumer.close()


def test_kafka_python_is_refused(sasl_broker: SaslBroker, caplog: pytest.LogCaptureFixture) -> None:
    """It overlooks an answer that comes together with the end of the connection."""
    config = kafka_python(sasl_broker, "SCRAM-SHA-512", "alice", "guessed") | {"bootstrap_timeout_ms": 500}
    with pytest.raises(KafkaError):
        KafkaProducer(**config)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in caplog.text


# -- kcat


@pytest.mark.peer
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat(sasl_broker: SaslBroker, mechanism: str) -> None:
    require(missing())
    topic = name()
    options = [word for key, value in sasl_broker.properties(mechanism).items() for word in ("-X", f"{key}={value}")]
    run_kcat(sasl_broker.sasl_address, [*options, "-P", "-t", topic], stdin=b"one\ntwo\n")
    assert run_kcat(sasl_broker.sasl_address, [*options, "-C", "-t", topic, "-e", "-q"]) == b"one\ntwo\n"


# -- without a library


def test_an_old_client_sends_bare_tokens(sasl_broker: SaslBroker) -> None:
    with sasl_broker.connect_sasl() as sock:
        assert exchange(sock, SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == ErrorCode.NONE
        token = b"\0alice\0a-secret"
        sock.sendall(len(token).to_bytes(4, "big") + token)
        assert receive_frame(sock) == b""
        assert exchange(sock, MetadataRequest(topics=[]), 4).brokers
    with sasl_broker.connect_sasl() as sock:
        exchange(sock, SaslHandshakeRequest(mechanism="PLAIN"), 0)
        token = b"\0alice\0guessed"
        sock.sendall(len(token).to_bytes(4, "big") + token)
        assert is_closed(sock)


def test_a_client_without_sasl_is_told_of_in_the_log(sasl_broker: SaslBroker) -> None:
    with sasl_broker.connect_sasl() as sock, pytest.raises(EOFError):
        exchange(sock, MetadataRequest(topics=[]), 4)
    sasl_broker.wait_logged(r"client did not authenticate, and sends METADATA: its security\.protocol lacks SASL")


def test_sasl_where_nothing_is_to_be_authenticated(sasl_broker: SaslBroker) -> None:
    with sasl_broker.connect() as sock:
        for version in (0, 1):
            answer = exchange(sock, SaslHandshakeRequest(mechanism="PLAIN"), version)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = exchange(sock, SaslAuthenticateRequest(auth_bytes=b"x"), 2)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert exchange(sock, MetadataRequest(topics=[]), 4).brokers


def test_hundreds_without_login_beside_a_client(sasl_broker: SaslBroker) -> None:
    config, topic = sasl_broker.properties("SCRAM-SHA-256"), name()
    with ExitStack() as stack:
        crowd = [stack.enter_context(sasl_broker.connect_sasl()) for _ in range(400)]
        for number, sock in enumerate(crowd):
            # Some claim a long frame, some send half a request.
            sock.sendall((524_288).to_bytes(4, "big") + b"x" * (number % 50))
        assert produce(config, topic) == 0
        assert read_as_member(config, topic) == [b"x"]
