"""Tests of Spark and loads with the secured Apache Kafka: every way to authenticate, and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafkalog.client.admin import AclOperation, AclResourceType, Admin
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import TopicAuthorizationFailedError
from peers import require
from peers.brokers.kafka import KAFKA_3, KAFKA_4
from peers.brokers.secured_kafka import BOB, CAROL, SecuredKafka
from peers.security.certificates import PASSWORD
from peers.security.kerberos import Kdc
from peers.security.stores import KEY_PASSWORD, STORE_PASSWORD, Stores, make_stores
from peers.security.stores import missing as missing_stores
from spark_kafkalog.delegation import tokens
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.load import job
from spark_kafkalog.load.load_options import LoadOptions
from spark_kafkalog.load.runner import ThreadRunner
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.jobs.submitting import submit
from tests.spark_kafkalog.queries.streaming import Sink
from tests.spark_kafkalog.topics import numbers
from tests.support.command import Ended, call
from tests.support.secured.acls import allow
from tests.support.secured.uses import new_topic
from tests.support.secured.ways import WAYS, by_password, listening, properties
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

DIFFERENT = ("MTLS", "SCRAM-SHA-512", "OAUTHBEARER signed", "GSSAPI")
"""One way of each kind. Soaks have the others, and all that is refused, at the older Apache Kafka."""


@pytest.fixture(scope="module", params=[KAFKA_4, pytest.param(KAFKA_3, marks=pytest.mark.soak)])
def broker(secured_kafkas: Callable[[str], SecuredKafka], request: pytest.FixtureRequest) -> SecuredKafka:
    """Return a broker of each version in turn."""
    return secured_kafkas(request.param)


@pytest.fixture
def tickets(request: pytest.FixtureRequest, broker: SecuredKafka) -> Kdc | None:
    """Return the KDC, if the broker takes its tickets."""
    return request.getfixturevalue("kdc") if broker.takes_gssapi else None


@pytest.fixture
def topic(broker: SecuredKafka) -> str:
    return new_topic(broker, 2)


def of_kafka(config: dict[str, str]) -> dict[str, str]:
    """Return client properties as options of Spark's sources."""
    return {f"kafka.{name}": value for name, value in config.items()}


def batch(spark: SparkSession, config: dict[str, str], topic: str) -> DataFrame:
    reader = spark.read.format("kafkalog").options(**of_kafka(config)).option("subscribe", topic)
    return reader.load()


def stream(spark: SparkSession, config: dict[str, str], topic: str) -> DataFrame:
    reader = spark.readStream.format("kafkalog").options(**of_kafka(config)).option("subscribe", topic)
    # The planner would read a small batch by itself; so executors read.
    return reader.option("startingOffsets", "earliest").option("smallBatchBytes", 0).load()


def write(spark: SparkSession, config: dict[str, str], topic: str) -> None:
    frame = spark.range(10).selectExpr("cast(id AS STRING) AS value")
    frame.write.format("kafkalog").mode("append").options(**of_kafka(config)).option("topic", topic).save()


def load(config: dict[str, str], topic: str, target: Path) -> job.Loaded:
    rest = {name: value for name, value in config.items() if name != "bootstrap.servers"}
    options = LoadOptions(config["bootstrap.servers"], (topic,), target.as_uri(), properties=rest)
    return job.load_topic(options, topic, lambda: ThreadRunner(2))


def at_the_older(way: str) -> object:
    """Return the parameters of a way to authenticate at the older Apache Kafka."""
    return pytest.param(KAFKA_3, way, marks=pytest.mark.exhaustive if way in DIFFERENT else pytest.mark.soak)


@pytest.mark.parametrize(
    ("broker", "way"),
    [*((KAFKA_4, way) for way in WAYS), *map(at_the_older, WAYS)],
    indirect=["broker"],
)
def test_every_way(
    broker: SecuredKafka, tickets: Kdc | None, spark: SparkSession, topic: str, tmp_path: Path, way: str
) -> None:
    config = properties(broker, tickets, way)
    write(spark, config, topic)
    assert sorted(row.value for row in batch(spark, config, topic).collect()) == numbers(10)
    sink = Sink(spark, tmp_path)
    sink.drain(stream(spark, config, topic))
    assert sorted(value or b"" for value in sink.values()) == numbers(10)
    document = load(config, topic, tmp_path / "load").document
    assert document is not None
    assert sum(part.rows for part in document.partitions.values()) == 10


BY_COMMAND = [(version, way) for version in (KAFKA_4, KAFKA_3) for way in ("SCRAM-SHA-512", "MTLS")]


@pytest.mark.parametrize(("broker", "way"), BY_COMMAND, indirect=["broker"])
def test_the_command_for_loads(broker: SecuredKafka, topic: str, tmp_path: Path, way: str) -> None:
    config = properties(broker, None, way)
    with Producer(config) as producer:
        for value in numbers(10):
            producer.send(topic, value)
        producer.flush()
    file, target = tmp_path / "client.properties", tmp_path / "load"

    def call_load(*words: str, check: int = 0, **changed: str) -> Ended:
        file.write_text("".join(f"{name}={value}\n" for name, value in {**config, **changed}.items()))
        connect = ("--bootstrap-server", config["bootstrap.servers"], "--command-config", str(file))
        return call("load", *words, *connect, "--topic", topic, "--to", str(target), check=check)

    refused = call_load("--without-spark", check=1, **{"ssl.ca.location": str(broker.certificates.stranger)})
    assert refused.out == []
    (line,) = refused.err.splitlines()
    assert line.startswith("kafkalog: ")
    assert "ssl.ca.location does not have the certificate of its authority" in line
    assert not target.exists()
    done = call_load("--without-spark")
    assert done.out[0].startswith(f"{topic}: 10 rows in ")
    assert done.err == ""
    status = json.loads("".join(call_load("status", "--json").out))
    partitions = status["topics"][0]["partitions"]
    assert [sum(each[name] for each in partitions) for name in ("loaded", "lag")] == [10, 0]


Use = Callable[[SparkSession, dict[str, str], str, Path], object]
USES: dict[str, Use] = {
    "batch": lambda spark, config, topic, path: batch(spark, config, topic).collect(),
    "stream": lambda spark, config, topic, path: Sink(spark, path).drain(stream(spark, config, topic)),
    "sink": lambda spark, config, topic, path: write(spark, config, topic),
    "load": lambda spark, config, topic, path: load(config, topic, path / "load"),
}
ERRORS = (PySparkException, AuthenticationError, TopicAuthorizationFailedError)
Refusal = Callable[[dict[str, str], str], str]


@pytest.fixture(params=USES)
def refusal(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Refusal:
    """Return how a use of Spark or a load is refused, by its message."""
    use = USES[request.param]

    def refused(config: dict[str, str], topic: str) -> str:
        with pytest.raises(ERRORS) as caught:
            use(spark, config, topic, tmp_path)
        return str(caught.value)

    return refused


def by_token(broker: SecuredKafka, login: dict[str, str]) -> dict[str, str]:
    """Return options of a query that has no login of its own, with Spark's settings for delegation tokens.

    `login` has the settings by which the token is got.
    """
    given = {"ssl.truststore.location": str(broker.certificates.authority)} | login
    return of_kafka(listening(broker, "SASL_SSL")) | {
        f"spark.kafka.clusters.peers.{name}": text for name, text in given.items()
    }


def login_for_token(broker: SecuredKafka, tickets: Kdc | None, way: str) -> dict[str, str]:
    """Return the settings that get a token in one of WAYS."""
    servers = {"auth.bootstrap.servers": properties(broker, tickets, way)["bootstrap.servers"]}
    if way == "MTLS":
        store = {"type": "PEM", "location": str(broker.certificates.client)}
        key = {f"ssl.keystore.{name}": text for name, text in store.items()} | {"ssl.key.password": PASSWORD}
        return servers | {"security.protocol": "SSL"} | key
    own = properties(broker, tickets, way)
    return servers | {f"kafka.{name}": text for name, text in own.items() if name.startswith("sasl.")}


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "MTLS", "GSSAPI"])
def test_delegation_tokens(
    broker: SecuredKafka, tickets: Kdc | None, spark: SparkSession, topic: str, tmp_path: Path, way: str
) -> None:
    options = by_token(broker, login_for_token(broker, tickets, way))
    frame = spark.range(10).selectExpr("cast(id AS STRING) AS value")
    frame.write.format("kafkalog").mode("append").options(**options).option("topic", topic).save()
    read = spark.read.format("kafkalog").options(**options).option("subscribe", topic).load()
    assert sorted(row.value for row in read.collect()) == numbers(10)
    stream = spark.readStream.format("kafkalog").options(**options).option("subscribe", topic)
    sink = Sink(spark, tmp_path)
    sink.drain(stream.option("startingOffsets", "earliest").option("smallBatchBytes", 0).load())
    assert sorted(value or b"" for value in sink.values()) == numbers(10)
    with Admin(properties(broker, tickets, way)) as admin:
        assert admin.delegation_tokens.describe()


def test_a_task_whose_delegation_token_has_ended(
    broker: SecuredKafka, tickets: Kdc | None, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker still knows the token, but closes each connection that logs in by it."""
    way = "SCRAM-SHA-512"
    with Admin(properties(broker, tickets, way)) as admin:
        token = admin.delegation_tokens.create(max_lifetime_ms=1000)
    monkeypatch.setattr(tokens, "token_for", lambda _: token)
    given = by_token(broker, login_for_token(broker, tickets, way)) | {"subscribe": topic}
    options = SourceOptions.parse(given | {"kafkaConsumer.pollTimeoutMs": "1000"}).logged_in()
    wait_until(lambda: time.time() * 1000 > token.expires_at, "the end of the token")
    with pytest.raises(AuthenticationError, match="the delegation token of this task has ended"):
        list(read_range(TopicPartition(topic, 0), 0, 9, options, ("value",)))


@pytest.mark.exhaustive
def test_a_submitted_load_logs_in_by_a_delegation_token(
    broker: SecuredKafka, tickets: Kdc | None, topic: str, tmp_path: Path
) -> None:
    """The application has no login of its own; its `spark.kafka.clusters` settings stand on the command line."""
    way = "SCRAM-SHA-512"
    with Producer(properties(broker, tickets, way)) as producer:
        for value in numbers(10):
            producer.send(topic, value)
        producer.flush()
    options = by_token(broker, login_for_token(broker, tickets, way))
    settings = {name: options.pop(name) for name in list(options) if name.startswith("spark.")}
    file, target = tmp_path / "client.properties", tmp_path / "load"
    file.write_text("".join(f"{name.removeprefix('kafka.')}={value}\n" for name, value in options.items()))
    words = ["--topic", topic, "--to", target.as_uri(), "--command-config", str(file)]
    words += ["--bootstrap-server", options["kafka.bootstrap.servers"]]
    refused = submit("load", tmp_path / "spark", *words)
    assert (refused.code, "needs sasl.username and sasl.password" in refused.output) == (2, True)
    assert not target.exists()
    done = submit("load", tmp_path / "spark", *words, settings=settings)
    assert done.code == 0, done.errors[-3000:]
    assert f"{topic}: 10 rows" in done.output


def test_a_wrong_password(broker: SecuredKafka, topic: str, refusal: Refusal) -> None:
    said = refusal(by_password(broker, "SCRAM-SHA-512") | {"sasl.password": "guessed"}, topic)
    assert "check sasl.username and sasl.password" in said
    assert "guessed" not in said
    assert "gave up" not in said


def test_a_broker_that_nobody_vouches_for(broker: SecuredKafka, topic: str, refusal: Refusal) -> None:
    said = refusal(listening(broker, "SSL", ssl_ca_location=broker.certificates.stranger), topic)
    assert "ssl.ca.location" in said
    assert "gave up" not in said


@pytest.mark.parametrize(("listener", "said"), [("EXPIRED", "is not valid now"), ("ELSEWHERE", "is for another name")])
def test_certificates_of_brokers(broker: SecuredKafka, topic: str, refusal: Refusal, listener: str, said: str) -> None:
    refused = refusal(listening(broker, listener), topic)
    assert "the broker's certificate" in refused
    assert said in refused
    assert "gave up" not in refused


@pytest.fixture(scope="module")
def stores(broker: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    require(missing_stores())
    return make_stores(broker.certificates, tmp_path_factory.mktemp("stores"))


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_stores(
    broker: SecuredKafka, spark: SparkSession, topic: str, stores: Stores, tmp_path: Path, kind: str
) -> None:
    """Stores of Java, a key with a password of its own, an old version of TLS, and passwords in a file (KIP-297)."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"store={STORE_PASSWORD}\nkey={KEY_PASSWORD if kind == 'jks' else STORE_PASSWORD}\n")
    config = {
        "bootstrap.servers": broker.addresses["MTLS"],
        "security.protocol": "SSL",
        "ssl.enabled.protocols": "TLSv1.2",
        "config.providers": "file",
        "ssl.truststore.location": str(stores.trust_jks if kind == "jks" else stores.trust_p12),
        "ssl.truststore.password": f"${{file:{secrets}:store}}",
        "ssl.keystore.location": str(stores.key_jks if kind == "jks" else stores.key_p12),
        "ssl.keystore.password": f"${{file:{secrets}:store}}",
        "ssl.key.password": f"${{file:{secrets}:key}}",
    }
    write(spark, config, topic)
    assert sorted(row.value for row in batch(spark, config, topic).collect()) == numbers(10)
    document = load(config, topic, tmp_path / "load").document
    assert document is not None
    assert sum(part.rows for part in document.partitions.values()) == 10


def test_a_token_for_another_service(broker: SecuredKafka, topic: str, refusal: Refusal) -> None:
    token = broker.signing_key.token("alice", aud="another")
    config = listening(broker, "OAUTH", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=token)
    said = refusal(config, topic)
    assert "sasl.oauthbearer." in said
    assert token not in said


def test_no_right_to_the_topic(broker: SecuredKafka, topic: str, refusal: Refusal) -> None:
    said = refusal(by_password(broker, "PLAIN", BOB), topic)
    assert "TOPIC_AUTHORIZATION_FAILED" in said
    assert topic in said
    assert "gave up" not in said


def test_no_right_to_write_once(broker: SecuredKafka, spark: SparkSession, topic: str) -> None:
    """The transactional mode needs rights to its transactional ids, and to the group that its ledger is kept by."""
    prefix = f"id-{topic}"
    config = by_password(broker, "PLAIN", CAROL) | {"transactional.id": prefix}
    allow(broker, CAROL, AclOperation.ALL, AclResourceType.TOPIC, topic)

    def refused() -> str:
        with pytest.raises(PySparkException) as caught:
            write(spark, config, topic)
        lines = str(caught.value).splitlines()
        return next(line for line in reversed(lines) if "AUTHORIZATION_FAILED" in line)

    said = refused()
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in said
    assert f"{prefix}-driver" in said
    assert "transactional.id" in said
    allow(broker, CAROL, AclOperation.ALL, AclResourceType.TRANSACTIONAL_ID, f"{prefix}-driver")
    said = refused()
    assert "GROUP_AUTHORIZATION_FAILED" in said
    assert f"{prefix}-ledger" in said
