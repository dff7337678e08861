"""Tests of `kafkalog topics` against a real broker."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from tests.support.command import lines, run


@pytest.fixture
def name() -> str:
    return f"topics-{uuid.uuid4().hex[:10]}"


def topics(action: str, broker_address: str, *words: str, check: int = 0) -> list[str]:
    return list(lines(run("topics", action, "--bootstrap-server", broker_address, *words, check=check)))


def failure(action: str, broker_address: str, *words: str, check: int = 1) -> str:
    done = run("topics", action, "--bootstrap-server", broker_address, *words, check=check)
    assert done.stdout == b""
    message = done.stderr.decode()
    assert "Traceback" not in message
    return message


def test_from_creation_to_deletion(broker_address: str, name: str) -> None:
    created = topics(
        "create", broker_address, "--topic", name, "--partitions", "3", "--replication-factor", "1",
        "--config", "retention.ms=123456", "--config", "cleanup.policy=compact,delete",
    )  # fmt: skip
    assert created == [f"Created topic {name}."]
    assert name in topics("list", broker_address)
    assert topics("list", broker_address, "--topic", name[:-1] + ".") == [name]

    first, *rest = topics("describe", broker_address, "--topic", name)
    found = re.fullmatch(
        rf"Topic: {name}\tTopicId: ([\w-]{{22}})\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: (.*)", first
    )
    assert found is not None
    assert {"retention.ms=123456", "cleanup.policy=compact,delete"} <= set(
        re.findall(r"[a-z.]+=[^=]*?(?=,[a-z.]+=|$)", found[2])
    )
    node = rest[0].partition("Leader: ")[2].partition("\t")[0]
    assert rest == [
        f"\tTopic: {name}\tPartition: {n}\tLeader: {node}\tReplicas: {node}\tIsr: {node}\tElr: N/A\tLastKnownElr: N/A"
        for n in range(3)
    ]
    assert topics("describe", broker_address, "--topic-id", found[1])[0] == first

    assert topics("alter", broker_address, "--topic", name, "--partitions", "5") == []
    assert topics("alter", broker_address, "--topic", name, "--config", "retention.ms=77") == []
    assert topics("alter", broker_address, "--topic", name, "--delete-config", "cleanup.policy") == []
    first, *rest = topics("describe", broker_address, "--topic", name)
    assert "PartitionCount: 5" in first
    assert "retention.ms=77" in first
    assert "cleanup.policy" not in first
    assert len(rest) == 5

    assert topics("delete", broker_address, "--topic", name) == []
    assert name not in topics("list", broker_address)


def test_if_exists(broker_address: str, name: str) -> None:
    assert topics("create", broker_address, "--topic", name, "--if-not-exists") != []
    assert topics("create", broker_address, "--topic", name, "--if-not-exists") == []
    assert "already exists" in failure("create", broker_address, "--topic", name)
    assert topics("delete", broker_address, "--topic", name) == []
    for action, *words in (["delete"], ["describe"], ["alter", "--partitions", "3"]):
        assert topics(action, broker_address, "--topic", name, "--if-exists", *words) == []
        message = failure(action, broker_address, "--topic", name, *words)
        assert message.startswith(f"kafkalog: Topic '{name}' does not exist as expected; ")


def test_what_the_broker_refuses(broker_address: str, name: str) -> None:
    assert "bad name" in failure("create", broker_address, "--topic", "bad name")
    assert "retention.ms" in failure("create", broker_address, "--topic", name, "--config", "retention.ms=often")
    assert "eplication" in failure("create", broker_address, "--topic", name, "--replication-factor", "99")
    assert topics("create", broker_address, "--topic", name, "--partitions", "2") != []
    assert "partition" in failure("alter", broker_address, "--topic", name, "--partitions", "1").lower()


def test_wrong_usage(broker_address: str, name: str, tmp_path: Path) -> None:
    assert "--topic" in failure("create", broker_address, check=2)
    assert "'0' is no integer" in failure("create", broker_address, "--topic", name, "--partitions", "0", check=2)
    assert "expected KEY=VALUE" in failure("create", broker_address, "--topic", name, "--config", "x", check=2)
    assert "names a broker twice" in failure(
        "create", broker_address, "--topic", name, "--replica-assignment", "0:0", check=2
    )
    assert "nothing to alter" in failure("alter", broker_address, "--topic", name, check=2)
    assert "--topic [" in failure("describe", broker_address, "--topic", "[", check=2)
    missing = tmp_path / "missing.properties"
    assert str(missing) in failure("list", broker_address, "--command-config", str(missing), check=2)
    assert "no address" in failure("list", "localhost", check=2)


def test_replica_assignment(broker_address: str, name: str) -> None:
    topics("create", broker_address, "--topic", f"{name}-first")
    node = topics("describe", broker_address, "--topic", f"{name}-first")[1].partition("Leader: ")[2].partition("\t")[0]
    topics("create", broker_address, "--topic", name, "--replica-assignment", f"{node},{node}")
    assert len(topics("describe", broker_address, "--topic", name)) == 3
    topics(
        "alter", broker_address, "--topic", name, "--partitions", "3", "--replica-assignment", f"{node},{node},{node}"
    )
    assert len(topics("describe", broker_address, "--topic", name)) == 4


def test_filters(broker_address: str, name: str) -> None:
    topics("create", broker_address, "--topic", name, "--config", "min.insync.replicas=2", "--partitions", "2")
    for words, count in (
        (["--under-replicated-partitions"], 0),
        (["--unavailable-partitions"], 0),
        (["--at-min-isr-partitions"], 0),
        (["--under-min-isr-partitions"], 2),
        (["--under-min-isr-partitions", "--unavailable-partitions"], 2),
        (["--topics-with-overrides"], 1),
    ):
        assert len(topics("describe", broker_address, "--topic", name, *words)) == count, words


@pytest.mark.usefixtures("processes")
def test_no_broker_there(name: str, tmp_path: Path) -> None:
    quick = tmp_path / "client.properties"
    quick.write_text("default.api.timeout.ms=300\nretry.backoff.ms=20\nno.such.property=1\n")
    message = failure("list", "127.0.0.1:1", "--command-config", str(quick))
    assert "Connection refused" in message
    assert "no.such.property is not known" in message


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("action", ["create", "list", "describe", "alter", "delete"])
def test_help(action: str) -> None:
    text = run("topics", action, "--help").stdout.decode()
    assert f"kafkalog topics {action} --bootstrap-server localhost:9092" in text
