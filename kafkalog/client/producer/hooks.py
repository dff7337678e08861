"""What a user may put between `Producer.send` and a batch: serializers, a partitioner, interceptors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafkalog.client.errors import ConfigError
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.interceptors import Interceptors
from kafkalog.client.producer.partitioner import Choose, partitioner
from kafkalog.client.producer.plugins import instances, load
from kafkalog.client.producer.serializers import KNOWN, Serialize, serializer

T = TypeVar("T")


@dataclass(frozen=True)
class Hooks:
    """What is configured; None for what is not."""

    serialize_key: Serialize | None = None
    serialize_value: Serialize | None = None
    choose: Choose | None = None
    ignores_keys: bool = False
    interceptors: Interceptors | None = None
    present: bool = False
    """Whether `send` has to do with any of them."""
    _closing: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, config: ProducerConfig) -> Hooks:
        """ConfigError for what is none of them, or cannot be loaded."""
        closing = []
        found = []
        for key, given in (("key.serializer", config.key_serializer), ("value.serializer", config.value_serializer)):
            named = _named(key, given)
            closing.append(named)
            found.append(None if given is None else _checked(key, serializer, named))
        choose, ignores_keys = _checked("partitioner.class", partitioner, config.partitioner)
        interceptors = None
        if config.interceptors:
            interceptors = Interceptors(_checked("interceptor.classes", instances, config.interceptors))
        present = any(each is not None for each in (*found, choose, interceptors))
        return cls(found[0], found[1], choose, ignores_keys, interceptors, present, closing)

    def close(self) -> None:
        """Close what can be."""
        for each in self._closing:
            if hasattr(each, "close"):
                each.close()
        if self.interceptors is not None:
            self.interceptors.close()


def _named(key: str, given: Any) -> Any:
    """A serializer, made where its class is given or named; the name, where it is one of Java's."""
    if isinstance(given, str) and given.rpartition(".")[2] in KNOWN:
        return given
    found = _checked(key, load, given) if isinstance(given, str) else given
    return found() if isinstance(found, type) else found


def _checked(key: str, parse: Callable[[Any], T], given: Any) -> T:
    try:
        return parse(given)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None
