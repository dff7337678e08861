"""A cluster of three of our brokers with Apache Kafka's own tools, and the files that these read."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

from confluent_kafka import KafkaError, Producer

from peers.brokers.kafka_tools import CONFIGS, KafkaTools
from tests.crash.cluster.drilled import DrilledCluster
from tests.support.broker_cluster import IDS

_PACKAGE = "org.apache.kafka.tools"
TOPICS = f"{_PACKAGE}.TopicCommand"
OFFSETS = f"{_PACKAGE}.GetOffsetShell"


class Judge:
    """The cluster, and Kafka's tools."""

    def __init__(self, cluster: DrilledCluster, tools: KafkaTools) -> None:
        self.cluster = cluster
        self._tools = tools

    def run(self, tool: str, *words: str) -> list[str]:
        """Run a tool, which must succeed."""
        found = self._tools.run(tool, "--bootstrap-server", self.cluster.bootstrap, *words)
        assert not [line for line in found if line.startswith(("Error", "Exit"))], found
        return found

    def fail(self, tool: str, *words: str) -> str:
        """Run a tool, which must fail; return what it prints."""
        found = self._tools.run(tool, "--bootstrap-server", self.cluster.bootstrap, *words)
        assert [line for line in found if line.startswith(("Error", "Exit"))], found
        return "\n".join(found)

    def topic(self, assignment: list[list[int]]) -> str:
        """Create a topic by Kafka's tool; return when every broker knows that it is whole."""
        name = f"judged-{uuid.uuid4().hex[:8]}"
        placed = ",".join(":".join(map(str, replicas)) for replicas in assignment)
        assert self.run(TOPICS, "--create", "--topic", name, "--replica-assignment", placed) == [
            f"Created topic {name}."
        ]
        self.cluster.wait_whole(name)
        return name

    def replicas(self, topic: str) -> list[list[int]]:
        found = self.cluster.partitions(topic)
        return [found[index].replica_nodes for index in sorted(found)]

    def leaders(self, topic: str) -> list[int]:
        found = self.cluster.partitions(topic)
        return [found[index].leader_id for index in sorted(found)]

    def write(self, topic: str, index: int, values: list[bytes]) -> list[int | None]:
        """Produce values one after the other; return the code of each one's error, or None."""
        outcomes: list[int | None] = []
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0, "message.max.bytes": 10**6})

        def delivered(error: KafkaError | None, message: object) -> None:
            outcomes.append(None if error is None else error.code())

        for value in values:
            producer.produce(topic, value, partition=index, on_delivery=delivered)
            assert producer.flush(60) == 0
        return outcomes

    def offsets(self, topic: str, at: str) -> list[str]:
        return self.run(OFFSETS, "--topic", topic, "--time", at)

    def configs(self, *entity: str) -> dict[str, str]:
        """Return the dynamic configurations that Kafka's tool describes."""
        lines = self.run(CONFIGS, "--describe", *entity)
        found = (re.match(r"  (\S+?)=(\S*) sensitive=false", line) for line in lines)
        return {match[1]: match[2] for match in found if match is not None}

    def throttles(self, topic: str) -> dict[str, str]:
        """Return the configurations of a topic and of all brokers that throttle replication."""
        brokers = [("--broker", str(broker)) for broker in IDS]
        return {
            f"{' '.join(entity)} {key}": value
            for entity in [("--topic", topic), *brokers]
            for key, value in self.configs(*entity).items()
            if "throttled" in key
        }


def file(tmp_path: Path, content: object) -> str:
    """Write JSON into a new file; return its path."""
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
    path.write_text(json.dumps(content))
    return str(path)


def part(pattern: str, text: str) -> str:
    """Return the first group of a pattern that is in the text."""
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]


def moves(tmp_path: Path, topic: str, *replicas: list[int]) -> tuple[str, str]:
    partitions = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    return "--reassignment-json-file", file(tmp_path, {"version": 1, "partitions": partitions})
