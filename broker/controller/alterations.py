"""The changes of IncrementalAlterConfigs to the overrides of one resource (KIP-339). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from broker.config.definition import ConfigDefinition, ConfigKey, Type
from kafkalog.protocol.errors import InvalidConfigError, InvalidRequestError

BROKER = "broker"


class Op(IntEnum):
    """Operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of one key."""

    name: str
    op: Op
    value: str | None


def check_alterations(alterations: Iterable[Alteration]) -> None:
    """Check that no key is repeated and no value is missing.

    Raises:
        InvalidRequestError: a key is repeated, or a value is missing.
    """
    seen: set[str] = set()
    for alteration in alterations:
        if alteration.name in seen:
            raise InvalidRequestError(f"Error due to duplicate config keys : {alteration.name}")
        seen.add(alteration.name)
        if alteration.op is not Op.DELETE and alteration.value is None:
            raise InvalidRequestError(f"Null value not supported for : {alteration.name}")


def altered(
    present: Mapping[str, str],
    alterations: Iterable[Alteration],
    kind: str,
    keys: ConfigDefinition,
    default: Callable[[ConfigKey], str | None],
) -> dict[str, str]:
    """Return the overrides after `alterations`.

    Args:
        present: the current overrides.
        alterations: the changes.
        kind: the kind of the resource: topic, broker or group.
        keys: the declared keys of that kind.
        default: returns the effective value of a key without an override.

    Raises:
        InvalidConfigError: a key is unknown, or is no list, which APPEND and SUBTRACT need.
    """
    result = dict(present)
    for alteration in alterations:
        key = keys.get(alteration.name)
        if alteration.op is Op.DELETE:
            # Any name is accepted, as in Kafka: a missing key counts as deleted.
            result.pop(alteration.name, None)
            continue
        if key is None and kind == BROKER and alteration.op is Op.SET:
            result[alteration.name] = alteration.value or ""
            continue
        if key is None:
            raise InvalidConfigError(f"Unknown {kind} config name: {alteration.name}")
        _apply(result, key, alteration, result[key.name] if key.name in result else default(key))
    return result


def _apply(config: dict[str, str], key: ConfigKey, alteration: Alteration, present: str | None) -> None:
    value = alteration.value or ""
    if alteration.op is Op.SET:
        config[key.name] = value
        return
    if key.type is not Type.LIST:
        raise InvalidConfigError(f"Config value {alteration.op.name.lower()} is not allowed for config key: {key.name}")
    items, named = _items(present or ""), _items(value)
    if alteration.op is Op.APPEND:
        items = list(dict.fromkeys([*items, *named]))
    else:
        items = [item for item in items if item not in named]
    config[key.name] = ",".join(items)


def _items(text: str) -> list[str]:
    return [item for item in map(str.strip, text.split(",")) if item]
