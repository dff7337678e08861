"""The properties of the old producer: Kafka 0.8.2's names and defaults, and Kafka 0.7's names.

Source: `ProducerConfig`, `AsyncProducerConfig` and `SyncProducerConfig` of Kafka 0.8.2 and of Kafka 0.7.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.client.errors import ConfigError
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.properties.options import INT32_MAX, integer, milliseconds, one_of, option, read_options
from kafkalog.client.properties.providers import resolve
from kafkalog.client.zookeeper.security import SecurityOptions, read_security
from kafkalog.client.zookeeper.session import ZooKeeperSession

SYNC, ASYNC = "sync", "async"
NONE = "none"
_CODECS = (NONE, "gzip", "snappy", "lz4")
_ENCODERS = {
    "kafka.serializer.DefaultEncoder": "ByteArraySerializer",
    "kafka.serializer.StringEncoder": "StringSerializer",
    "kafka.serializer.IntegerEncoder": "IntegerSerializer",
    "kafka.serializer.LongEncoder": "LongSerializer",
    "kafka.serializer.NullEncoder": "VoidSerializer",
}
_INSTEAD = {
    "reconnect.interval": "connections are kept",
    "reconnect.time.interval.ms": "connections are kept",
    "zk.read.num.retries": "the leader of a partition is looked up again until it is found",
    "zk.synctime.ms": "ZooKeeper tells of changes",
    "zookeeper.sync.time.ms": "ZooKeeper tells of changes",
    "event.handler": "records are sent by this producer",
    "event.handler.props": "records are sent by this producer",
    "callback.handler": "errors of async are logged",
    "callback.handler.props": "errors of async are logged",
}
"""Properties without effect, each with what happens instead."""


def _addresses(text: str) -> str:
    """Return `host:port,…`; the addresses of Kafka 0.7 begin with a broker's id (`0:host:port`)."""
    found = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        number, _, rest = each.partition(":")
        found.append(rest if number.isdecimal() and rest.count(":") == 1 and not rest.startswith("[") else each)
    return ",".join(found)


def _codec(text: str) -> str:
    if text.isdecimal() and int(text) < len(_CODECS):
        return _CODECS[int(text)]
    return one_of(*_CODECS)(text)


def _topics(text: str) -> frozenset[str]:
    return frozenset(filter(None, (each.strip() for each in text.split(","))))


def _encoder(given: Any) -> Any:
    return _ENCODERS.get(given, given) if isinstance(given, str) else given


def _same(given: Any) -> Any:
    return given


_LONG = -(1 << 31)


@dataclass(frozen=True)
class OldProducerConfig:
    """Settings of an old producer; durations in seconds, sizes in bytes."""

    broker_list: str = option("metadata.broker.list", "", _addresses, "broker.list")
    zookeeper_connect: str = option("zk.connect", "", str, "zookeeper.connect")
    session_timeout: float = option("zk.sessiontimeout.ms", 6.0, milliseconds(1), "zookeeper.session.timeout.ms")
    connection_timeout: float | None = option(
        "zk.connectiontimeout.ms", None, milliseconds(1), "zookeeper.connection.timeout.ms"
    )

    producer_type: str = option("producer.type", SYNC, one_of(SYNC, ASYNC))
    serializer: object | None = option("serializer.class", "ByteArraySerializer", _encoder, is_object=True)
    key_serializer: object | None = option("key.serializer.class", None, _encoder, is_object=True)
    """None: the same as for values."""
    partitioner: object | None = option("partitioner.class", None, _same, is_object=True)
    compression_codec: str = option("compression.codec", NONE, _codec)
    compressed_topics: frozenset[str] = option("compressed.topics", frozenset(), _topics)
    """The topics whose messages are compressed; none stand for all."""

    required_acks: int = option("request.required.acks", 0, integer(-1, 1))
    request_timeout: float = option("request.timeout.ms", 10.0, milliseconds(1), "socket.timeout.ms")
    connect_timeout: float = option("connect.timeout.ms", 5.0, milliseconds(1))
    send_max_retries: int = option("message.send.max.retries", 3, integer(0, 1000), "num.retries")
    retry_backoff: float = option("retry.backoff.ms", 0.1, milliseconds())
    metadata_refresh: int = option("topic.metadata.refresh.interval.ms", 600_000, integer(_LONG))
    """In ms; negative: only after failures."""
    send_buffer_bytes: int = option("send.buffer.bytes", 100 * 1024, integer(-1), "buffer.size")
    max_message_size: int | None = option("max.message.size", None, integer(1))
    client_id: str = option("client.id", "", str)

    buffering_max: float = option("queue.buffering.max.ms", 5.0, milliseconds(), "queue.time")
    buffering_max_messages: int = option("queue.buffering.max.messages", 10_000, integer(1), "queue.size")
    enqueue_timeout: int = option("queue.enqueue.timeout.ms", -1, integer(_LONG), "queue.enqueueTimeout.ms")
    """In ms; negative waits for ever."""
    batch_num_messages: int = option("batch.num.messages", 200, integer(1), "batch.size")

    zookeeper_security: SecurityOptions = dataclasses.field(default_factory=SecurityOptions)
    rest: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """The other properties: those of the client, such as `security.protocol`."""
    instead: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties without effect, and what happens instead."""

    @classmethod
    def from_dict(cls, properties: Mapping[str, Any]) -> OldProducerConfig:
        """Make settings from properties.

        Raises:
            ConfigError: A property is missing or cannot have its value, or properties contradict each other.
        """
        values, rest = read_options(cls, resolve(properties))
        security, rest = read_security(rest)
        instead = {key: _INSTEAD[key] for key in rest if key in _INSTEAD}
        rest = {key: given for key, given in rest.items() if key not in _INSTEAD}
        config = cls(**values, zookeeper_security=security, rest=rest, instead=instead)
        if config.broker_list and config.zookeeper_connect:
            raise ConfigError("only one of metadata.broker.list (broker.list) and zk.connect can be set")
        if not config.broker_list and not config.zookeeper_connect:
            raise ConfigError("metadata.broker.list (broker.list) or zk.connect is missing: name a broker or ZooKeeper")
        if config.batch_num_messages > config.buffering_max_messages:
            raise ConfigError(
                f"batch.num.messages={config.batch_num_messages}: it can't be larger than queue.buffering.max.messages"
                f"={config.buffering_max_messages}"
            )
        return config

    def is_compressed(self, topic: str) -> bool:
        """Return whether the messages of a topic are compressed."""
        return self.compression_codec != NONE and (not self.compressed_topics or topic in self.compressed_topics)

    def producer(self, bootstrap_servers: str, *, compress: bool) -> ProducerConfig:
        """Return the settings of the producer that sends the messages.

        Raises:
            ConfigError: A property cannot have its value.
        """
        patience_s = (self.send_max_retries + 1) * (self.request_timeout + self.retry_backoff)
        refresh = self.metadata_refresh if self.metadata_refresh >= 0 else INT32_MAX
        given: dict[str, Any] = {
            "acks": self.required_acks,
            "request.timeout.ms": round(self.request_timeout * 1000),
            "socket.connection.setup.timeout.ms": round(self.connect_timeout * 1000),
            "delivery.timeout.ms": round(patience_s * 1000),
            "max.block.ms": round(patience_s * 1000),
            "retries": self.send_max_retries,
            "retry.backoff.ms": round(self.retry_backoff * 1000),
            "retry.backoff.max.ms": round(self.retry_backoff * 1000),
            "metadata.max.age.ms": refresh,
            "send.buffer.bytes": self.send_buffer_bytes,
            # One request to a broker at a time: a batch that is sent again is not overtaken.
            "max.in.flight.requests.per.connection": 1,
            "compression.type": self.compression_codec if compress else NONE,
            "value.serializer": self.serializer,
            "key.serializer": self.serializer if self.key_serializer is None else self.key_serializer,
            **({"max.request.size": self.max_message_size} if self.max_message_size else {}),
            **({"client.id": self.client_id} if self.client_id else {}),
        }
        return ProducerConfig.from_dict({**given, **self.rest, "bootstrap.servers": bootstrap_servers})

    def open_session(self, **more: Any) -> ZooKeeperSession:
        """Open a session with ZooKeeper; `more` are arguments of `ZooKeeperSession`.

        Raises:
            ConfigError: What secures it cannot be used.
            ConnectionLossError, AccessDeniedError: As `ZooKeeperSession`.
        """
        patience = self.session_timeout if self.connection_timeout is None else self.connection_timeout
        return ZooKeeperSession(
            self.zookeeper_connect,
            session_timeout=self.session_timeout,
            connect_timeout=patience,
            security=self.zookeeper_security.security(),
            **more,
        )
