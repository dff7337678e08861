"""Tests of the configuration: declared keys, listeners, precedence of defaults."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.definition import ConfigError
from broker.config.document import render
from broker.config.group import GROUP_CONFIG
from broker.config.security.authorizer import BUILT_IN, super_users
from broker.config.server import SERVER_CONFIG, BrokerConfig
from broker.config.topic import MAX_LONG, TOPIC_CONFIG, log_config, parse_topic_config
from kafkalog.java_properties import load_properties

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("key", list(SERVER_CONFIG) + list(TOPIC_CONFIG), ids=lambda key: key.name)
def test_defaults_fit_their_own_keys(key) -> None:  # type: ignore[no-untyped-def]
    assert key.doc.endswith(".")
    text = key.format(key.default)
    if text is not None:
        parsed = key.parse(text)
        assert parsed == key.default or tuple(parsed) == tuple(key.default)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.segment.bytes", "13"),
        ("log.segment.bytes", "ten"),
        ("log.segment.bytes", str(1 << 31)),
        ("auto.create.topics.enable", "yes"),
        ("log.message.timestamp.type", "Sometimes"),
        ("log.cleanup.policy", "burn"),
        ("num.partitions", "0"),
    ],
)
def test_a_bad_value_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        BrokerConfig({key: value})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("log.segment.bytes", "+500", 500),
        ("log.segment.bytes", "\t 500\x00\n", 500),
        ("log.segment.bytes", "\uff15\uff10\uff10", 500),  # Digits of full width.
        ("log.cleaner.min.cleanable.ratio", ".5", 0.5),
        ("log.cleaner.min.cleanable.ratio", "5e-1D", 0.5),
        ("log.cleaner.min.cleanable.ratio", "0x1.0p-1f", 0.5),
        ("log.cleaner.io.max.bytes.per.second", "Infinity", float("inf")),
        ("log.cleaner.io.max.bytes.per.second", "1e999", float("inf")),
        ("log.cleanup.policy", "compact \t,delete", ("compact", "delete")),
        ("log.cleanup.policy", "\x00compact\v\f,\r\ndelete ", ("compact", "delete")),
        ("log.cleanup.policy", " ", ()),
        ("log.dirs", "/a,,/b,", ("/a", "/b")),
    ],
)
def test_values_are_read_as_by_java(key: str, text: str, value: object) -> None:
    assert SERVER_CONFIG[key].parse(text) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("log.segment.bytes", "1_000"),
        ("log.segment.bytes", "+ 500"),
        ("log.segment.bytes", "500L"),
        ("log.segment.bytes", ""),
        ("log.segment.bytes", "9" * 5000),
        ("log.segment.bytes", "\u00a0500"),  # Java trims no space that cannot be broken.
        ("log.segment.bytes", "\U0001d7d3\U0001d7ce\U0001d7ce"),  # Digits of two UTF-16 units each.
        ("log.cleaner.io.max.bytes.per.second", "1_0"),
        ("log.cleaner.io.max.bytes.per.second", "inf"),
        ("log.cleaner.io.max.bytes.per.second", "infinity"),
        ("log.cleaner.io.max.bytes.per.second", "nan"),
        ("log.cleaner.io.max.bytes.per.second", "\uff15"),
        ("log.cleaner.io.max.bytes.per.second", "0x1"),
        ("log.cleaner.io.max.bytes.per.second", "."),
        ("log.cleanup.policy", "compact,,delete"),
        ("log.cleanup.policy", "compact,"),
        ("log.cleanup.policy", ","),
        ("group.coordinator.rebalance.protocols", "classic,"),
    ],
)
def test_values_that_java_cannot_read_are_refused(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        SERVER_CONFIG[key].parse(text)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("log.cleaner.min.cleanable.ratio", "1" * 1_000_000 + "x"),
        ("log.cleaner.min.cleanable.ratio", "0." + "0" * 1000),
        ("log.cleaner.io.max.bytes.per.second", "0x" + "1" * 1_000_000),
        ("log.segment.bytes", "1" * 1_000_000),
        ("log.segment.bytes", "0" * 1000 + "50"),
        ("log.cleanup.policy", "delete" + " " * 500_000 + "x"),
        ("log.cleanup.policy", "x" * 500_000),
        ("log.cleanup.policy", "," * (2 << 20)),
        ("broker.rack", "x" * (2 << 20)),
        ("log.message.format.version", "2.8" + "9" * 500_000),
        ("inter.broker.protocol.version", "2.8." + "9" * 5000),
    ],
    ids=lambda text: text[:20],
)
def test_long_values_are_refused_at_once_in_few_words(key: str, text: str) -> None:
    """A pattern that tries all parts of a text would take hours, and the event loop would wait."""
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")) as refused:
        SERVER_CONFIG[key].parse(text)
    assert len(str(refused.value)) < 500


def test_long_lists_are_read() -> None:
    replicas = [f"{number}:1" for number in range(100_000)]
    for text in (",".join(replicas), " , ".join(replicas[:50_000]) + " ," * 100):
        found = TOPIC_CONFIG["leader.replication.throttled.replicas"].parse(text)
        assert list(found) == replicas[: len(found)]
        assert len(found) >= 50_000


def test_numbers_without_an_end_are_written_as_by_java() -> None:
    key = SERVER_CONFIG["log.cleaner.io.max.bytes.per.second"]
    for text in ("Infinity", "-Infinity", "NaN"):
        assert key.format(key.parse(text)) == text


def test_lines_of_a_value_are_not_shown() -> None:
    config = BrokerConfig({"listener.name.sasl.jaas": "x", "MIIEvQIBADANBgkq": "", "eyJhbGci.eyJzdWIi": ""})
    assert config.unknown == ["listener.name.sasl.jaas"]
    assert config.hidden == 2


@pytest.mark.parametrize("name", ["listners", "log4j.rootLogger", "listener.name.a_b.scram-sha-256.sasl.login.x"])
def test_names_that_nobody_knows_are_shown(name: str) -> None:
    assert BrokerConfig({name: "x"}).unknown == [name]


def test_every_topic_synonym_is_a_broker_key() -> None:
    for key in TOPIC_CONFIG:
        for synonym in key.synonyms:
            assert synonym in SERVER_CONFIG, f"{key.name}: {synonym}"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, 7 * 24 * 3600 * 1000),
        ({"log.retention.hours": "2"}, 2 * 3600 * 1000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * 60 * 1000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
    ],
)
def test_the_finest_unit_wins(texts: dict[str, str], expected: int) -> None:
    config = BrokerConfig(texts)
    assert config.log_config({}).retention_ms == expected
    assert config.log_config({"retention.ms": 5}).retention_ms == 5


@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_records_are_kept_for_ever_or_for_some_time(name: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.retention"):
        BrokerConfig({name: "0"})
    for text in ("-1", "-2"):
        assert BrokerConfig({name: text}).topic_default("retention.ms") == (-1, name)
    assert BrokerConfig().with_dynamic({"log.retention.ms": "0"}).topic_default("retention.ms")[1] is None


def test_a_coarser_unit_that_does_not_count_may_be_anything() -> None:
    assert BrokerConfig({"log.retention.hours": "0", "log.retention.ms": "5"}).log_config({}).retention_ms == 5


@pytest.mark.parametrize(("text", "factor"), [("1.5", 1.0), ("0.5", 0.5), ("0", 0.01), ("-1", 0.01), ("NaN", 0.01)])
def test_any_load_factor_is_accepted_as_in_kafka(text: str, factor: float) -> None:
    assert BrokerConfig({"log.cleaner.io.buffer.load.factor": text}).cleaner_config().load_factor == factor


def test_listeners() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,OUTSIDE://[::1]:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "advertised.listeners": "OUTSIDE://kafka.example.org:19093",
        }
    )
    inside, outside = config.listeners
    assert (inside.host, inside.port) == ("127.0.0.1", 9092)
    assert (outside.host, outside.port) == ("::1", 9093)
    assert config.advertised_endpoint(inside).port == 9092
    assert config.advertised_endpoint(outside).host == "kafka.example.org"


@pytest.mark.parametrize(
    ("listeners", "message"),
    [
        ("localhost:9092", "NAME://host:port"),
        ("PLAINTEXT://localhost:99999", "port"),
        ("PLAINTEXT://localhost:" + "1" * 5000, "NAME://host:port"),
        ("PLAINTEXT://:1,PLAINTEXT://:2", "different name"),
        ("INSIDE://:9092", "listener.security.protocol.map"),
        ("", "at least one"),
    ],
)
def test_bad_listeners_say_what_to_do(listeners: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig({"listeners": listeners})


@pytest.mark.parametrize("name", BUILT_IN)
def test_kafkas_authorizers_stand_for_the_brokers_own(name: str) -> None:
    assert BrokerConfig({"authorizer.class.name": name}).has_authorizer
    assert not BrokerConfig({"authorizer.class.name": ""}).has_authorizer
    assert not BrokerConfig({}).has_authorizer


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("authorizer.class.name", "com.example.Mine", "loads no other one"),
        ("super.users", "User:ann;bob", "bob is not in the form Type:name"),
        ("super.users", "User:ann,User:bob;:x", "separated by semicolons"),
        ("authorizer.zookeeper.url", "elsewhere:2181", "below zookeeper.connect only"),
        ("allow.everyone.if.no.acl.found", "yes", "allow.everyone.if.no.acl.found"),
    ],
)
def test_what_would_give_rights_that_nobody_meant_is_refused(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig({key: value})


def test_super_users_are_separated_by_semicolons_because_names_have_commas() -> None:
    assert super_users(" User:ann ; User:CN=broker,O=Acme;;User:a:b") == {
        ("User", "ann"), ("User", "CN=broker,O=Acme"), ("User", "a:b"),
    }  # fmt: skip
    assert super_users("") == frozenset()


def test_kafkas_own_keys_are_accepted_and_others_are_told() -> None:
    config = BrokerConfig({"num.network.threads": "3", "no.such.key": "x"})
    assert config.ineffective == ["num.network.threads"]
    assert config.unknown == ["no.such.key"]
    assert BrokerConfig({"leader.replication.throttled.rate": "1"}).ineffective == ["leader.replication.throttled.rate"]


def test_every_declared_key_is_read_or_says_that_it_has_no_effect() -> None:
    mentioned = {text for path in (ROOT / "broker").rglob("*.py") for text in _texts(ast.parse(path.read_text()))}
    # A default of a topic's key is read under the topic's name.
    read = mentioned.union(*(key.synonyms for key in TOPIC_CONFIG if key.name in mentioned))
    without_effect = {key.name for key in (*SERVER_CONFIG, *TOPIC_CONFIG, *GROUP_CONFIG) if not key.effect}
    declared = {key.name for key in (*SERVER_CONFIG, *TOPIC_CONFIG, *GROUP_CONFIG)}
    # How sessions with ZooKeeper are secured is read by modules that the clients share.
    shared = (
        "kafkalog/zookeeper/properties.py",
        "kafkalog/zookeeper/security.py",
        "kafkalog/client/zookeeper/security.py",
    )
    of_clients = {text for path in shared for text in _texts(ast.parse((ROOT / path).read_text()))}
    assert declared - read - of_clients == without_effect - of_clients


def _texts(tree: ast.AST) -> Iterator[str]:
    """Every string of a module, apart from its declarations of keys."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ConfigKey":
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        yield from _texts(node)


@pytest.mark.parametrize(
    "config",
    [{"no.such": "1"}, {"retention.ms": None}, {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}],
)
def test_bad_topic_configs(config: dict[str, str | None]) -> None:
    with pytest.raises(ConfigError):
        parse_topic_config(config)


@pytest.mark.parametrize(
    ("texts", "limits"),
    [
        ({}, (MAX_LONG, MAX_LONG)),
        ({"difference": "5"}, (5, 5)),
        ({"difference": "5", "before": "3"}, (3, 5)),
        ({"difference": "5", "before": "3", "after": "9"}, (3, 9)),
    ],
)
def test_the_old_limit_of_timestamps_holds_where_the_new_are_not_set(
    texts: dict[str, str], limits: tuple[int, int]
) -> None:
    values = {key.name: key.default for key in TOPIC_CONFIG}
    values.update(parse_topic_config({f"message.timestamp.{name}.max.ms": text for name, text in texts.items()}))
    config = log_config(values, producer_id_expiration_ms=1)
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == limits


def test_the_shipped_file_is_valid_and_commented() -> None:
    path = ROOT / "conf" / "server.properties"
    config = BrokerConfig(load_properties(path))
    assert not config.unknown
    previous = ""
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            assert previous.startswith("#") or "=" in previous, f"{line} has no comment"
        previous = line


def test_the_reference_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "configuration.md").read_text() == render(), "run: make docs"


@pytest.mark.usefixtures("processes")
def test_the_reference_page_prints() -> None:
    done = subprocess.run([sys.executable, "-m", "broker.config.document"], capture_output=True, text=True, check=True)
    assert "`log.segment.bytes`" in done.stdout


def test_keys_of_a_member_have_an_effect_with_zookeeper_alone() -> None:
    texts = {"num.replica.fetchers": "2", "inter.broker.protocol.version": "2.8"}
    assert BrokerConfig(texts).ineffective == sorted(texts)
    assert not BrokerConfig(texts).is_member
    config = BrokerConfig({**texts, "zookeeper.connect": "localhost:2181/kafka"})
    assert config.ineffective == []
    assert config.is_member
    assert (config.inter_broker_listener, config.protocol_version.release) == ("PLAINTEXT", (2, 8))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"inter.broker.protocol.version": "2.9"}, "2.9"),
        ({"inter.broker.listener.name": "INSIDE"}, "INSIDE is not: the listeners are PLAINTEXT"),
        ({"security.inter.broker.protocol": "SASL_SSL"}, "SASL_SSL is not: the listeners are PLAINTEXT"),
        ({"security.inter.broker.protocol": "TLS"}, "String must be one of: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ],
)
def test_a_member_that_others_could_not_reach_is_not_started(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig({"zookeeper.connect": "localhost:2181", **texts})
