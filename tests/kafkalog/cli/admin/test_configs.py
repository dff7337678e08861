"""Tests of `kafkalog configs` against a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.cli.admin.configs import parse_configs
from kafkalog.cli.shared.client_options import UsageError
from tests.support.command import call
from tests.support.kafkalog_broker import KafkalogBroker


@pytest.fixture
def topic(broker_address: str) -> str:
    name = f"configs-{uuid.uuid4().hex[:10]}"
    call("topics", "create", "--bootstrap-server", broker_address, "--topic", name)
    return name


def configs(action: str, broker_address: str, *words: str) -> list[str]:
    return call("configs", action, "--bootstrap-server", broker_address, *words).out


def failure(action: str, broker_address: str, *words: str, check: int = 1) -> str:
    done = call("configs", action, "--bootstrap-server", broker_address, *words, check=check)
    assert done.out == []
    return done.err


def test_of_a_topic(broker_address: str, topic: str) -> None:
    entity = "--entity-type", "topics", "--entity-name", topic
    assert configs("describe", broker_address, *entity) == [f"Dynamic configs for topic {topic} are:"]
    done = configs(
        "alter", broker_address, "--topic", topic, "--add-config", "retention.ms=777,cleanup.policy=[compact,delete]"
    )
    assert done == [f"Completed updating config for topic {topic}."]
    head, policy, retention = configs("describe", broker_address, "--topic", topic)
    assert head == f"Dynamic configs for topic {topic} are:"
    assert policy.startswith("  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup")
    assert retention == "  retention.ms=777 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=777}"

    head, *everything = configs("describe", broker_address, *entity, "--all")
    assert head == f"All configs for topic {topic} are:"
    assert [line.split("=")[0] for line in everything] == sorted(line.split("=")[0] for line in everything)
    assert any(line.startswith("  segment.bytes=") for line in everything)

    configs("alter", broker_address, *entity, "--delete-config", "retention.ms, cleanup.policy")
    assert configs("describe", broker_address, "--topic", topic) == [head.replace("All", "Dynamic")]


def test_as_json(broker_address: str, topic: str) -> None:
    configs("alter", broker_address, "--topic", topic, "--add-config", "retention.ms=5")
    (line,) = configs("describe", broker_address, "--topic", topic, "--json")
    found = json.loads(line)
    synonyms = found.pop("synonyms")
    assert synonyms[0] == {"name": "retention.ms", "value": "5", "source": "DYNAMIC_TOPIC_CONFIG"}
    assert found == {
        "entity_type": "topics",
        "entity_name": topic,
        "name": "retention.ms",
        "value": "5",
        "source": "DYNAMIC_TOPIC_CONFIG",
        "read_only": False,
        "sensitive": False,
    }


def test_of_brokers(broker_address: str) -> None:
    key = "log.cleaner.min.compaction.lag.ms"
    defaults = "--entity-type", "brokers", "--entity-default"
    try:
        done = configs("alter", broker_address, *defaults, "--add-config", f"{key}=321")
        assert done == ["Completed updating default config for brokers in the cluster."]
        found = configs("describe", broker_address, "--entity-type", "brokers")
        assert [line for line in found if not line.startswith(" ")] == [
            "Dynamic configs for broker 0 are:",
            "Default configs for brokers in the cluster are:",
        ]
        assert found[-1].startswith(f"  {key}=321 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=321")
    finally:
        configs("alter", broker_address, "--broker-defaults", "--delete-config", key)
    assert configs("describe", broker_address, "--broker-defaults")[1:] == []
    everything = configs("describe", broker_address, "--broker", "0", "--all")
    assert any(line.startswith("  log.dirs=") for line in everything)


def test_of_a_group(broker_address: str, topic: str) -> None:
    group = f"of-{topic}"
    key = "consumer.heartbeat.interval.ms"
    done = configs("alter", broker_address, "--group", group, "--add-config", f"{key}=6000")
    assert done == [f"Completed updating config for group {group}."]
    head, line = configs("describe", broker_address, "--entity-type", "groups", "--entity-name", group)
    assert head == f"Dynamic configs for group {group} are:"
    assert line.startswith(f"  {key}=6000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{key}=6000")


def test_of_broker_loggers(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    entity = "--entity-type", "broker-loggers", "--entity-name", "0"

    def levels() -> dict[str, str]:
        head, *lines = configs("describe", broker.address, *entity)
        assert head == "Dynamic configs for broker-logger 0 are:"
        assert all(line.endswith(" sensitive=false synonyms={}") for line in lines)
        return dict(line.split()[0].split("=", 1) for line in lines)

    before = levels()
    assert before["root"] == "WARN"
    assert {before[name] for name in ("kafkalog", "broker", "broker.log", "broker.log.recovery.loading")} == {"INFO"}
    done = configs(
        "alter", broker.address, "--broker-logger", "0", "--add-config", "broker=DEBUG,broker.metadata=ERROR"
    )
    assert done == ["Completed updating config for broker-logger 0."]
    changed = levels()
    assert changed["broker"] == "DEBUG"
    assert changed["broker.metadata"] == changed["broker.metadata.local"] == "ERROR"
    assert {name for name in before if before[name] != changed[name]} == {
        name for name in before if name.partition(".")[0] == "broker"
    }
    configs("alter", broker.address, *entity, "--delete-config", "broker.metadata")
    assert levels()["broker.metadata.local"] == "DEBUG"
    for words, said in (
        (("--add-config", "broker=LOUD"), "Cannot set the log level of broker to LOUD as it is not a supported"),
        (("--add-config", "nothing.of.the.kind=INFO"), "Logger nothing.of.the.kind does not exist!"),
        (("--delete-config", "root"), "Removing the log level of the root logger is not allowed"),
        (("--add-config", "broker=WARN,nothing=INFO"), "Logger nothing does not exist!"),
    ):
        assert said in failure("alter", broker.address, *entity, *words)
    assert levels()["broker"] == "DEBUG"
    assert "names no broker 7" in failure("describe", broker.address, "--broker-logger", "7", "--timeout", "500")

    # What is set holds for what is logged, and until the broker ends.
    configs("alter", broker.address, *entity, "--add-config", "broker=WARN")
    assert broker.stop() == 0
    assert "stopping" not in broker.logged()
    broker.start()
    assert levels()["broker"] == "INFO"
    assert broker.stop() == 0
    assert "stopping" in broker.logged()


def test_from_a_file(broker_address: str, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "topic.properties"
    file.write_text("# of this topic\nretention.bytes = 1000\nsegment.bytes=2000\n")
    configs("alter", broker_address, "--topic", topic, "--add-config-file", str(file))
    found = [line.split()[0] for line in configs("describe", broker_address, "--topic", topic)[1:]]
    assert found == ["retention.bytes=1000", "segment.bytes=2000"]
    missing = str(tmp_path / "missing")
    assert missing in failure("alter", broker_address, "--topic", topic, "--add-config-file", missing, check=2)


def test_what_is_refused(broker_address: str, topic: str) -> None:
    assert "Invalid config(s): segment.ms" in failure(
        "alter", broker_address, "--topic", topic, "--delete-config", "segment.ms"
    )
    assert "retention.ms" in failure("alter", broker_address, "--topic", topic, "--add-config", "retention.ms=often")
    assert f"{topic}-none" in failure("describe", broker_address, "--topic", f"{topic}-none")
    assert "nothing to alter" in failure("alter", broker_address, "--topic", topic, check=2)
    assert "entity type" in failure("describe", broker_address, check=2)
    assert "integer broker id" in failure("describe", broker_address, "--broker", "one", check=2)
    assert "only one entity" in failure("describe", broker_address, "--topic", topic, "--broker", "0", check=2)
    assert "entity name" in failure("alter", broker_address, "--entity-type", "topics", "--add-config", "a=b", check=2)


def test_words_of_add_config() -> None:
    assert parse_configs("a=1,b=[x,y], c.d = z ,e=") == {"a": "1", "b": "x,y", "c.d": "z", "e": ""}
    assert parse_configs("a=1,b=2,,") == {"a": "1", "b": "2"}
    assert parse_configs("a=[k=v,l=w]") == {"a": "k=v,l=w"}
    for wrong in ("a", "a=1,b", "a=1,,b=2", "a=b=c", "a b=1", "=1"):
        with pytest.raises(UsageError, match="--add-config"):
            parse_configs(wrong)
