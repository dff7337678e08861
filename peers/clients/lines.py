"""Clients that are programs. They read a JSON request from each line and write a JSON reply as a line.

Bytes are in hex, null is null. A request has "op", the name of a method of ForeignClient, and the method's arguments.

| op | reply |
|--|--|
| produce | {"offsets": [...]} |
| consume | {"records": [{"offset", "timestamp", "key", "value", "headers"}, ...]} |
| consume_all | {"offsets": [[...], ...]} |
| list_offset | {"offset", "timestamp"} |
| describe_config | {"config": {name: value}} |
| delete_records | {"low": log start offset} |
| partition_count | {"partitions"} |
| create_topic, delete_topic, alter_config, create_partitions | {} |
| any op that failed | {"error": Kafka's error code or -1, "message": text} |
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
from abc import ABC
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers.brokers import kafka
from peers.clients.base import DEADLINE_S, DEFAULT_MAX_REQUEST, ClientError, ForeignClient, Record
from peers.toolchains import golang, java, node

HERE = Path(__file__).parent
JAVA_SOURCE = HERE / "JavaClient.java"
NODE_SOURCE = HERE / "kafkajs_client.js"
GO_SOURCE = HERE / "franz_client.go"

_REPLY_DEADLINE_S = 2 * DEADLINE_S


class LineClient(ForeignClient, ABC):
    """A ForeignClient that is a program with the line protocol."""

    features = frozenset(
        {"idempotent", "transactions", "timestamps", "null_record", "null_header", "admin", "acks_0"}
        | {"list_offset", "max_timestamp", "delete_records", "describe_config", "consume_all"}
    )

    def __init__(self, bootstrap: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(bootstrap)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the client
        self._process = subprocess.Popen(
            [*command, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **(env or {})},
        )
        self._unread = bytearray()

    def _line(self) -> bytes:
        """Return one whole line of the reply.

        Raises:
            ClientError: The program ends or does not reply in time.
        """
        out = self._process.stdout
        assert out is not None
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(_REPLY_DEADLINE_S):
                    raise ClientError(-1, f"{self.name} gave no reply in {_REPLY_DEADLINE_S:.0f} s")
                part = os.read(out.fileno(), 1 << 20)
                if not part:
                    raise ClientError(-1, f"{self.name} ended: {self._said()}")
                self._unread += part
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread = bytearray(rest)
        return line

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-4000:].decode(errors="replace")

    def _ask(self, op: str, **arguments: object) -> dict[str, Any]:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        stdin.flush()
        reply: dict[str, Any] = json.loads(self._line())
        if "error" in reply:
            raise ClientError(reply["error"], reply["message"])
        return reply

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions, config=dict(config or {}))

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transaction: str = "",
        max_request: int = DEFAULT_MAX_REQUEST,
    ) -> list[int]:
        reply = self._ask(
            "produce",
            topic=topic,
            partition=partition,
            records=[to_json(record) for record in records],
            codec=codec,
            acks=acks,
            idempotent=idempotent,
            transaction=transaction,
            max_request=max_request,
        )
        return [int(offset) for offset in reply["offsets"]]

    def consume(
        self, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        reply = self._ask("consume", topic=topic, partition=partition, start=start, end=end, isolation=isolation)
        return [from_json(record) for record in reply["records"]]

    def consume_all(self, topic: str, ends: Sequence[int]) -> list[list[int]]:
        offsets: list[list[int]] = self._ask("consume_all", topic=topic, ends=list(ends))["offsets"]
        return offsets

    def list_offset(self, topic: str, partition: int, at: str) -> tuple[int, int]:
        reply = self._ask("list_offset", topic=topic, partition=partition, at=at)
        return int(reply["offset"]), int(reply["timestamp"])

    def describe_config(self, topic: str) -> dict[str, str | None]:
        config: dict[str, str | None] = self._ask("describe_config", topic=topic)["config"]
        return config

    def alter_config(self, topic: str, values: Mapping[str, str]) -> None:
        self._ask("alter_config", topic=topic, config=dict(values))

    def partition_count(self, topic: str) -> int:
        return int(self._ask("partition_count", topic=topic)["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._ask("create_partitions", topic=topic, partitions=total)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(self._ask("delete_records", topic=topic, partition=partition, before=before)["low"])

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


class JavaClient(LineClient):
    """The Java producer, consumer and admin client of Apache Kafka 4.x."""

    name = "java-4"
    version = kafka.KAFKA_4

    def __init__(self, bootstrap: str) -> None:
        jvm = ["-Xmx512M", *kafka.logging_options(self.version, kafka.tool_directory(self.version))]
        jars = kafka.kafka_classpath(self.version)
        super().__init__(bootstrap, java.java_line(jars, str(JAVA_SOURCE), [], jvm))

    @classmethod
    def missing(cls) -> str | None:
        return kafka.missing(cls.version)


class Java3Client(JavaClient):
    """The Java producer, consumer and admin client of Apache Kafka 3.9."""

    name = "java-3"
    version = kafka.KAFKA_3


class KafkaJsClient(LineClient):
    """The client kafkajs; gzip is its only codec."""

    name = "kafkajs"
    codecs = ("none", "gzip")
    # kafkajs has no max-timestamp look-up, omits headers without a value, and assigns many partitions in groups only.
    features = LineClient.features - {"max_timestamp", "null_header", "consume_all"}

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, node.node_line(NODE_SOURCE), node.environment())

    @classmethod
    def missing(cls) -> str | None:
        return node.missing()


class FranzGoClient(LineClient):
    """The client franz-go: kgo and kadm."""

    name = "franz-go"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, [str(golang.build(GO_SOURCE))])

    @classmethod
    def missing(cls) -> str | None:
        return golang.missing(GO_SOURCE)


def to_json(record: Record) -> dict[str, object]:
    return {
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[name, None if value is None else value.hex()] for name, value in record.headers],
        "timestamp": record.timestamp,
    }


def from_json(record: Mapping[str, Any]) -> Record:
    def raw(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    return Record(
        key=raw(record["key"]),
        value=raw(record["value"]),
        headers=tuple((name, raw(value)) for name, value in record["headers"]),
        timestamp=int(record["timestamp"]),
        offset=int(record["offset"]),
    )
