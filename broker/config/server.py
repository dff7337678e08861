"""Keys of a broker, and the effective configuration computed from them.

Names and defaults are Apache Kafka 3.9's; ``server.properties`` of a Kafka broker is read as it is. Keys of Kafka that
mean nothing here (thread counts, for one event loop serves all connections) are accepted and named once in the log.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from broker.config.coordinators import GROUP_KEYS, TRANSACTION_KEYS, TRANSACTION_LOG_KEYS, group_fault
from broker.config.definition import (
    ConfigDefinition,
    ConfigError,
    ConfigKey,
    Type,
    Update,
    Value,
    at_least,
    between,
    list_of,
    one_of,
)
from broker.config.listeners import Endpoint, parse_listeners, parse_protocol_map
from broker.config.message_format import is_version
from broker.config.topic import (
    COMPRESSION_TYPES,
    GZIP_LEVEL,
    LZ4_LEVEL,
    MAX_INT,
    MAX_LONG,
    TOPIC_CONFIG,
    ZSTD_LEVEL,
    log_config,
)
from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.log_config import LogConfig

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_DYNAMIC = Update.CLUSTER_WIDE

SERVER_CONFIG = ConfigDefinition(
    [
        # Identity and where things are
        ConfigKey("broker.id", Type.INT, -1, "This broker's id; -1 takes the id stored in the log directory, or 0.", at_least(-1)),
        ConfigKey("broker.rack", Type.STRING, None, "Rack of this broker, told to clients in metadata."),
        ConfigKey("listeners", Type.LIST, ("PLAINTEXT://:9092",), "Where the broker listens: NAME://host:port, comma-separated; an empty host is every interface, port 0 any free port."),
        ConfigKey("advertised.listeners", Type.LIST, None, "Addresses told to clients, one for each listener by name; by default those of listeners."),
        ConfigKey("listener.security.protocol.map", Type.LIST, ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"), "Security protocol of each listener name."),
        ConfigKey("log.dir", Type.STRING, "/tmp/kafka-logs", "Directory of the log, when log.dirs is not set."),
        ConfigKey("log.dirs", Type.LIST, None, "Directories of the log, comma-separated; partitions spread over them."),
        # Topics
        ConfigKey("auto.create.topics.enable", Type.BOOLEAN, True, "Create a topic when a client asks for it and it does not exist. The answer has its partitions and their leaders at once, where Apache Kafka answers LEADER_NOT_AVAILABLE first."),
        ConfigKey("delete.topic.enable", Type.BOOLEAN, True, "Allow topics to be deleted."),
        ConfigKey("num.partitions", Type.INT, 1, "Partitions of a topic whose creation does not say.", at_least(1)),
        ConfigKey("default.replication.factor", Type.INT, 1, "Replicas of a topic whose creation does not say.", at_least(1)),
        ConfigKey("min.insync.replicas", Type.INT, 1, "Default of min.insync.replicas.", at_least(1), _DYNAMIC),
        ConfigKey("unclean.leader.election.enable", Type.BOOLEAN, False, "Default of unclean.leader.election.enable.", None, _DYNAMIC),
        # Replication
        ConfigKey("leader.replication.throttled.rate", Type.LONG, MAX_LONG, "Bytes a second that leaders send to throttled followers; accepted for Kafka's reassignment tool.", at_least(0), Update.PER_BROKER, effect=False),
        ConfigKey("follower.replication.throttled.rate", Type.LONG, MAX_LONG, "Bytes a second that throttled followers take; accepted for Kafka's reassignment tool.", at_least(0), Update.PER_BROKER, effect=False),
        ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", Type.LONG, MAX_LONG, "Bytes a second that all moves of partitions between log directories together may copy.", at_least(0), Update.PER_BROKER),
        ConfigKey("num.replica.alter.log.dirs.threads", Type.INT, None, "Partitions that are moved between log directories at once; by default as many as there are log directories.", at_least(1)),
        # Log
        ConfigKey("compression.type", Type.STRING, "producer", "Default of compression.type.", one_of(*COMPRESSION_TYPES), _DYNAMIC),
        ConfigKey("compression.gzip.level", Type.INT, -1, "Default of compression.gzip.level.", GZIP_LEVEL, _DYNAMIC),
        ConfigKey("compression.lz4.level", Type.INT, 9, "Default of compression.lz4.level.", LZ4_LEVEL, _DYNAMIC),
        ConfigKey("compression.zstd.level", Type.INT, 3, "Default of compression.zstd.level.", ZSTD_LEVEL, _DYNAMIC),
        ConfigKey("message.max.bytes", Type.INT, 1_048_588, "Default of max.message.bytes.", at_least(0), _DYNAMIC),
        ConfigKey("log.segment.bytes", Type.INT, 1 << 30, "Default of segment.bytes.", at_least(14), _DYNAMIC),
        ConfigKey("log.roll.ms", Type.LONG, None, "Default of segment.ms.", at_least(1), _DYNAMIC, ("log.roll.hours",)),
        ConfigKey("log.roll.hours", Type.INT, 168, "Default of segment.ms in hours, when log.roll.ms is not set.", at_least(1)),
        ConfigKey("log.roll.jitter.ms", Type.LONG, None, "Default of segment.jitter.ms.", at_least(0), _DYNAMIC, ("log.roll.jitter.hours",)),
        ConfigKey("log.roll.jitter.hours", Type.INT, 0, "Default of segment.jitter.ms in hours.", at_least(0)),
        ConfigKey("log.retention.ms", Type.LONG, None, "Default of retention.ms.", at_least(-1), _DYNAMIC, ("log.retention.minutes", "log.retention.hours")),
        ConfigKey("log.retention.minutes", Type.INT, None, "Default of retention.ms in minutes, when log.retention.ms is not set."),
        ConfigKey("log.retention.hours", Type.INT, 168, "Default of retention.ms in hours, when neither of the above is set."),
        ConfigKey("log.retention.bytes", Type.LONG, -1, "Default of retention.bytes.", None, _DYNAMIC),
        ConfigKey("log.local.retention.bytes", Type.LONG, -2, "Default of local.retention.bytes.", at_least(-2), _DYNAMIC, effect=False),
        ConfigKey("log.local.retention.ms", Type.LONG, -2, "Default of local.retention.ms.", at_least(-2), _DYNAMIC, effect=False),
        ConfigKey("log.retention.check.interval.ms", Type.LONG, 300_000, "How often retention is applied.", at_least(1)),
        ConfigKey("log.cleanup.policy", Type.LIST, ("delete",), "Default of cleanup.policy.", list_of("delete", "compact", empty=True), _DYNAMIC),
        ConfigKey("log.cleaner.enable", Type.BOOLEAN, True, "Compact the topics whose cleanup.policy asks for it; without it they grow for ever."),
        ConfigKey("log.cleaner.threads", Type.INT, 1, "Threads that compact, one log each at a time.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.dedupe.buffer.size", Type.LONG, 128 << 20, "Memory for the offset maps of all cleaner threads, 24 bytes a key; it is taken while a log is compacted, and no more than the log's keys need.", None, _DYNAMIC),
        ConfigKey("log.cleaner.io.buffer.size", Type.INT, 512 << 10, "Memory for the reading and writing of all cleaner threads.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.io.buffer.load.factor", Type.DOUBLE, 0.9, "How full an offset map may become: more means fewer passes over a log, and slower ones.", between(0.01, 1), _DYNAMIC),
        ConfigKey("log.cleaner.io.max.bytes.per.second", Type.DOUBLE, sys.float_info.max, "What all cleaner threads together may read and write in a second, on average.", None, _DYNAMIC),
        ConfigKey("log.cleaner.backoff.ms", Type.LONG, 15_000, "How long a cleaner thread waits when there is nothing to compact.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.delete.retention.ms", Type.LONG, 86_400_000, "Default of delete.retention.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.min.compaction.lag.ms", Type.LONG, 0, "Default of min.compaction.lag.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.max.compaction.lag.ms", Type.LONG, MAX_LONG, "Default of max.compaction.lag.ms.", at_least(1), _DYNAMIC),
        ConfigKey("log.cleaner.min.cleanable.ratio", Type.DOUBLE, 0.5, "Default of min.cleanable.dirty.ratio.", between(0, 1), _DYNAMIC),
        ConfigKey("log.index.size.max.bytes", Type.INT, 10 << 20, "Default of segment.index.bytes.", at_least(4), _DYNAMIC),
        ConfigKey("log.index.interval.bytes", Type.INT, 4096, "Default of index.interval.bytes.", at_least(0), _DYNAMIC),
        ConfigKey("log.flush.interval.messages", Type.LONG, MAX_LONG, "Default of flush.messages.", at_least(1), _DYNAMIC),
        ConfigKey("log.flush.interval.ms", Type.LONG, None, "Default of flush.ms.", at_least(0), _DYNAMIC, ("log.flush.scheduler.interval.ms",)),
        ConfigKey("log.flush.scheduler.interval.ms", Type.LONG, MAX_LONG, "How often the broker looks for logs whose flush.ms has passed."),
        ConfigKey("log.flush.offset.checkpoint.interval.ms", Type.INT, 60_000, "How often recovery points are checkpointed.", at_least(0)),
        ConfigKey("log.flush.start.offset.checkpoint.interval.ms", Type.INT, 60_000, "How often log start offsets are checkpointed.", at_least(0)),
        ConfigKey("log.segment.delete.delay.ms", Type.LONG, 60_000, "Default of file.delete.delay.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.preallocate", Type.BOOLEAN, False, "Default of preallocate.", None, _DYNAMIC),
        ConfigKey("log.message.format.version", Type.STRING, "3.0-IV1", "Default of message.format.version.", is_version, _DYNAMIC),
        ConfigKey("log.message.timestamp.type", Type.STRING, "CreateTime", "Default of message.timestamp.type.", one_of("CreateTime", "LogAppendTime"), _DYNAMIC),
        ConfigKey("log.message.timestamp.before.max.ms", Type.LONG, MAX_LONG, "Default of message.timestamp.before.max.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.message.timestamp.after.max.ms", Type.LONG, MAX_LONG, "Default of message.timestamp.after.max.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.message.timestamp.difference.max.ms", Type.LONG, MAX_LONG, "Default of message.timestamp.difference.max.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.message.downconversion.enable", Type.BOOLEAN, True, "Default of message.downconversion.enable.", None, _DYNAMIC),
        ConfigKey("num.recovery.threads.per.data.dir", Type.INT, 1, "Threads that open or recover the logs of one directory at start.", at_least(1)),
        ConfigKey("producer.id.expiration.ms", Type.INT, 86_400_000, "How long an idle producer's sequence state is kept.", at_least(1), _DYNAMIC),
        ConfigKey("producer.id.expiration.check.interval.ms", Type.INT, 600_000, "How often partitions forget idle producers.", at_least(1)),
        # Network
        ConfigKey("socket.request.max.bytes", Type.INT, 100 << 20, "Largest request accepted; a larger one closes its connection.", at_least(1)),
        ConfigKey("socket.send.buffer.bytes", Type.INT, 102_400, "SO_SNDBUF of client sockets; -1 leaves it to the system."),
        ConfigKey("socket.receive.buffer.bytes", Type.INT, 102_400, "SO_RCVBUF of client sockets; -1 leaves it to the system."),
        ConfigKey("socket.listen.backlog.size", Type.INT, 50, "Connections the kernel queues before they are accepted.", at_least(1)),
        ConfigKey("queued.max.request.bytes", Type.LONG, -1, "Memory for requests being received or served, over all connections; -1 is no limit."),
        ConfigKey("connections.max.idle.ms", Type.LONG, 600_000, "Idle connections are closed after this time; -1 never."),
        ConfigKey("max.connections", Type.INT, MAX_INT, "Connections accepted over all listeners.", at_least(0), _DYNAMIC),
        ConfigKey("max.connections.per.ip", Type.INT, MAX_INT, "Connections accepted from one address.", at_least(0), _DYNAMIC),
        ConfigKey("max.connection.creation.rate", Type.INT, MAX_INT, "Connections accepted a second over all listeners; more wait.", at_least(1), _DYNAMIC),
        # Quotas
        ConfigKey("quota.window.num", Type.INT, 11, "Windows over which a client's use is averaged for its quotas, the present one among them.", at_least(1)),
        ConfigKey("quota.window.size.seconds", Type.INT, 1, "Length of each of these windows.", at_least(1)),
        ConfigKey("controller.quota.window.num", Type.INT, 11, "Windows whose share of controller_mutation_rate may be used at once.", at_least(1)),
        ConfigKey("controller.quota.window.size.seconds", Type.INT, 1, "Length of each of these windows.", at_least(1)),
        # Fetching and producing
        ConfigKey("fetch.max.bytes", Type.INT, 55 << 20, "Upper bound of a fetch response's size, whatever the client asks.", at_least(1024)),
        ConfigKey("max.incremental.fetch.session.cache.slots", Type.INT, 1000, "Incremental fetch sessions kept.", at_least(0)),
        ConfigKey("replica.lag.time.max.ms", Type.LONG, 30_000, "A follower that has not caught up for this long leaves the ISR."),
        ConfigKey("replica.high.watermark.checkpoint.interval.ms", Type.LONG, 5000, "How often high watermarks are checkpointed.", at_least(1)),
        # Coordinators
        *GROUP_KEYS,
        *TRANSACTION_LOG_KEYS,
        *TRANSACTION_KEYS,
        # Operation
        ConfigKey("background.threads", Type.INT, 10, "Worker threads for fsyncs, deletions and other blocking work.", at_least(1)),
        ConfigKey("kafkalog.log.max.open.files", Type.INT, -1, "Segments and indexes that stay open; beyond it the longest unused are closed until they are wanted. -1 is two fifths of the limit of open files (ulimit -n), 30,000 at most.", at_least(-1)),
        ConfigKey("kafkalog.log.retention.policy.class", Type.CLASS, None, "What decides which segments of a topic with cleanup.policy=delete are deleted, as module:Class; by default retention.ms and retention.bytes. See docs/compaction.md."),
        ConfigKey("kafkalog.metrics.listener", Type.STRING, None, "Where metrics are served over HTTP to Prometheus, host:port such as 127.0.0.1:9404; an empty host is every interface, port 0 any free port. They are not served when it is not set."),
        ConfigKey("kafkalog.log.format", Type.STRING, "text", "Form of the broker's own log lines: text or json.", one_of("text", "json")),
        ConfigKey("kafkalog.shutdown.timeout.ms", Type.LONG, 30_000, "Longest time a graceful shutdown waits for responses under way.", at_least(0)),
    ]
)  # fmt: skip

NO_EFFECT = frozenset(
    """num.network.threads num.io.threads queued.max.requests num.replica.fetchers zookeeper.connection.timeout.ms
    process.roles node.id controller.quorum.voters controller.listener.names inter.broker.listener.name
    zookeeper.connect group.coordinator.threads group.coordinator.append.linger.ms group.coordinator.new.enable
    offsets.commit.required.acks controller.quorum.bootstrap.servers security.inter.broker.protocol inter.broker.protocol.version""".split()
)
"""Keys found in Kafka's own server.properties that change nothing here (yet); they are accepted so that the file is."""
STATIC_NO_EFFECT = NO_EFFECT - {"num.network.threads", "num.io.threads", "num.replica.fetchers"}
"""Those that cannot be changed while a broker of Kafka's runs, and so not here."""

_UNIT_MS = {
    "log.roll.hours": _HOUR_MS,
    "log.roll.jitter.hours": _HOUR_MS,
    "log.retention.hours": _HOUR_MS,
    "log.retention.minutes": _MINUTE_MS,
}


class BrokerConfig:
    """The effective configuration of a broker: declared defaults, then the file, then ``--override``.

    Raises:
        ConfigError: a value does not fit its key, or keys contradict each other.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        texts = texts or {}
        self.explicit: dict[str, Value] = SERVER_CONFIG.parse(texts)
        self.unknown = sorted(name for name in texts if name not in SERVER_CONFIG and name not in NO_EFFECT)
        self.ineffective = sorted(
            name for name in texts if name in NO_EFFECT or (name in SERVER_CONFIG and not SERVER_CONFIG[name].effect)
        )
        protocol_map = parse_protocol_map(self["listener.security.protocol.map"])
        self.listeners = parse_listeners("listeners", self["listeners"], protocol_map)
        if not self.listeners:
            raise ConfigError("Invalid value for configuration listeners: name at least one, such as PLAINTEXT://:9092")
        self.advertised = self._advertised(protocol_map)
        if not self.log_dirs:
            raise ConfigError("At least one log directory must be defined via log.dirs or log.dir.")
        if fault := self.cleaner_config().fault() or group_fault(self.__getitem__):
            raise ConfigError(fault)

    def __getitem__(self, name: str) -> Value:
        if name in self.explicit:
            return self.explicit[name]
        return SERVER_CONFIG[name].default

    @property
    def log_dirs(self) -> list[Path]:
        dirs = (self["log.dir"],) if self["log.dirs"] is None else self["log.dirs"]
        return [Path(entry) for entry in dirs if entry]

    def _advertised(self, protocol_map: dict[str, str]) -> dict[str, Endpoint]:
        if self["advertised.listeners"] is None:
            return {endpoint.name: endpoint for endpoint in self.listeners}
        endpoints = parse_listeners("advertised.listeners", self["advertised.listeners"], protocol_map)
        names = {endpoint.name for endpoint in self.listeners}
        for endpoint in endpoints:
            if endpoint.name not in names:
                raise ConfigError(f"advertised.listeners names {endpoint.name}, which is not in listeners")
            if not endpoint.host or endpoint.host == "0.0.0.0":
                raise ConfigError(
                    f"advertised.listeners cannot use the address of every interface ({endpoint}): "
                    "use a name or address that clients can reach"
                )
        result = {endpoint.name: endpoint for endpoint in self.listeners}
        result.update({endpoint.name: endpoint for endpoint in endpoints})
        return result

    def advertised_endpoint(self, bound: Endpoint) -> Endpoint:
        """What to tell clients of the listener ``bound`` (its real port filled in)."""
        endpoint = self.advertised[bound.name]
        if endpoint.port == 0:
            endpoint = endpoint.with_port(bound.port)
        if endpoint.host in ("", "0.0.0.0", "::"):
            endpoint = Endpoint(endpoint.name, socket.getfqdn(), endpoint.port, endpoint.protocol)
        return endpoint

    def with_dynamic(self, texts: Mapping[str, str]) -> BrokerConfig:
        """A copy in which ``texts`` (dynamic broker configuration) overrides the static values."""
        copy = BrokerConfig.__new__(BrokerConfig)
        copy.__dict__.update(self.__dict__)
        copy.explicit = {**self.explicit, **SERVER_CONFIG.parse(texts)}
        return copy

    def topic_default(self, name: str) -> tuple[Value, str | None]:
        """Default of the topic key ``name`` and the broker key it comes from (None: the declared default)."""
        key = TOPIC_CONFIG[name]
        for synonym in key.synonyms:
            if self.explicit.get(synonym) is not None:
                return self.explicit[synonym] * _UNIT_MS.get(synonym, 1) if synonym in _UNIT_MS else self.explicit[
                    synonym
                ], synonym
        return key.default, None

    def topic_values(self, overrides: Mapping[str, Value]) -> dict[str, Value]:
        """Every key of a topic with its effective value."""
        return {
            key.name: overrides[key.name] if key.name in overrides else self.topic_default(key.name)[0]
            for key in TOPIC_CONFIG
        }

    def cleaner_config(self) -> CleanerConfig:
        """The settings of log compaction."""
        return CleanerConfig(
            threads=self["log.cleaner.threads"],
            dedupe_buffer_size=self["log.cleaner.dedupe.buffer.size"],
            load_factor=self["log.cleaner.io.buffer.load.factor"],
            io_buffer_size=self["log.cleaner.io.buffer.size"],
            io_max_bytes_per_second=self["log.cleaner.io.max.bytes.per.second"],
            backoff_ms=self["log.cleaner.backoff.ms"],
            enabled=self["log.cleaner.enable"],
        )

    def log_config(self, overrides: Mapping[str, Value]) -> LogConfig:
        """The log's view of a topic with ``overrides``."""
        return log_config(self.topic_values(overrides), self["producer.id.expiration.ms"])
