"""The partition of a key, as the partitioners of Kafka 0.8 choose it: by Java's hash code. Pure.

Source: `DefaultPartitioner`, `ByteArrayPartitioner` and `Utils.abs` of Kafka 0.8.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalog.client.consumer.assignors.java_order import string_hash
from kafkalog.client.errors import ConfigError
from kafkalog.client.producer.plugins import load

Choose = Callable[[Any, int], int]
"""From a key and the number of partitions to a partition."""

_DEFAULT = ("kafka.producer.DefaultPartitioner", "kafka.producer.ByteArrayPartitioner")
_MASK = 0xFFFFFFFF


def java_hash(key: Any) -> int:
    """Compute `hashCode` of a String, an Integer or a Long; of bytes, `Arrays.hashCode`. Signed, with 32 bits.

    `DefaultPartitioner` takes an array's `hashCode` for bytes. That is not the same in two processes, so it is not
    followed here.

    Raises:
        TypeError: The key is of another type.
    """
    if isinstance(key, str):
        value = string_hash(key)
    elif isinstance(key, bytes | bytearray):
        value = 1
        for byte in key:
            # A byte of Java's is signed.
            value = (31 * value + (byte - 256 if byte > 127 else byte)) & _MASK
    elif isinstance(key, int) and -(1 << 63) <= key < 1 << 63:
        bits = key & 0xFFFFFFFFFFFFFFFF
        value = key & _MASK if -(1 << 31) <= key < 1 << 31 else (bits ^ bits >> 32) & _MASK
    else:
        raise TypeError(f"a key of type {type(key).__name__} has no partition: set partitioner.class, or give part_key")
    return value - (1 << 32) if value >> 31 else value


def partition_of(key: Any, partitions: int) -> int:
    """Return the partition of a key among `partitions` partitions.

    Raises:
        TypeError: As `java_hash`.
    """
    value = java_hash(key)
    # Java's least integer has no positive counterpart; Kafka takes 0 for it.
    return (0 if value == -(1 << 31) else abs(value)) % partitions


def chooser(given: Any) -> Choose:
    """Return the partitioner of `partitioner.class`.

    The property is the name of one of Kafka's partitioners, an object with `partition(key, num_partitions)`, its class,
    the class's dotted path, or a callable with the same arguments.

    Raises:
        ConfigError: The property is anything else.
    """
    if given is None or given in _DEFAULT:
        return partition_of
    found = load(given) if isinstance(given, str) else given
    found = found() if isinstance(found, type) else found
    choose: Any = getattr(found, "partition", found)
    if not callable(choose):
        raise ConfigError(f"{given!r} is no partitioner; expected an object with partition(key, num_partitions)")
    result: Choose = choose
    return result
