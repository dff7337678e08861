"""The consumer's own properties, under Kafka's names and with Kafka's defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.assignors import Assignor, find_assignors
from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import boolean, milliseconds, one_of

Deserializer = Callable[[bytes], Any]
"""Make a value from the bytes of a record's key or value; not called for null."""

STEADY_TRIES = 3
"""The failures in a row after which pauses begin to grow. Most changes of leaders are over by then."""

DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")


def _option(key: str, default: Any, parse: Any) -> Any:
    return dataclasses.field(default=default, metadata={"key": key, "parse": parse})


CLASSIC, CONSUMER = "classic", "consumer"
_CLASSIC_ONLY = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


@dataclass(frozen=True)
class ConsumerConfig:
    """Settings of a consumer; durations in seconds, sizes in bytes. `client` has the settings of fetching."""

    client: ClientConfig
    group_id: str | None = _option("group.id", None, str)
    group_instance_id: str | None = _option("group.instance.id", None, str)
    group_protocol: str = _option("group.protocol", CLASSIC, one_of(CLASSIC, CONSUMER))
    group_remote_assignor: str | None = _option("group.remote.assignor", None, lambda text: text or None)
    client_rack: str = _option("client.rack", "", str)
    enable_auto_commit: bool = _option("enable.auto.commit", True, boolean)
    auto_commit_interval: float = _option("auto.commit.interval.ms", 5.0, milliseconds())
    session_timeout: float = _option("session.timeout.ms", 45.0, milliseconds(1))
    heartbeat_interval: float = _option("heartbeat.interval.ms", 3.0, milliseconds(1))
    max_poll_interval: float = _option("max.poll.interval.ms", 300.0, milliseconds(1))
    exclude_internal_topics: bool = _option("exclude.internal.topics", True, boolean)
    allow_auto_create_topics: bool = _option("allow.auto.create.topics", True, boolean)
    assignors: tuple[Assignor, ...] = ()
    """`partition.assignment.strategy`, in order of preference."""
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    interceptors: tuple[Any, ...] = ()
    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties that neither the consumer nor the client knows."""

    @classmethod
    def from_dict(cls, properties: Mapping[str, Any]) -> ConsumerConfig:
        """Make settings from properties.

        `partition.assignment.strategy` takes names (`range`, `roundrobin`, `sticky`, `cooperative-sticky`, or
        those of Kafka's classes), `Assignor` classes and objects. `key.deserializer` and `value.deserializer` take
        a function of bytes, or an object with `from_bytes`. `interceptor.classes` takes objects with `on_consume`
        or `on_commit`.

        Raises:
            ConfigError: A property cannot have its value, or properties contradict each other.
        """
        plain = dict(properties)
        strategy = plain.pop("partition.assignment.strategy", DEFAULT_ASSIGNORS)
        made: dict[str, Any] = {
            "assignors": find_assignors(strategy),
            "key_deserializer": _deserializer("key.deserializer", plain.pop("key.deserializer", None)),
            "value_deserializer": _deserializer("value.deserializer", plain.pop("value.deserializer", None)),
            "interceptors": _interceptors(plain.pop("interceptor.classes", ())),
        }
        client = ClientConfig.from_dict(plain)
        unknown = dict(client.unknown)
        for field in dataclasses.fields(cls):
            key = field.metadata.get("key")
            if key in unknown:
                text = unknown.pop(key)
                try:
                    made[field.name] = field.metadata["parse"](text)
                except ConfigError as error:
                    raise ConfigError(f"{key}={text}: {error}") from None
        config = cls(client=client, unknown=unknown, **made)
        config._check(plain.keys() | properties.keys())
        return config if config.group_id or "enable.auto.commit" in plain else config._without_commits()

    def _without_commits(self) -> ConsumerConfig:
        return dataclasses.replace(self, enable_auto_commit=False)

    def _check(self, given: Collection[str]) -> None:
        self._check_protocol(given)
        if not self.client.bootstrap_servers:
            raise ConfigError("bootstrap.servers is missing; name at least one host:port")
        if self.group_protocol == CLASSIC and self.heartbeat_interval >= self.session_timeout:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_interval * 1000:.0f}: must be less than session.timeout.ms "
                f"({self.session_timeout * 1000:.0f})"
            )
        if self.group_id is not None and not self.group_id.strip():
            raise ConfigError("group.id is empty; name a group, or leave it out")
        if self.group_instance_id is not None and not self.group_instance_id:
            raise ConfigError("group.instance.id is empty; name the instance, or leave it out")

    def _check_protocol(self, given: Collection[str]) -> None:
        if self.group_protocol == CLASSIC:
            if self.group_remote_assignor is not None:
                raise ConfigError(
                    "group.remote.assignor cannot be set when group.protocol=classic, whose members assign partitions "
                    "themselves (partition.assignment.strategy)"
                )
            return
        for key in _CLASSIC_ONLY:
            if key in given:
                broker = "the broker assigns partitions; group.remote.assignor names how"
                if key != "partition.assignment.strategy":
                    broker = f"the broker says it (group.consumer.{key})"
                raise ConfigError(f"{key} cannot be set when group.protocol=consumer: {broker}")


def _deserializer(key: str, given: Any) -> Deserializer | None:
    if given is None:
        return None
    if isinstance(given, type):
        given = given()
    found = getattr(given, "from_bytes", given)
    if not callable(found):
        raise ConfigError(f"{key}={given!r}: expected a function from bytes, or an object with from_bytes")
    return found  # type: ignore[no-any-return]


def _interceptors(given: Any) -> tuple[Any, ...]:
    listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    found = tuple(each() if isinstance(each, type) else each for each in listed)
    for each in found:
        if not (hasattr(each, "on_consume") or hasattr(each, "on_commit")):
            raise ConfigError(f"interceptor.classes: {each!r} has neither on_consume nor on_commit")
    return found
