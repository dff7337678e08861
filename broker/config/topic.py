"""The keys of a topic (`segment.bytes`, `retention.ms`…) and the broker keys of their defaults.

Names, defaults and synonyms are those of Apache Kafka 3.9's topic configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from broker.config.definition import (
    ConfigDefinition,
    ConfigError,
    ConfigKey,
    Type,
    Value,
    at_least,
    between,
    between_or,
    list_of,
    one_of,
    shown,
)
from broker.config.message_format import is_version, magic_of
from broker.log.log_config import LogConfig

MAX_LONG = (1 << 63) - 1
MAX_INT = (1 << 31) - 1
WEEK_MS = 7 * 24 * 3600 * 1000
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

_LEVELS = {
    "gzip": "compression.gzip.level",
    "lz4": "compression.lz4.level",
    "zstd": "compression.zstd.level",
}
"""The key of the compression level, for each codec that has levels."""
GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL = between_or(1, 9, -1), between(1, 17), between(-131_072, 22)
_REPLICA = re.compile("([0-9]+:[0-9]+)?")


def _no_remote_storage(name: str, value: Value) -> None:
    if value:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            f"Topic cannot be configured with remote log storage. ({name}=true: segments are kept on local disks only.)"
        )


def _throttled_replicas(name: str, value: Value) -> None:
    if "".join(value) != "*" and not all(_REPLICA.fullmatch(replica) for replica in value):
        raise ConfigError(
            f"Invalid value {shown(','.join(value))} for configuration {name}: {name} must be the literal '*' or a list of "
            "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )


TOPIC_CONFIG = ConfigDefinition(
    [
        ConfigKey(
            "cleanup.policy", Type.LIST, ("delete",), "What happens to old segments: delete removes them by time and size; compact keeps the latest record of each key; both may be combined. Empty keeps all segments for ever.",
            list_of("delete", "compact", empty=True), synonyms=("log.cleanup.policy",),
        ),
        ConfigKey(
            "compression.type", Type.STRING, "producer",
            "The compression codec of the log. producer keeps the codec that the producer chose; any other value recompresses batches that differ.",
            one_of(*COMPRESSION_TYPES), synonyms=("compression.type",),
        ),
        ConfigKey(
            "compression.gzip.level", Type.INT, -1,
            "The compression level if compression.type is gzip. -1 is the codec's default.",
            GZIP_LEVEL, synonyms=("compression.gzip.level",),
        ),
        ConfigKey(
            "compression.lz4.level", Type.INT, 9,
            "The compression level if compression.type is lz4. The default, 9, is the fast mode.",
            LZ4_LEVEL, synonyms=("compression.lz4.level",),
        ),
        ConfigKey(
            "compression.zstd.level", Type.INT, 3,
            "The compression level if compression.type is zstd.",
            ZSTD_LEVEL, synonyms=("compression.zstd.level",),
        ),
        ConfigKey(
            "delete.retention.ms", Type.LONG, 86_400_000, "How long compaction keeps a tombstone.",
            at_least(0), synonyms=("log.cleaner.delete.retention.ms",),
        ),
        ConfigKey(
            "file.delete.delay.ms", Type.LONG, 60_000, "How long the files of a deleted segment are kept before they are removed.",
            at_least(0), synonyms=("log.segment.delete.delay.ms",),
        ),
        ConfigKey(
            "flush.messages", Type.LONG, MAX_LONG, "After how many appended records the log is flushed to disk.",
            at_least(1), synonyms=("log.flush.interval.messages",),
        ),
        ConfigKey(
            "flush.ms", Type.LONG, MAX_LONG, "How long an appended record waits at most before the log is flushed to disk.",
            at_least(0), synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        ),
        ConfigKey(
            "index.interval.bytes", Type.INT, 4096, "How many bytes of log lie between two entries of the offset index.",
            at_least(0), synonyms=("log.index.interval.bytes",),
        ),
        ConfigKey(
            "kafkalog.mirror.source", Type.STRING, "",
            "The alias of the cluster of which this topic is a mirror with the same offsets. kafkalog mirror start --offsets keep sets it. Records come from that mirror alone then, and producers are refused. Delete it to let producers write and to shut the mirror out. Empty for other topics.",
        ),
        ConfigKey(
            "leader.replication.throttled.replicas", Type.LIST, (),
            "The replicas (partition:broker, or *) to whose followers leader.replication.throttled.rate applies.",
            _throttled_replicas, member=True, skips_empty=True,
        ),
        ConfigKey(
            "follower.replication.throttled.replicas", Type.LIST, (),
            "The replicas (partition:broker, or *) to which follower.replication.throttled.rate applies.",
            _throttled_replicas, member=True, skips_empty=True,
        ),
        ConfigKey(
            "local.retention.bytes", Type.LONG, -2,
            "The largest local size of a partition's log in bytes, if remote storage holds the rest. -2 means the value of retention.bytes.",
            at_least(-2), synonyms=("log.local.retention.bytes",), effect=False,
        ),
        ConfigKey(
            "local.retention.ms", Type.LONG, -2,
            "How long records are kept locally, if remote storage keeps them longer. -2 means the value of retention.ms.",
            at_least(-2), synonyms=("log.local.retention.ms",), effect=False,
        ),
        ConfigKey(
            "max.compaction.lag.ms", Type.LONG, MAX_LONG, "The longest time that a record may stay uncompacted.",
            at_least(1), synonyms=("log.cleaner.max.compaction.lag.ms",),
        ),
        ConfigKey(
            "max.message.bytes", Type.INT, 1_048_588, "The largest record batch in bytes, after compression.",
            at_least(0), synonyms=("message.max.bytes",),
        ),
        ConfigKey(
            "message.downconversion.enable", Type.BOOLEAN, True, "Convert records to an older message format for consumers that need it.",
            synonyms=("log.message.downconversion.enable",),
        ),
        ConfigKey(
            "message.format.version", Type.STRING, "3.0-IV1",
            "The Kafka release whose message format is stored: v0 before 0.10, v1 for 0.10, v2 for later releases. It takes effect, as in Apache Kafka with an inter.broker.protocol.version below 3.0. Records already stored are not converted.",
            is_version, synonyms=("log.message.format.version",),
        ),
        ConfigKey(
            "message.timestamp.after.max.ms", Type.LONG, MAX_LONG,
            "How far a CreateTime timestamp may be ahead of the broker's clock.",
            at_least(0), synonyms=("log.message.timestamp.after.max.ms",),
        ),
        ConfigKey(
            "message.timestamp.before.max.ms", Type.LONG, MAX_LONG,
            "How far a CreateTime timestamp may be behind the broker's clock.",
            at_least(0), synonyms=("log.message.timestamp.before.max.ms",),
        ),
        ConfigKey(
            "message.timestamp.difference.max.ms", Type.LONG, MAX_LONG,
            "How far a CreateTime timestamp may differ from the broker's clock. Deprecated since Kafka 3.6; used if message.timestamp.before.max.ms or message.timestamp.after.max.ms is not set.",
            at_least(0), synonyms=("log.message.timestamp.difference.max.ms",),
        ),
        ConfigKey(
            "message.timestamp.type", Type.STRING, "CreateTime",
            "Whether a record's timestamp is set by the producer (CreateTime) or by the broker when it appends the record (LogAppendTime).",
            one_of("CreateTime", "LogAppendTime"), synonyms=("log.message.timestamp.type",),
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio", Type.DOUBLE, 0.5, "The smallest share of a log that must be uncompacted (dirty) before the log is compacted.",
            between(0, 1), synonyms=("log.cleaner.min.cleanable.ratio",),
        ),
        ConfigKey(
            "min.compaction.lag.ms", Type.LONG, 0, "The shortest time that a record stays uncompacted.",
            at_least(0), synonyms=("log.cleaner.min.compaction.lag.ms",),
        ),
        ConfigKey(
            "min.insync.replicas", Type.INT, 1, "The smallest number of in-sync replicas with which a produce with acks=all is accepted.",
            at_least(1), synonyms=("min.insync.replicas",),
        ),
        ConfigKey(
            "preallocate", Type.BOOLEAN, False, "Whether a segment's disk space is reserved when it is created.",
            synonyms=("log.preallocate",),
        ),
        ConfigKey(
            "remote.log.copy.disable", Type.BOOLEAN, False, "Stop copying segments to remote storage. There is no remote storage.",
            effect=False,
        ),
        ConfigKey(
            "remote.log.delete.on.disable", Type.BOOLEAN, False,
            "Delete the data in remote storage when it is disabled. There is no remote storage.", effect=False,
        ),
        ConfigKey(
            "remote.storage.enable", Type.BOOLEAN, False,
            "Keep segments in remote storage. It cannot be enabled, because segments are kept on local disks only.",
            _no_remote_storage, effect=False,
        ),
        ConfigKey(
            "retention.bytes", Type.LONG, -1, "The largest size of a partition's log in bytes; older segments are deleted. -1 means no limit.",
            synonyms=("log.retention.bytes",),
        ),
        ConfigKey(
            "retention.ms", Type.LONG, WEEK_MS, "How long records are kept. -1 keeps them for ever.",
            at_least(-1), synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ),
        ConfigKey(
            "segment.bytes", Type.INT, 1 << 30, "The segment size in bytes at which a new segment is started.",
            at_least(14), synonyms=("log.segment.bytes",),
        ),
        ConfigKey(
            "segment.index.bytes", Type.INT, 10 << 20, "The size in bytes to which an offset index is preallocated.",
            at_least(4), synonyms=("log.index.size.max.bytes",),
        ),
        ConfigKey(
            "segment.jitter.ms", Type.LONG, 0, "The largest random time by which segment.ms is shortened, so that segments are not rolled all at once.",
            at_least(0), synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ),
        ConfigKey(
            "segment.ms", Type.LONG, WEEK_MS, "The age at which a new segment is started even if the current one is not full.",
            at_least(1), synonyms=("log.roll.ms", "log.roll.hours"),
        ),
        ConfigKey(
            "unclean.leader.election.enable", Type.BOOLEAN, False,
            "Whether a replica outside the ISR may become leader if no other is left, at the price of losing records.",
            synonyms=("unclean.leader.election.enable",),
        ),
    ]
)  # fmt: skip


def parse_topic_config(texts: Mapping[str, str | None]) -> dict[str, Value]:
    """Parse the overrides of a topic.

    Raises:
        ConfigError: a key is unknown or a value does not fit it.
    """
    values: dict[str, Value] = {}
    for name, text in texts.items():
        key = TOPIC_CONFIG.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        values[name] = key.parse(text)
    low, high = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if low is not None and high is not None and low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    return values


def log_config(
    values: Mapping[str, Value],
    producer_id_expiration_ms: int,
    *,
    is_held: bool = False,
    is_policy_known: bool = True,
) -> LogConfig:
    """Make the log's settings from a topic's effective `values`, which have every key of TOPIC_CONFIG."""
    before, after = values["message.timestamp.before.max.ms"], values["message.timestamp.after.max.ms"]
    difference = values["message.timestamp.difference.max.ms"]
    return LogConfig(
        segment_bytes=values["segment.bytes"],
        segment_ms=values["segment.ms"],
        segment_jitter_ms=values["segment.jitter.ms"],
        segment_index_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        max_message_bytes=values["max.message.bytes"],
        cleanup_policy=tuple(values["cleanup.policy"]),
        message_timestamp_type=values["message.timestamp.type"],
        message_timestamp_before_max_ms=before if before != MAX_LONG else difference,
        message_timestamp_after_max_ms=after if after != MAX_LONG else difference,
        preallocate=values["preallocate"],
        file_delete_delay_ms=values["file.delete.delay.ms"],
        compression_type=values["compression.type"],
        compression_level=_level(values),
        message_format=magic_of(values["message.format.version"]),
        message_downconversion_enable=values["message.downconversion.enable"],
        producer_id_expiration_ms=producer_id_expiration_ms,
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
        delete_retention_ms=values["delete.retention.ms"],
        mirror_source=values["kafkalog.mirror.source"],
        is_held=is_held,
        is_policy_known=is_policy_known,
    )


def _level(values: Mapping[str, Value]) -> int | None:
    """Return the topic's compression level; None for the codec's default, or if the topic sets no codec."""
    name = _LEVELS.get(values["compression.type"])
    return None if name is None or values[name] == TOPIC_CONFIG[name].default else int(values[name])
