"""Test the clients that people have with a broker that asks for SASL: right logins, wrong ones, and none."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kafkalog.client.admin import Admin, ConfigChange, ConfigResource, ResourceType
from kafkalog.client.errors import AuthenticationError
from kafkalog.protocol.errors import ErrorCode, InvalidRequestError
from kafkalog.protocol.messages.list_groups import ListGroupsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from peers import require
from peers.brokers import kafka
from peers.clients.base import Record
from peers.clients.lines import KafkaJsClient
from peers.kcat import missing, run_kcat
from tests.support.secured.sasl_broker import MECHANISMS, PASSWORDS, PREFIX, SaslBroker
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


# -- Java


@pytest.mark.peer
@pytest.mark.parametrize(("version", "mechanism"), [(kafka.KAFKA_4, "SCRAM-SHA-512"), (kafka.KAFKA_3, "PLAIN")])
def test_java(sasl_broker: SaslBroker, version: str, mechanism: str, tmp_path: Path) -> None:
    require(kafka.missing(version))
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    password = PASSWORDS["bob"]
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config=org.apache.kafka.common.security.{module} required username="bob" password="{password}";\n'
    )
    topic = name()
    where = ["--bootstrap-server", sasl_broker.sasl_address, "--topic", topic]
    tools = "org.apache.kafka.tools.ConsoleProducer" if version == kafka.KAFKA_4 else "kafka.tools.ConsoleProducer"
    kafka.run_java_tool(tools, [*where, "--producer.config", str(config)], version, stdin="one\ntwo\n")
    reading = [*where, "--consumer.config", str(config), "--from-beginning", "--max-messages", "2"]
    found = kafka.run_java_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", reading, version)
    assert [line for line in found.splitlines() if line in ("one", "two")] == ["one", "two"]


# -- kafkajs


@pytest.mark.peer
@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_kafkajs(sasl_broker: SaslBroker, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require(KafkaJsClient.missing())
    monkeypatch.setenv("PEER_SASL", f"{mechanism},alice,{PASSWORDS['alice']}")
    client = KafkaJsClient(sasl_broker.sasl_address)
    try:
        topic = name()
        client.create_topic(topic)
        client.produce(topic, 0, [Record(None, b"x")])
        assert [record.value for record in client.consume(topic, 0, 0, 1)] == [b"x"]
    finally:
        client.close()


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


def test_another_request_during_the_exchange(sasl_broker: SaslBroker) -> None:
    with sasl_broker.connect_sasl() as sock:
        exchange(sock, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        answer = exchange(sock, ListGroupsRequest(), 4)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert is_closed(sock)


def test_logins_are_counted_and_secrets_are_not_described(sasl_broker: SaslBroker) -> None:
    with Admin(sasl_broker.properties("PLAIN", "admin")) as admin:
        (entries,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]).values()
        jaas = entries[f"{PREFIX}.plain.sasl.jaas.config"]
        assert (jaas.value, jaas.sensitive) == (None, True)
        # Whoever may alter configurations must not be able to make accounts, or to name classes.
        change = {ConfigResource(ResourceType.BROKER, "0"): [ConfigChange(jaas.name, "javax.Jndi required x=guess;")]}
        with pytest.raises(InvalidRequestError) as caught:
            admin.incremental_alter_configs(change)
        assert "guess" not in str(caught.value)
    with urlopen(sasl_broker.metrics_url, timeout=60) as response:
        text = response.read().decode()
    name = "kafka_server_socket_server_metrics_successful_authentication_total"
    counts = {line.split("} ")[0]: float(line.split("} ")[1]) for line in text.splitlines() if line.startswith(name)}
    assert counts[f'{name}{{listener="SASL_PLAINTEXT"'] >= 1


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
