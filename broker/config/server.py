"""The keys of a broker, and the effective configuration computed from them.

Names and defaults are those of Apache Kafka 3.9, and the `server.properties` of a Kafka broker can be used unchanged.
Kafka's keys without a meaning here (such as thread counts, because one event loop serves all connections) are accepted,
and listed once in the log.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from broker.config.cluster import CLUSTER_KEYS, MORE_BETWEEN
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
    not_zero,
    one_of,
)
from broker.config.listeners import Endpoint, check_connection_overrides, parse_listeners, parse_protocol_map
from broker.config.message_format import is_version
from broker.config.protocol_version import ProtocolVersion
from broker.config.security.authorizer import AUTHORIZER_KEYS, OWN_ZOOKEEPER
from broker.config.security.listener_config import ListenerConfig, without_listener
from broker.config.security.logins import LOGIN_KEYS
from broker.config.security.oauth import OAUTH_KEYS
from broker.config.security.sasl import SASL_KEYS, sasl_fault
from broker.config.security.tls import JAVA_KEYS, TLS_KEYS
from broker.config.security.tokens import OLD_SECRET, SECRET, TOKEN_KEYS
from broker.config.stored_topic import ALL_REPLICAS, MIN_INSYNC, StoredTopicConfig, removal_keys
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
from kafkalog.java_properties import may_be_shown

MIN_LOAD_FACTOR = 0.01
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_DYNAMIC = Update.CLUSTER_WIDE
_TOPIC_DEFAULTS = frozenset(name for key in TOPIC_CONFIG for name in key.synonyms)
"""The broker keys that are defaults of topic keys."""

SERVER_CONFIG = ConfigDefinition(
    [
                # Identity and addresses
        ConfigKey("broker.id", Type.INT, -1, "The id of this broker. -1 uses the id stored in the log directories, or 0 if there is none.", at_least(-1)),
        ConfigKey("broker.rack", Type.STRING, None, "The rack of this broker. Clients see it in metadata."),
        ConfigKey("listeners", Type.LIST, ("PLAINTEXT://:9092",), "The addresses on which the broker listens, as NAME://host:port, separated by commas. An empty host means every interface, port 0 any free port.", skips_empty=True),
        ConfigKey("advertised.listeners", Type.LIST, None, "The addresses that clients connect to, one for each listener name. The default is the value of listeners.", skips_empty=True),
        ConfigKey("listener.security.protocol.map", Type.LIST, ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"), "The security protocol of each listener name.", skips_empty=True),
        ConfigKey("log.dir", Type.STRING, "/tmp/kafka-logs", "The log directory. Used if log.dirs is not set."),
        ConfigKey("log.dirs", Type.LIST, None, "The log directories, separated by commas. Partitions are distributed over them.", skips_empty=True),
        # Topics
        ConfigKey("auto.create.topics.enable", Type.BOOLEAN, True, "Create a topic when a client requests its metadata and it does not exist. The response of a lone broker already has its partitions and leaders; in a cluster clients ask again, as with Apache Kafka."),
        ConfigKey("delete.topic.enable", Type.BOOLEAN, True, "Whether topics can be deleted."),
        ConfigKey("num.partitions", Type.INT, 1, "The number of partitions of a new topic, if the request does not name one.", at_least(1)),
        ConfigKey("default.replication.factor", Type.INT, 1, "The replication factor of a new topic, if the request does not name one.", at_least(1)),
        ConfigKey("min.insync.replicas", Type.INT, 1, "The default of the topic key min.insync.replicas.", at_least(1), _DYNAMIC),
        ConfigKey("unclean.leader.election.enable", Type.BOOLEAN, False, "The default of the topic key unclean.leader.election.enable.", None, _DYNAMIC),
        # Replication
        ConfigKey("leader.replication.throttled.rate", Type.LONG, MAX_LONG, "The rate in bytes per second at which this broker sends to followers that are not in sync, of replicas in leader.replication.throttled.replicas.", at_least(0), Update.PER_BROKER, member=True),
        ConfigKey("follower.replication.throttled.rate", Type.LONG, MAX_LONG, "The rate in bytes per second at which this broker fetches replicas in follower.replication.throttled.replicas that are not in sync.", at_least(0), Update.PER_BROKER, member=True),
        ConfigKey("replication.quota.window.num", Type.INT, 11, "The number of time windows over which these rates are averaged, including the current window.", at_least(1), member=True),
        ConfigKey("replication.quota.window.size.seconds", Type.INT, 1, "The length of each window of replication.quota.window.num, in seconds.", at_least(1), member=True),
        ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", Type.LONG, MAX_LONG, "The rate in bytes per second that all moves of partitions between log directories may use together.", at_least(0), Update.PER_BROKER),
        ConfigKey("num.replica.alter.log.dirs.threads", Type.INT, None, "How many partitions are moved between log directories at a time. The default is the number of log directories.", at_least(1)),
        # Log
        ConfigKey("compression.type", Type.STRING, "producer", "The default of the topic key compression.type.", one_of(*COMPRESSION_TYPES), _DYNAMIC),
        ConfigKey("compression.gzip.level", Type.INT, -1, "The default of the topic key compression.gzip.level.", GZIP_LEVEL, _DYNAMIC),
        ConfigKey("compression.lz4.level", Type.INT, 9, "The default of the topic key compression.lz4.level.", LZ4_LEVEL, _DYNAMIC),
        ConfigKey("compression.zstd.level", Type.INT, 3, "The default of the topic key compression.zstd.level.", ZSTD_LEVEL, _DYNAMIC),
        ConfigKey("message.max.bytes", Type.INT, 1_048_588, "The default of the topic key max.message.bytes.", at_least(0), _DYNAMIC),
        ConfigKey("log.segment.bytes", Type.INT, 1 << 30, "The default of the topic key segment.bytes.", at_least(14), _DYNAMIC),
        ConfigKey("log.roll.ms", Type.LONG, None, "The default of the topic key segment.ms.", at_least(1), _DYNAMIC, ("log.roll.hours",)),
        ConfigKey("log.roll.hours", Type.INT, 168, "The default of the topic key segment.ms in hours. Used if log.roll.ms is not set.", at_least(1)),
        ConfigKey("log.roll.jitter.ms", Type.LONG, None, "The default of the topic key segment.jitter.ms.", at_least(0), _DYNAMIC, ("log.roll.jitter.hours",)),
        ConfigKey("log.roll.jitter.hours", Type.INT, 0, "The default of the topic key segment.jitter.ms in hours. Used if log.roll.jitter.ms is not set.", at_least(0)),
        ConfigKey("log.retention.ms", Type.LONG, None, "The default of the topic key retention.ms. Negative values keep records for ever.", not_zero, _DYNAMIC, ("log.retention.minutes", "log.retention.hours")),
        ConfigKey("log.retention.minutes", Type.INT, None, "The default of the topic key retention.ms in minutes. Used if log.retention.ms is not set."),
        ConfigKey("log.retention.hours", Type.INT, 168, "The default of the topic key retention.ms in hours. Used if neither log.retention.ms nor log.retention.minutes is set."),
        ConfigKey("log.retention.bytes", Type.LONG, -1, "The default of the topic key retention.bytes.", None, _DYNAMIC),
        ConfigKey("log.local.retention.bytes", Type.LONG, -2, "The default of the topic key local.retention.bytes.", at_least(-2), _DYNAMIC, effect=False),
        ConfigKey("log.local.retention.ms", Type.LONG, -2, "The default of the topic key local.retention.ms.", at_least(-2), _DYNAMIC, effect=False),
        ConfigKey("log.retention.check.interval.ms", Type.LONG, 300_000, "How often the broker checks for segments to delete by retention.", at_least(1)),
        ConfigKey("log.cleanup.policy", Type.LIST, ("delete",), "The default of the topic key cleanup.policy.", list_of("delete", "compact", empty=True), _DYNAMIC),
        ConfigKey("log.cleaner.enable", Type.BOOLEAN, True, "Compact the topics whose cleanup.policy includes compact. If false, such topics grow without limit."),
        ConfigKey("log.cleaner.threads", Type.INT, 1, "The number of cleaner threads. Each compacts one log at a time.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.dedupe.buffer.size", Type.LONG, 128 << 20, "The memory in bytes for the offset maps of all cleaner threads; each key takes 24 bytes. The memory is allocated only while a log is compacted, and only as much as its keys need.", None, _DYNAMIC),
        ConfigKey("log.cleaner.io.buffer.size", Type.INT, 512 << 10, "The memory in bytes for the read and write buffers of all cleaner threads.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.io.buffer.load.factor", Type.DOUBLE, 0.9, "How full an offset map may become, from 0.01 to 1; any value outside counts as the nearer of these. A higher value means fewer passes over a log, but slower ones.", None, _DYNAMIC),
        ConfigKey("log.cleaner.io.max.bytes.per.second", Type.DOUBLE, sys.float_info.max, "The average rate in bytes per second at which all cleaner threads together may read and write.", None, _DYNAMIC),
        ConfigKey("log.cleaner.backoff.ms", Type.LONG, 15_000, "How long a cleaner thread sleeps when there is nothing to compact.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.delete.retention.ms", Type.LONG, 86_400_000, "The default of the topic key delete.retention.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.min.compaction.lag.ms", Type.LONG, 0, "The default of the topic key min.compaction.lag.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.cleaner.max.compaction.lag.ms", Type.LONG, MAX_LONG, "The default of the topic key max.compaction.lag.ms.", at_least(1), _DYNAMIC),
        ConfigKey("log.cleaner.min.cleanable.ratio", Type.DOUBLE, 0.5, "The default of the topic key min.cleanable.dirty.ratio.", between(0, 1), _DYNAMIC),
        ConfigKey("log.index.size.max.bytes", Type.INT, 10 << 20, "The default of the topic key segment.index.bytes.", at_least(4), _DYNAMIC),
        ConfigKey("log.index.interval.bytes", Type.INT, 4096, "The default of the topic key index.interval.bytes.", at_least(0), _DYNAMIC),
        ConfigKey("log.flush.interval.messages", Type.LONG, MAX_LONG, "The default of the topic key flush.messages.", at_least(1), _DYNAMIC),
        ConfigKey("log.flush.interval.ms", Type.LONG, None, "The default of the topic key flush.ms.", at_least(0), _DYNAMIC, ("log.flush.scheduler.interval.ms",)),
        ConfigKey("log.flush.scheduler.interval.ms", Type.LONG, MAX_LONG, "How often the broker checks for logs whose flush.ms has passed."),
        ConfigKey("log.flush.offset.checkpoint.interval.ms", Type.INT, 60_000, "How often recovery points are written to their checkpoint files.", at_least(0)),
        ConfigKey("log.flush.start.offset.checkpoint.interval.ms", Type.INT, 60_000, "How often log start offsets are written to their checkpoint files.", at_least(0)),
        ConfigKey("log.segment.delete.delay.ms", Type.LONG, 60_000, "The default of the topic key file.delete.delay.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.preallocate", Type.BOOLEAN, False, "The default of the topic key preallocate.", None, _DYNAMIC),
        ConfigKey("log.message.format.version", Type.STRING, "3.0-IV1", "The default of the topic key message.format.version.", is_version, _DYNAMIC),
        ConfigKey("log.message.timestamp.type", Type.STRING, "CreateTime", "The default of the topic key message.timestamp.type.", one_of("CreateTime", "LogAppendTime"), _DYNAMIC),
        ConfigKey("log.message.timestamp.before.max.ms", Type.LONG, MAX_LONG, "The default of the topic key message.timestamp.before.max.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.message.timestamp.after.max.ms", Type.LONG, MAX_LONG, "The default of the topic key message.timestamp.after.max.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.message.timestamp.difference.max.ms", Type.LONG, MAX_LONG, "The default of the topic key message.timestamp.difference.max.ms.", at_least(0), _DYNAMIC),
        ConfigKey("log.message.downconversion.enable", Type.BOOLEAN, True, "The default of the topic key message.downconversion.enable.", None, _DYNAMIC),
        ConfigKey("num.recovery.threads.per.data.dir", Type.INT, 1, "The number of threads that load and recover the logs of each log directory at startup.", at_least(1)),
        ConfigKey("producer.id.expiration.ms", Type.INT, 86_400_000, "How long the state of an idle idempotent producer is kept.", at_least(1), _DYNAMIC),
        ConfigKey("producer.id.expiration.check.interval.ms", Type.INT, 600_000, "How often expired producer state is removed.", at_least(1)),
        # Network
        ConfigKey("socket.request.max.bytes", Type.INT, 100 << 20, "The largest request in bytes. A larger one closes its connection.", at_least(1)),
        ConfigKey("socket.send.buffer.bytes", Type.INT, 102_400, "The send buffer of client sockets in bytes (SO_SNDBUF). -1 uses the system's default."),
        ConfigKey("socket.receive.buffer.bytes", Type.INT, 102_400, "The receive buffer of client sockets in bytes (SO_RCVBUF). -1 uses the system's default."),
        ConfigKey("socket.listen.backlog.size", Type.INT, 50, "How many connections the kernel queues before the broker accepts them.", at_least(1)),
        ConfigKey("queued.max.request.bytes", Type.LONG, -1, "The memory in bytes for requests that are being received or served, over all connections. -1 means no limit."),
        ConfigKey("connections.max.idle.ms", Type.LONG, 600_000, "Idle connections are closed after this time. -1 never closes them."),
        ConfigKey("max.connections", Type.INT, MAX_INT, "The largest number of connections, over all listeners. If brokers have a listener of their own, a connection of theirs beyond that closes the one of a client that was idle for longest.", at_least(0), _DYNAMIC),
        ConfigKey("max.connections.per.ip", Type.INT, MAX_INT, "The largest number of connections from one IP address.", at_least(0), _DYNAMIC),
        ConfigKey("max.connections.per.ip.overrides", Type.STRING, "", "Other largest numbers for some addresses, as host:count, separated by commas. A host is an IP address or a name, of which the first address counts.", check_connection_overrides, _DYNAMIC),
        ConfigKey("max.connection.creation.rate", Type.INT, MAX_INT, "How many connections per second are accepted, over all listeners but one that brokers have of their own. Further ones wait for a second at most, so that 0 allows about one a second.", at_least(0), _DYNAMIC),
        # Quotas
        ConfigKey("quota.window.num", Type.INT, 11, "The number of time windows over which a client's usage is averaged for quotas, including the current window.", at_least(1)),
        ConfigKey("quota.window.size.seconds", Type.INT, 1, "The length of each window of quota.window.num, in seconds.", at_least(1)),
        ConfigKey("controller.quota.window.num", Type.INT, 11, "The number of time windows for controller_mutation_rate. A client may use the quota of all of them in one burst.", at_least(1)),
        ConfigKey("controller.quota.window.size.seconds", Type.INT, 1, "The length of each window of controller.quota.window.num, in seconds.", at_least(1)),
        # Fetching and producing
        ConfigKey("fetch.max.bytes", Type.INT, 55 << 20, "The largest fetch response in bytes, even if the client asks for more.", at_least(1024)),
        ConfigKey("max.incremental.fetch.session.cache.slots", Type.INT, 1000, "How many incremental fetch sessions are kept.", at_least(0)),
        ConfigKey("replica.lag.time.max.ms", Type.LONG, 30_000, "A follower that has not caught up with the leader for this long is removed from the ISR."),
        ConfigKey("replica.high.watermark.checkpoint.interval.ms", Type.LONG, 5000, "How often high watermarks are written to their checkpoint files.", at_least(1)),
        # Security
        *AUTHORIZER_KEYS,
        # Members of a cluster
        *CLUSTER_KEYS,
        # Security
        *TLS_KEYS,
        *JAVA_KEYS,
        *SASL_KEYS,
        *LOGIN_KEYS,
        *OAUTH_KEYS,
        *TOKEN_KEYS,
        # Coordinators
        *GROUP_KEYS,
        *TRANSACTION_LOG_KEYS,
        *TRANSACTION_KEYS,
        # Operation
        ConfigKey("background.threads", Type.INT, 10, "The number of worker threads for fsyncs, deletions and other blocking work.", at_least(1)),
        ConfigKey("kafkalog.log.max.open.files", Type.INT, -1, "How many segment and index files stay open. Beyond that, the least recently used are closed until they are needed. -1 means two fifths of the limit on open files (ulimit -n), but at most 30,000.", at_least(-1)),
        ConfigKey("kafkalog.log.retention.policy.class", Type.CLASS, None, "The class that decides which segments of a topic with cleanup.policy=delete are deleted, as module:Class. By default, retention.ms and retention.bytes decide. See docs/explanation/compaction.md."),
        ConfigKey("kafkalog.metrics.listener", Type.STRING, None, "The address, as host:port (for example 127.0.0.1:9404), on which metrics are served to Prometheus over HTTP. An empty host means every interface, port 0 any free port. Unset, no metrics are served."),
        ConfigKey("kafkalog.log.format", Type.STRING, "text", "The format of the broker's own log messages: text or json.", one_of("text", "json")),
        ConfigKey("kafkalog.shutdown.timeout.ms", Type.LONG, 30_000, "How long a graceful shutdown waits at most for pending responses.", at_least(0)),
    ]
)  # fmt: skip

NO_EFFECT = frozenset(
    """num.network.threads num.io.threads queued.max.requests process.roles node.id controller.quorum.voters
    controller.listener.names group.coordinator.threads group.coordinator.append.linger.ms group.coordinator.new.enable
    offsets.commit.required.acks controller.quorum.bootstrap.servers""".split()
)
"""Keys of Kafka's own server.properties that have no effect here (yet), but are accepted so that the file is valid."""
STATIC_NO_EFFECT = NO_EFFECT - {"num.network.threads", "num.io.threads"}
"""The keys without effect that cannot be changed while a Kafka broker runs, and therefore cannot be changed here."""

_UNIT_MS = {
    "log.roll.hours": _HOUR_MS,
    "log.roll.jitter.hours": _HOUR_MS,
    "log.retention.hours": _HOUR_MS,
    "log.retention.minutes": _MINUTE_MS,
}


def is_static(name: str) -> bool:
    """Return whether a broker key cannot be changed while the broker runs. Names that are not known can."""
    key = SERVER_CONFIG.get(name)
    return name in STATIC_NO_EFFECT if key is None else key.update is Update.READ_ONLY


def dynamic_fault(name: str, text: str) -> str | None:
    """Return why a stored dynamic value is not in force, or None if it is, or if its name is not known."""
    if is_static(name):
        return "it cannot be changed while the broker runs"
    try:
        SERVER_CONFIG.parse({name: text})
    except ConfigError as error:
        return str(error)
    return None


class BrokerConfig:
    """The effective configuration of a broker: declared defaults, then the file, then `--override`.

    Attributes:
        unknown: Names that are no configurations.
        hidden: How many more there are, which are not shown because they may be parts of a value.
        dynamic: The dynamic values that are in force, by the broker that they are set for, and by key.
        unread: Keys with a dynamic value that cannot be read. Nothing is removed of topics that depend on them.
        lost: Those of `unread` whose last dynamic value is not known either.

    Raises:
        ConfigError: a value does not fit its key, or keys contradict each other.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        texts = texts or {}
        self.explicit: dict[str, Value] = SERVER_CONFIG.parse(texts)
        unknown = [name for name in texts if name not in SERVER_CONFIG and name not in NO_EFFECT]
        known = [key.name for key in SERVER_CONFIG]
        self.unknown = sorted(name for name in unknown if may_be_shown(name, known))
        self.hidden = len(unknown) - len(self.unknown)
        self.dynamic: Mapping[str, Mapping[str, Value]] = {}
        self.unread: frozenset[str] = frozenset()
        self.lost: frozenset[str] = frozenset()
        self.ineffective = sorted(name for name in texts if name in NO_EFFECT or not self._has_effect(name))
        protocol_map = parse_protocol_map(self["listener.security.protocol.map"])
        if texts.get(OWN_ZOOKEEPER):
            # Entries that are written elsewhere would not be in force.
            raise ConfigError(
                f"{OWN_ZOOKEEPER} is set, and this broker reads the entries below zookeeper.connect only: remove the key"
            )
        self.listeners = parse_listeners("listeners", self["listeners"], protocol_map)
        if not self.listeners:
            raise ConfigError("Invalid value for configuration listeners: name at least one, such as PLAINTEXT://:9092")
        names = [endpoint.name for endpoint in self.listeners]
        self.ineffective = sorted({*self.ineffective, *without_listener(SERVER_CONFIG, texts, names)})
        self.advertised = self._advertised(protocol_map)
        if self["inter.broker.listener.name"] and "security.inter.broker.protocol" in texts:
            raise ConfigError(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set: remove the "
                "second, because listener.security.protocol.map has the protocol of the first"
            )
        if self.is_member and self.inter_broker_listener not in self.advertised:
            raise ConfigError(
                f"inter.broker.listener.name must be a listener name defined in advertised.listeners, but "
                f"{self.inter_broker_listener} is not: the listeners are {', '.join(self.advertised)}"
            )
        strange = [name for name in self[MORE_BETWEEN] if name.upper() not in self.advertised]
        if self.is_member and strange:
            raise ConfigError(
                f"{MORE_BETWEEN} names {strange[0].upper()}, which is not one of the listeners {', '.join(self.advertised)}"
            )
        if not self.log_dirs:
            raise ConfigError("At least one log directory must be defined via log.dirs or log.dir.")
        if self.topic_default("retention.ms")[0] == 0:
            raise ConfigError(
                f"{self.topic_default('retention.ms')[1]} must be unlimited (-1) or, greater than or equal to 1"
            )
        if fault := self.cleaner_config().fault() or group_fault(self.__getitem__) or sasl_fault(self.__getitem__):
            raise ConfigError(fault)

    def __getitem__(self, name: str) -> Value:
        if name in self.explicit:
            return self.explicit[name]
        return SERVER_CONFIG[name].default

    def of_listener(self, name: str) -> ListenerConfig:
        """Return what is in force for the listener of this name."""
        return ListenerConfig(SERVER_CONFIG, self.explicit, name)

    @property
    def log_dirs(self) -> list[Path]:
        dirs = (self["log.dir"],) if self["log.dirs"] is None else self["log.dirs"]
        return [Path(entry) for entry in dirs if entry]

    def _has_effect(self, name: str) -> bool:
        """Return whether a key that is set has an effect, or is not known at all."""
        key = SERVER_CONFIG.get(name)
        return key is None or (key.effect and (self.is_member or not key.member))

    @property
    def is_member(self) -> bool:
        """Return whether the broker belongs to a cluster over ZooKeeper. Otherwise it is a cluster of its own."""
        return bool(self["zookeeper.connect"])

    @property
    def has_authorizer(self) -> bool:
        """Return whether requests need access control entries."""
        return bool(self["authorizer.class.name"])

    @property
    def token_secret(self) -> bytes | None:
        """The secret of delegation tokens; None if there are none."""
        secret = self[SECRET] or self[OLD_SECRET]
        return str(secret).encode() if secret else None

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener on which brokers reach each other."""
        return str(self["inter.broker.listener.name"] or self["security.inter.broker.protocol"]).upper()

    @property
    def listeners_between(self) -> frozenset[str]:
        """The names of the listeners on which requests of other brokers are served.

        With an authorizer it is not the listener that keeps others from sending them.
        """
        if self.has_authorizer:
            return frozenset(each.name for each in self.listeners)
        return frozenset({self.inter_broker_listener, *(name.upper() for name in self[MORE_BETWEEN])})

    @property
    def protocol_version(self) -> ProtocolVersion:
        """The version of the protocol in which this broker speaks to others."""
        return ProtocolVersion.parse(self["inter.broker.protocol.version"])

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
        """Return the endpoint to advertise for the listener `bound`, whose port is the real one."""
        endpoint = self.advertised[bound.name]
        if endpoint.port == 0:
            endpoint = endpoint.with_port(bound.port)
        if endpoint.host in ("", "0.0.0.0", "::"):
            endpoint = Endpoint(endpoint.name, socket.getfqdn(), endpoint.port, endpoint.protocol)
        return endpoint

    def with_dynamic(
        self, texts: Mapping[str, str], broker: str = "", in_force: BrokerConfig | None = None
    ) -> BrokerConfig:
        """Return a copy in which `texts` (dynamic broker configuration) overrides the static values.

        As in Kafka, what has a `dynamic_fault` is left out. But a default of topics keeps its last value.

        Args:
            broker: the broker that `texts` are set for; empty for all brokers.
            in_force: what was in force before.
        """
        copy = BrokerConfig.__new__(BrokerConfig)
        copy.__dict__.update(self.__dict__)
        faults = {name for name, text in texts.items() if dynamic_fault(name, text) is not None}
        used = SERVER_CONFIG.parse({name: text for name, text in texts.items() if name not in faults})
        last = {} if in_force is None else in_force.dynamic.get(broker, {})
        kept = {name: last[name] for name in faults & _TOPIC_DEFAULTS if name in last}
        copy.dynamic = {**self.dynamic, broker: {**used, **kept}}
        copy.explicit = {**self.explicit, **used, **kept}
        unread = {name for name in faults if not is_static(name)}
        copy.unread = (self.unread - used.keys()) | unread
        copy.lost = (self.lost - used.keys() - kept.keys()) | (unread - kept.keys())
        return copy

    def topic_default(self, name: str) -> tuple[Value, str | None]:
        """Return the default of the topic key `name` and the broker key that sets it, or None if none does."""
        key = TOPIC_CONFIG[name]
        for synonym in key.synonyms:
            value = self.explicit.get(synonym)
            if value is None:
                continue
            if synonym in _UNIT_MS:
                value *= _UNIT_MS[synonym]
            return max(value, -1) if name == "retention.ms" else value, synonym
        return key.default, None

    def topic_values(self, overrides: Mapping[str, Value]) -> dict[str, Value]:
        """Return the effective value of every key of a topic with `overrides`."""
        values = {
            key.name: overrides[key.name] if key.name in overrides else self.topic_default(key.name)[0]
            for key in TOPIC_CONFIG
        }
        if MIN_INSYNC in self.lost and MIN_INSYNC not in overrides:
            # The default may be less. Records would then be acknowledged before they are safe.
            values[MIN_INSYNC] = ALL_REPLICAS
        return values

    def cleaner_config(self) -> CleanerConfig:
        """Return the settings of log compaction."""
        return CleanerConfig(
            threads=self["log.cleaner.threads"],
            dedupe_buffer_size=self["log.cleaner.dedupe.buffer.size"],
            load_factor=max(MIN_LOAD_FACTOR, min(self["log.cleaner.io.buffer.load.factor"], 1.0)),
            io_buffer_size=self["log.cleaner.io.buffer.size"],
            io_max_bytes_per_second=self["log.cleaner.io.max.bytes.per.second"],
            backoff_ms=self["log.cleaner.backoff.ms"],
            enabled=self["log.cleaner.enable"],
        )

    def log_config(
        self, overrides: Mapping[str, Value], *, is_held: bool = False, is_policy_known: bool = True
    ) -> LogConfig:
        """Return the log's settings for a topic with `overrides`."""
        values = self.topic_values(overrides)
        if self.unread:
            keys = removal_keys(values["cleanup.policy"])
            defaults = [TOPIC_CONFIG[key].synonyms for key in keys if key not in overrides]
            is_held = is_held or not self.unread.isdisjoint(name for names in defaults for name in names)
        if "cleanup.policy" not in overrides:
            is_policy_known = is_policy_known and self.lost.isdisjoint(TOPIC_CONFIG["cleanup.policy"].synonyms)
        return log_config(
            values,
            self["producer.id.expiration.ms"],
            is_held=is_held,
            is_policy_known=is_policy_known,
        )

    def stored_log_config(self, stored: StoredTopicConfig) -> LogConfig:
        """Return the log's settings for a topic with `stored` overrides."""
        return self.log_config(stored.values, is_held=stored.is_held, is_policy_known=stored.is_policy_known)
