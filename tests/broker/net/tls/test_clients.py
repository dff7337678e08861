"""Test a broker process over TLS with the clients that people use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import kafka as kafka_python
import pytest
from aiokafka.helpers import create_ssl_context  # type: ignore[import-untyped]

from kafkalog.client.admin import Admin, NewTopic, ScramPassword
from kafkalog.client.consumer import Consumer
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.producer import Producer
from kafkalog.protocol.scram import ScramMechanism
from peers import kcat, require
from peers.brokers import kafka
from peers.clients.base import Record
from peers.clients.lines import FranzGoClient
from peers.process import free_port
from peers.security import certificates, stores
from peers.security.certificates import PASSWORD, Certificates, make_certificates
from peers.security.stores import KEY_PASSWORD, STORE_PASSWORD, Stores, make_stores
from tests.broker.security.sasl.oauth.signing import key_set, make_key, sign
from tests.support.command import command
from tests.support.kafkalog_broker import KafkalogBroker

DEADLINE_S = 60.0
KEY = make_key("RS256")
LARGE = os.urandom(900_000)


class Secured:
    """A broker with the listeners SSL, for anybody, MTLS, for those with a certificate, and LOGIN, for ann."""

    def __init__(self, broker: KafkalogBroker, made: Certificates, ports: dict[str, int]) -> None:
        self.broker = broker
        self.made = made
        self._ports = ports

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def client(self, listener: str = "SSL", **more: Any) -> dict[str, Any]:
        """Return the properties of librdkafka's, which our clients have, too."""
        files = dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(self.made.client))
        own = {**files, "ssl.key.password": PASSWORD}
        if listener == "SSL":
            own = {}
        elif listener == "LOGIN":
            own = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "of-ann"}
        return {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SASL_SSL" if listener == "LOGIN" else "SSL",
            "ssl.ca.location": str(self.made.authority),
            **own,
            **more,
        }


@pytest.fixture(scope="module")
def secured(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    require(certificates.missing())
    directory = tmp_path_factory.mktemp("tls")
    made = make_certificates(directory)
    ports = {name: free_port() for name in ("SSL", "MTLS", "LOGIN")}
    keys = directory / "keys.json"
    keys.write_text(key_set(KEY))
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "SSL:SSL,MTLS:SSL,LOGIN:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "listener.name.login.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="of-ann";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
        "listener.name.mtls.ssl.client.auth": "required",
        "group.initial.rebalance.delay.ms": "0",
        "kafkalog.metrics.listener": "127.0.0.1:0",
    }
    with KafkalogBroker(directory / "broker", settings) as broker:
        found = Secured(broker, made, ports)
        with Admin(found.client()) as admin:
            admin.scram_users.alter([ScramPassword("ann", ScramMechanism.SHA_512, "of-ann")])
        yield found


@pytest.mark.parametrize("listener", ["SSL", "MTLS", "LOGIN"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_our_clients(secured: Secured, listener: str, protocol: str) -> None:
    topic = f"ours-{listener}-{protocol}"
    with Admin(secured.client(listener)) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
    with Producer(secured.client(listener)) as producer:
        sent = [producer.send(topic, LARGE, partition=number % 2) for number in range(40)]
        assert [each.result(DEADLINE_S).offset for each in sent[-2:]] == [19, 19]
    group = {"group.id": topic, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    with Consumer(secured.client(listener, **group)) as consumer:
        consumer.subscribe([topic])
        read = 0
        while read < 40:
            found = consumer.poll(DEADLINE_S)
            assert all(record.value == LARGE for record in found)
            read += len(found)
        consumer.commit()


@pytest.mark.parametrize("listener", ["SSL", "MTLS", "LOGIN"])
def test_librdkafka(secured: Secured, listener: str) -> None:
    topic = f"librdkafka-{listener}"
    errors: list[Any] = []
    producer = confluent_kafka.Producer(secured.client(listener, **{"enable.idempotence": True}))
    for number in range(2000):
        producer.produce(topic, b"%d" % number, callback=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None] * 2000
    consumer = confluent_kafka.Consumer(
        secured.client(listener, **{"group.id": topic, "auto.offset.reset": "earliest"})
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < 2000:
        found += [each.value() for each in consumer.consume(500, DEADLINE_S) if each.error() is None]
    consumer.close()
    assert found == [b"%d" % number for number in range(2000)]


def token() -> str:
    """Return a token that the listener LOGIN takes."""
    now = time.time()
    return sign(KEY, "RS256", {"sub": "ann", "iat": now - 60, "exp": now + 3600})


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_logins_of_librdkafka(secured: Secured, mechanism: str) -> None:
    own: dict[str, Any] = secured.client("LOGIN", **{"sasl.mechanism": mechanism})
    if mechanism == "OAUTHBEARER":
        del own["sasl.username"], own["sasl.password"]
        own["oauth_cb"] = lambda _: (token(), time.time() + 3600)
    topic = f"librdkafka-{mechanism}"
    errors: list[Any] = []
    producer = confluent_kafka.Producer(own)
    producer.produce(topic, LARGE, callback=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None]
    consumer = confluent_kafka.Consumer({**own, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(DEADLINE_S)
    consumer.close()
    assert message is not None
    assert message.value() == LARGE


def test_kafka_python(secured: Secured) -> None:
    own = {
        "bootstrap_servers": secured.address("MTLS"),
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.made.authority),
        "ssl_certfile": str(secured.made.client),
        "ssl_keyfile": str(secured.made.client),
        "ssl_password": PASSWORD,
    }
    producer = kafka_python.KafkaProducer(**own)
    assert producer.send("kafka-python", LARGE).get(DEADLINE_S).offset == 0
    producer.close()
    consumer = kafka_python.KafkaConsumer(
        "kafka-python", **own, auto_offset_reset="earliest", consumer_timeout_ms=int(DEADLINE_S * 1000)
    )
    assert next(consumer).value == LARGE
    consumer.close()


async def _with_aiokafka(secured: Secured) -> bytes | None:
    own = {
        "bootstrap_servers": secured.address("SSL"),
        "security_protocol": "SSL",
        "ssl_context": create_ssl_context(cafile=str(secured.made.authority)),
    }
    producer = aiokafka.AIOKafkaProducer(**own, max_request_size=2_000_000)
    await producer.start()
    await producer.send_and_wait("aiokafka", LARGE)
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer("aiokafka", **own, auto_offset_reset="earliest")
    await consumer.start()
    found: bytes | None = (await consumer.getone()).value
    await consumer.stop()
    return found


def test_aiokafka(secured: Secured) -> None:
    import asyncio

    assert asyncio.run(asyncio.wait_for(_with_aiokafka(secured), DEADLINE_S)) == LARGE


def test_the_commands(secured: Secured, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    properties = secured.client("MTLS")
    servers = properties.pop("bootstrap.servers")
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    done = subprocess.run(
        command("topics", "list", "--bootstrap-server", servers, "--command-config", str(config)),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("listener", "more", "said"),
    [
        ("SSL", {"security.protocol": "PLAINTEXT"}, "speaks TLS"),
        ("SSL", {"ssl.ca.location": "{stranger}"}, "not trusted|does not have"),
        ("LOGIN", {"sasl.password": "guessed"}, "check sasl.username and sasl.password"),
        ("MTLS", {"ssl.certificate.location": "{intruder}", "ssl.key.location": "{intruder}"}, "refuses the client"),
    ],
)
def test_our_clients_say_why_they_are_refused(secured: Secured, listener: str, more: dict[str, str], said: str) -> None:
    own = {key: text.format(**{k: str(v) for k, v in secured.made._asdict().items()}) for key, text in more.items()}
    config = {**secured.client(listener), **own, "default.api.timeout.ms": 15_000}
    with Admin(config) as admin, pytest.raises(AuthenticationError, match=said):
        admin.list_topics()


def test_openssl(secured: Secured) -> None:
    def connect(*options: str) -> str:
        line = ["openssl", "s_client", "-connect", secured.address("SSL"), "-CAfile", str(secured.made.authority)]
        done = subprocess.run(
            [*line, *options], input="", capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        return done.stdout + done.stderr

    assert "Verify return code: 0 (ok)" in connect()
    assert "Cipher is TLS_" in connect("-tls1_3")
    said = connect("-tls1_2")
    assert re.search(r"Protocol *: TLSv1\.2", said)
    assert "Secure Renegotiation IS supported" in said
    assert "alert protocol version" in connect("-tls1_1", "-cipher", "ALL@SECLEVEL=0")


def test_a_client_that_asks_for_new_keys_again_and_again_is_refused(secured: Secured) -> None:
    """Renegotiation costs the broker much more than the client."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", secured.address("SSL"), "-tls1_2"],
        input="R\nR\n",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "no renegotiation" in done.stdout + done.stderr


@pytest.mark.peer
def test_kcat(secured: Secured) -> None:
    require(kcat.missing())
    options = ["-X", "security.protocol=SSL", "-X", f"ssl.ca.location={secured.made.authority}"]
    kcat.run_kcat(secured.address("SSL"), [*options, "-P", "-t", "kcat"], stdin=b"one\ntwo\n")
    assert kcat.run_kcat(secured.address("SSL"), [*options, "-C", "-t", "kcat", "-e", "-q"]) == b"one\ntwo\n"
    assert json.loads(kcat.run_kcat(secured.address("SSL"), [*options, "-L", "-J"]))["brokers"][0]["name"] == (
        secured.address("SSL")
    )


@pytest.fixture(scope="module")
def made_stores(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    require(stores.missing())
    return make_stores(secured.made, tmp_path_factory.mktemp("stores"))


@pytest.mark.peer
@pytest.mark.timeout(300)
def test_the_java_tools(secured: Secured, made_stores: Stores, tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_3))
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.location={made_stores.trust_jks}\nssl.truststore.password={STORE_PASSWORD}\n"
        f"ssl.keystore.location={made_stores.key_jks}\nssl.keystore.password={STORE_PASSWORD}\n"
        f"ssl.key.password={KEY_PASSWORD}\n"
    )

    def run(main: str, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            kafka.tool_line(main, ["--bootstrap-server", secured.address("MTLS"), *words], kafka.KAFKA_3),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("kafka.tools.ConsoleProducer", "--topic", "java", "--producer.config", str(config), stdin="a\nb\n")
    assert (
        run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--topic", "java", "--from-beginning", "--max-messages", "2", "--consumer.config", str(config)),
        )
        == "a\nb\n"
    )
    described = run(
        "kafka.admin.ConfigCommand",
        *("--describe", "--all", "--entity-type", "brokers", "--entity-name", "0", "--command-config", str(config)),
    )
    assert "listener.name.mtls.ssl.client.auth=required sensitive=false" in described
    assert "ssl.keystore.password=null sensitive=true" in described
    renewed = tmp_path / "renewed.pem"
    renewed.write_bytes(secured.made.server.read_bytes())
    run(
        "kafka.admin.ConfigCommand",
        *("--alter", "--entity-type", "brokers", "--entity-name", "0", "--command-config", str(config)),
        *("--add-config", f"listener.name.mtls.ssl.keystore.location={renewed}"),
    )
    secured.broker.wait_logged("listener MTLS uses renewed certificates: CN=server")


@pytest.mark.peer
@pytest.mark.timeout(300)
def test_logins_of_the_java_tools(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them logs in by SCRAM, the other by a token."""
    require(kafka.missing(kafka.KAFKA_4))
    file = tmp_path / "token"
    file.write_text(token())
    allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={file.as_uri()}" for kind in ("urls", "files")]
    monkeypatch.setattr(kafka, "JVM_EXTRA", [*kafka.JVM_EXTRA, *allowed])
    common = f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={secured.made.authority}\n"
    security = "org.apache.kafka.common.security"
    scram, oauth = tmp_path / "scram.properties", tmp_path / "oauth.properties"
    scram.write_text(
        f"{common}sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={security}.scram.ScramLoginModule required username="ann" password="of-ann";\n'
    )
    oauth.write_text(
        f"{common}sasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={security}.oauthbearer.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={security}.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
    )
    where = ["--bootstrap-server", secured.address("LOGIN"), "--topic", "java-logins"]
    writing = [*where, "--producer.config", str(scram)]
    kafka.run_java_tool("org.apache.kafka.tools.ConsoleProducer", writing, kafka.KAFKA_4, stdin="one\ntwo\n")
    reading = [*where, "--consumer.config", str(oauth), "--from-beginning", "--max-messages", "2"]
    found = kafka.run_java_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", reading, kafka.KAFKA_4)
    assert [line for line in found.splitlines() if line in ("one", "two")] == ["one", "two"]


@pytest.mark.peer
@pytest.mark.parametrize("login", ["", "plain,ann,of-ann", "scram-sha-512,ann,of-ann", "oauthbearer"])
def test_franz_go(secured: Secured, login: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require(FranzGoClient.missing())
    monkeypatch.setenv("PEER_CA", str(secured.made.authority))
    monkeypatch.setenv("PEER_SASL", f"oauthbearer,{token()}" if login == "oauthbearer" else login)
    topic = f"franz-{login.partition(',')[0]}"
    client = FranzGoClient(secured.address("LOGIN" if login else "SSL"))
    try:
        client.create_topic(topic)
        client.produce(topic, 0, [Record(None, LARGE)])
        assert [record.value for record in client.consume(topic, 0, 0, 1)] == [LARGE]
    finally:
        client.close()
