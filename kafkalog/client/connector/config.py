"""The properties of the consumer connector: Kafka 0.8.2's names and defaults, and Kafka 0.7's names.

Source: `ConsumerConfig` and `ZKConfig` of Kafka 0.8.2 and of Kafka 0.7.2.
"""

from __future__ import annotations

import dataclasses
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.client.config import ClientConfig
from kafkalog.client.connector.assignment import STRATEGIES
from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import boolean, integer, milliseconds, one_of, option, read_options
from kafkalog.client.properties.providers import resolve
from kafkalog.client.zookeeper.nodes import check_group
from kafkalog.client.zookeeper.security import SecurityOptions, read_security
from kafkalog.client.zookeeper.session import ZooKeeperSession

ZOOKEEPER, KAFKA = "zookeeper", "kafka"
_LONG = 1 << 31


def _timeout(text: str) -> float | None:
    value = integer(-_LONG)(text)
    return None if value < 0 else value / 1000


@dataclass(frozen=True)
class ConnectorConfig:
    """Settings of a consumer connector; durations in seconds, sizes in bytes."""

    zookeeper_connect: str = option("zookeeper.connect", "", str, "zk.connect")
    session_timeout: float = option("zookeeper.session.timeout.ms", 6.0, milliseconds(1), "zk.sessiontimeout.ms")
    connection_timeout: float | None = option(
        "zookeeper.connection.timeout.ms", None, milliseconds(1), "zk.connectiontimeout.ms"
    )
    sync_time: float = option("zookeeper.sync.time.ms", 2.0, milliseconds(), "zk.synctime.ms")

    group_id: str = option("group.id", "", str, "groupid")
    consumer_id: str | None = option("consumer.id", None, str, "consumerid")
    client_id: str | None = option("client.id", None, str)
    partition_assignment_strategy: str = option("partition.assignment.strategy", "range", one_of(*STRATEGIES))
    rebalance_max_retries: int = option("rebalance.max.retries", 4, integer(1), "rebalance.retries.max")
    rebalance_backoff: float | None = option("rebalance.backoff.ms", None, milliseconds())
    exclude_internal_topics: bool = option("exclude.internal.topics", True, boolean)

    socket_timeout: float = option("socket.timeout.ms", 30.0, milliseconds(1))
    socket_receive_buffer_bytes: int = option("socket.receive.buffer.bytes", 64 << 10, integer(-1), "socket.buffersize")
    fetch_message_max_bytes: int = option("fetch.message.max.bytes", 1 << 20, integer(1), "fetch.size")
    fetch_min_bytes: int = option("fetch.min.bytes", 1, integer(0))
    fetch_wait_max: float = option("fetch.wait.max.ms", 0.1, milliseconds())
    num_consumer_fetchers: int = option("num.consumer.fetchers", 1, integer(1, 1000))
    queued_max_message_chunks: int = option("queued.max.message.chunks", 2, integer(1), "queuedchunks.max")
    refresh_leader_backoff: float = option("refresh.leader.backoff.ms", 0.2, milliseconds(), "fetcher.backoff.ms")
    auto_offset_reset: str = option("auto.offset.reset", "largest", one_of("smallest", "largest"), "autooffset.reset")
    consumer_timeout: float | None = option("consumer.timeout.ms", None, _timeout)
    """None waits for ever."""

    auto_commit_enable: bool = option("auto.commit.enable", True, boolean, "autocommit.enable")
    auto_commit_interval: float = option("auto.commit.interval.ms", 60.0, milliseconds(1), "autocommit.interval.ms")
    offsets_storage: str = option("offsets.storage", ZOOKEEPER, one_of(ZOOKEEPER, KAFKA))
    dual_commit_enabled: bool | None = option("dual.commit.enabled", None, boolean)
    offsets_channel_backoff: float = option("offsets.channel.backoff.ms", 1.0, milliseconds())
    offsets_channel_socket_timeout: float = option("offsets.channel.socket.timeout.ms", 10.0, milliseconds(1))
    offsets_commit_max_retries: int = option("offsets.commit.max.retries", 5, integer(0))

    zookeeper_security: SecurityOptions = dataclasses.field(default_factory=SecurityOptions)
    """The security of the session with ZooKeeper: `zookeeper.ssl.client.enable`, …"""
    rest: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """The other properties: those of the client, such as `security.protocol`."""
    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties that neither the connector nor the client knows."""

    @classmethod
    def from_dict(cls, properties: Mapping[str, Any]) -> ConnectorConfig:
        """Make settings from properties.

        Raises:
            ConfigError: A property is missing or cannot have its value, or properties contradict each other.
        """
        values, rest = read_options(cls, resolve(properties))
        security, rest = read_security(rest)
        rest.pop("bootstrap.servers", None)
        config = cls(**values, zookeeper_security=security, rest=rest, unknown=ClientConfig.from_dict(rest).unknown)
        if not config.zookeeper_connect:
            raise ConfigError("zookeeper.connect is missing: give the host:port of at least one ZooKeeper")
        if not config.group_id:
            raise ConfigError("group.id is missing: name the group")
        check_group(config.group_id)
        if config.consumer_id is not None:
            check_group(config.consumer_id)
        if config.fetch_wait_max > config.socket_timeout:
            raise ConfigError("socket.timeout.ms should always be at least fetch.wait.max.ms")
        return config

    @property
    def backoff(self) -> float:
        """Seconds between the tries of a rebalance."""
        return self.sync_time if self.rebalance_backoff is None else self.rebalance_backoff

    @property
    def connect_patience(self) -> float:
        """Seconds to wait for ZooKeeper at the start."""
        return self.session_timeout if self.connection_timeout is None else self.connection_timeout

    def new_consumer_id(self) -> str:
        """Make an id that no other member has, in the form of Kafka 0.8's, unless `consumer.id` names one."""
        if self.consumer_id is not None:
            return f"{self.group_id}_{self.consumer_id}"
        return f"{self.group_id}_{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"

    def open_session(self, **more: Any) -> ZooKeeperSession:
        """Open a session with ZooKeeper; `more` are arguments of `ZooKeeperSession`.

        Raises:
            ConfigError: What secures it cannot be used.
            ConnectionLossError, AccessDeniedError: As `ZooKeeperSession`.
        """
        return ZooKeeperSession(
            self.zookeeper_connect,
            session_timeout=self.session_timeout,
            connect_timeout=self.connect_patience,
            security=self.zookeeper_security.security(),
            **more,
        )

    @property
    def is_dual(self) -> bool:
        """Return whether offsets are kept in ZooKeeper beside Kafka."""
        if self.offsets_storage == ZOOKEEPER:
            return False
        return True if self.dual_commit_enabled is None else self.dual_commit_enabled

    @property
    def security_protocol(self) -> str:
        """The protocol of the brokers' listeners to use."""
        return ClientConfig.from_dict(self.rest).security_protocol

    def client(self, bootstrap_servers: str, **more: str) -> ClientConfig:
        """Return the settings of a client of these brokers. `more` are properties with underscores for dots."""
        return ClientConfig.from_dict(
            {
                "client.id": self.client_id or self.group_id,
                "request.timeout.ms": round(self.socket_timeout * 1000),
                "receive.buffer.bytes": self.socket_receive_buffer_bytes,
                "max.partition.fetch.bytes": self.fetch_message_max_bytes,
                "fetch.min.bytes": self.fetch_min_bytes,
                "fetch.max.wait.ms": round(self.fetch_wait_max * 1000),
                "retry.backoff.ms": round(self.refresh_leader_backoff * 1000),
                "auto.offset.reset": "earliest" if self.auto_offset_reset == "smallest" else "latest",
                **self.rest,
                "bootstrap.servers": bootstrap_servers,
                **{key.replace("_", "."): value for key, value in more.items()},
            }
        )
