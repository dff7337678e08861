"""The plug-ins that users may put between `Producer.send` and a batch: serializers, a partitioner, interceptors.

A property holds an object, a class, or the dotted path of a class (`package.module.Class` or
`package.module:Class`).

Interceptors (KIP-42) see every record before it is serialized, and later its outcome. `on_send(record)` returns the
record to go on with. `on_acknowledgement(metadata, error)` is called once for each record, and one of its two arguments
is None. It is called on the sender's thread; if `send` raises an exception, by `send`. An interceptor may have either
or both, and `close()`. Exceptions that it raises are logged and otherwise ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from kafkalog.client.errors import ConfigError
from kafkalog.client.producer.batches.batch import RecordMetadata
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partitioner import Choose, RoundRobinPartitioner
from kafkalog.client.producer.record import ProducerRecord
from kafkalog.client.producer.serialization import KNOWN, Serialize, serializer

T = TypeVar("T")
logger = logging.getLogger(__name__)


_DEFAULT = ("", "default", "murmur2", "org.apache.kafka.clients.producer.internals.DefaultPartitioner")
_STICKY = ("uniform_sticky", "org.apache.kafka.clients.producer.UniformStickyPartitioner")
_ROUND_ROBIN = ("round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner")


class ProducerInterceptors:
    """Call the interceptors of `interceptor.classes`, in their order."""

    def __init__(self, found: Sequence[Any]) -> None:
        self._all = found
        self._send = [each.on_send for each in found if hasattr(each, "on_send")]
        self._acknowledge = [each.on_acknowledgement for each in found if hasattr(each, "on_acknowledgement")]

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through all interceptors; one that fails leaves the record as it was."""
        for call in self._send:
            try:
                record = call(record)
            except Exception:
                logger.exception("an interceptor's on_send failed; topic %s", record.topic)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Tell all interceptors the outcome of a record."""
        for call in self._acknowledge:
            try:
                call(metadata, error)
            except Exception:
                logger.exception("an interceptor's on_acknowledgement failed")

    def close(self) -> None:
        """Close the interceptors that have a `close`."""
        for each in self._all:
            if hasattr(each, "close"):
                try:
                    each.close()
                except Exception:
                    logger.exception("an interceptor's close failed")


@dataclass(frozen=True)
class Plugins:
    """The plug-ins of a configuration; None for what is not configured."""

    serialize_key: Serialize | None = None
    serialize_value: Serialize | None = None
    choose: Choose | None = None
    ignores_keys: bool = False
    interceptors: ProducerInterceptors | None = None
    present: bool = False
    """True if `send` must call any of them."""
    _closing: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, config: ProducerConfig) -> Plugins:
        """Make the plug-ins of a configuration.

        Raises:
            ConfigError: A plug-in is invalid or cannot be loaded.
        """
        closing = []
        found = []
        for key, given in (("key.serializer", config.key_serializer), ("value.serializer", config.value_serializer)):
            named = _named(key, given)
            closing.append(named)
            found.append(None if given is None else _checked(key, serializer, named))
        choose, ignores_keys = _checked("partitioner.class", partitioner, config.partitioner)
        interceptors = None
        if config.interceptors:
            interceptors = ProducerInterceptors(_checked("interceptor.classes", instances, config.interceptors))
        present = any(each is not None for each in (*found, choose, interceptors))
        return cls(found[0], found[1], choose, ignores_keys, interceptors, present, closing)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Tell the interceptors of an exception, because its record has no future that would tell them."""
        try:
            yield
        except Exception as error:
            if self.interceptors is not None:
                self.interceptors.on_acknowledgement(None, error)
            raise

    def close(self) -> None:
        """Close the plug-ins that have a `close`."""
        for each in self._closing:
            if hasattr(each, "close"):
                each.close()
        if self.interceptors is not None:
            self.interceptors.close()


def _named(key: str, given: Any) -> Any:
    """Make a serializer where its class is given or named; return the name where it is one of Java's serializers."""
    if isinstance(given, str) and given.rpartition(".")[2] in KNOWN:
        return given
    found = _checked(key, load, given) if isinstance(given, str) else given
    return found() if isinstance(found, type) else found


def _checked(key: str, parse: Callable[[Any], T], given: Any) -> T:
    try:
        return parse(given)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None


def partitioner(given: Any) -> tuple[Choose | None, bool]:
    """Find the partitioner of `partitioner.class` (None: the built-in one), and whether that ignores keys.

    The property may be the name of one of Kafka's partitioners, an object with `partition(topic, key, value, layout)`,
    its class, the class's dotted path, or a callable with the same arguments.

    Raises:
        ConfigError: The property is anything else.
    """
    if given in _DEFAULT or given is None:
        return None, False
    if given in _STICKY:
        return None, True
    if given in _ROUND_ROBIN:
        given = RoundRobinPartitioner
    elif isinstance(given, str):
        given = load(given)
    if isinstance(given, type):
        given = given()
    choose = getattr(given, "partition", given)
    if not callable(choose):
        raise ConfigError(f"{given!r} is no partitioner; expected an object with partition(topic, key, value, layout)")
    return choose, False


def load(path: str) -> Any:
    """Import the object at a dotted path.

    Raises:
        ConfigError: There is none.
    """
    module, _, name = path.rpartition(":" if ":" in path else ".")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path} cannot be loaded: {error}") from None
    return found


def instances(given: Any) -> list[Any]:
    """Make the objects of a property that lists some: objects and classes, or dotted paths separated by commas."""
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    elif not isinstance(given, list | tuple):
        given = [given]
    found = [load(each) if isinstance(each, str) else each for each in given]
    return [each() if isinstance(each, type) else each for each in found]
