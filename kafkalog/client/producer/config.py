"""The producer's own properties, under Kafka's names and with Kafka's defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import boolean, integer, milliseconds, one_of
from kafkalog.records.compression import Codec

DEFAULT_BATCH_SIZE = 16384
UNSET_BATCH_LIMIT = 512 * 1024
"""The size in bytes up to which batches grow while requests are on their way, where batch.size is not set. The busier
the connection, the fewer and larger the batches. The limit is half of a topic's default max.message.bytes."""
MAX_IN_FLIGHT_IDEMPOTENT = 5
"""A broker remembers the last five batches of a producer in a partition (KIP-98)."""

_LEVELS = {
    Codec.GZIP: ("compression.gzip.level", integer(-1, 9)),
    Codec.LZ4: ("compression.lz4.level", integer(1, 17)),
    Codec.ZSTD: ("compression.zstd.level", integer(-(1 << 17), 22)),
}
_OBJECTS = {
    "key.serializer": "key_serializer",
    "value.serializer": "value_serializer",
    "partitioner.class": "partitioner",
    "interceptor.classes": "interceptors",
}
_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


def _option(key: str, default: Any, parse: Any) -> Any:
    return dataclasses.field(default=default, metadata={"key": key, "parse": parse})


def _acks(text: str) -> int:
    if text.lower() not in _ACKS:
        raise ConfigError("expected all, -1, 0 or 1")
    return _ACKS[text.lower()]


def _codec(text: str) -> Codec:
    return Codec[one_of("none", "gzip", "snappy", "lz4", "zstd")(text).upper()]


@dataclass(frozen=True)
class ProducerConfig:
    """Settings of a producer; durations in seconds, sizes in bytes."""

    client: ClientConfig
    acks: int = _option("acks", -1, _acks)
    batch_size: int = _option("batch.size", DEFAULT_BATCH_SIZE, integer(0))
    linger: float = _option("linger.ms", 0.0, milliseconds())
    buffer_memory: int = _option("buffer.memory", 32 << 20, integer(1, 1 << 62))
    max_block: float = _option("max.block.ms", 60.0, milliseconds())
    delivery_timeout: float = _option("delivery.timeout.ms", 120.0, milliseconds())
    max_request_size: int = _option("max.request.size", 1 << 20, integer(1))
    compression: Codec = dataclasses.field(default=Codec.NONE, metadata={"key": "compression.type", "parse": _codec})
    retries: int = _option("retries", 0x7FFFFFFF, integer(0))
    idempotence: bool = _option("enable.idempotence", True, boolean)
    max_in_flight: int = _option("max.in.flight.requests.per.connection", 5, integer(1))
    ignore_keys: bool = _option("partitioner.ignore.keys", False, boolean)
    reconnect_backoff: float = _option("reconnect.backoff.ms", 0.05, milliseconds())
    reconnect_backoff_max: float = _option("reconnect.backoff.max.ms", 1.0, milliseconds())
    metadata_max_idle: float = _option("metadata.max.idle.ms", 300.0, milliseconds())
    """The time after which a topic that nothing is sent to is left out of requests for metadata."""
    transactional_id: str | None = _option("transactional.id", None, lambda text: text or None)
    transaction_timeout: float = _option("transaction.timeout.ms", 60.0, milliseconds(1))
    key_serializer: Any = None
    value_serializer: Any = None
    partitioner: Any = None
    interceptors: Any = None
    """Objects, classes or names of classes; `key.serializer` and the other two take the same."""
    compression_level: int | None = None
    batch_limit: int = UNSET_BATCH_LIMIT
    """The size in bytes up to which a batch grows; from `batch_size` on it does not linger any more."""
    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties that neither the producer nor the client knows."""

    @classmethod
    def from_dict(cls, properties: Mapping[str, Any]) -> ProducerConfig:
        """Make settings from properties.

        Raises:
            ConfigError: A property cannot have its value, or properties contradict each other.
        """
        client = ClientConfig.from_dict({key: value for key, value in properties.items() if key not in _OBJECTS})
        unknown = dict(client.unknown)
        given: dict[str, Any] = {}
        given |= {name: properties[key] for key, name in _OBJECTS.items() if properties.get(key) is not None}
        for field in dataclasses.fields(cls):
            key = field.metadata.get("key")
            if key in unknown:
                given[field.name] = _parse(key, unknown.pop(key), field.metadata["parse"])
        if not client.bootstrap_servers:
            raise ConfigError("bootstrap.servers is missing; name at least one host:port")
        level = _level(unknown, given.get("compression", Codec.NONE))
        _settle_idempotence(given)
        _settle_timeouts(given, client)
        if "batch_size" in given:
            given["batch_limit"] = given["batch_size"]
        config = cls(client=client, compression_level=level, unknown=unknown, **given)
        return dataclasses.replace(config, batch_limit=min(config.batch_limit, config.max_request_size))


def _parse(key: str, text: str, parse: Any) -> Any:
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{key}={text}: {error}") from None


def _level(unknown: dict[str, str], codec: Codec) -> int | None:
    levels = {which: _parse(key, unknown.pop(key), parse) for which, (key, parse) in _LEVELS.items() if key in unknown}
    return levels.get(codec)


def _settle_idempotence(given: dict[str, Any]) -> None:
    """Check what idempotence needs. Settings that exclude it switch it off, unless it was asked for; as in Kafka."""
    obstacles = {
        "acks": given.get("acks", -1) != -1,
        "retries": given.get("retries", 1) == 0,
        "max.in.flight.requests.per.connection": given.get("max_in_flight", 1) > MAX_IN_FLIGHT_IDEMPOTENT,
    }
    found = [key for key, stands in obstacles.items() if stands]
    if given.get("transactional_id") and not given.get("idempotence", True):
        raise ConfigError("transactional.id needs enable.idempotence=true")
    if not found:
        return
    if given.get("transactional_id"):
        raise ConfigError(
            f"transactional.id needs acks=all, retries above 0 and at most {MAX_IN_FLIGHT_IDEMPOTENT} "
            f"max.in.flight.requests.per.connection; change {', '.join(found)}"
        )
    if given.get("idempotence"):
        raise ConfigError(
            f"enable.idempotence=true needs acks=all, retries above 0 and at most {MAX_IN_FLIGHT_IDEMPOTENT} "
            f"max.in.flight.requests.per.connection; change {', '.join(found)} or set enable.idempotence=false"
        )
    given["idempotence"] = False


def _settle_timeouts(given: dict[str, Any], client: ClientConfig) -> None:
    least = given.get("linger", 0.0) + client.request_timeout
    if "delivery_timeout" not in given:
        given["delivery_timeout"] = max(120.0, least)
    elif given["delivery_timeout"] < least:
        raise ConfigError(
            f"delivery.timeout.ms={given['delivery_timeout'] * 1000:.0f}: less than linger.ms + request.timeout.ms "
            f"({least * 1000:.0f}); raise it or lower them"
        )
