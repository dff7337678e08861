"""Declarations of configuration keys, and parsing of their values.

Types and their text forms follow Kafka's `ConfigDef`: booleans are `true`/`false`, lists are separated by
commas, integers are range-checked against their width, passwords are never printed. Numbers are read as Java reads
them, because Kafka's brokers have to read what is accepted here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any

from kafkalog.java_numbers import parse_double, parse_integer

Value = Any
Validator = Callable[[str, Value], None]


class ConfigError(ValueError):
    """A configuration value that cannot be used; the message names the key, the value and the remedy."""


class Type(IntEnum):
    """Value types; the numbers are those of DescribeConfigs responses (KIP-226, KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """The ways in which a broker key may change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Scope(Enum):
    """The reach of a broker key: the broker, one listener, or one SASL mechanism of a listener."""

    BROKER = "broker"
    LISTENER = "listener"
    """Also as `listener.name.<listener>.<key>`, which counts for that listener before the plain key."""
    MECHANISM = "mechanism"
    """Also as `listener.name.<listener>.<mechanism>.<key>`, which counts before both."""


LISTENER_PREFIX = "listener.name."
_SPACE = "".join(map(chr, range(0x21)))
"""The characters that Java's `String.trim` removes."""
_ITEM_SPACE = " \t\n\v\f\r"
"""The spaces around the items of a list that do not count."""
LONGEST_VALUE = 1 << 20
"""The longest value in characters. A node in ZooKeeper holds no more, unless it is configured to."""
_SHOWN = 100
"""The characters of a value that a message shows."""
_INTEGER_RANGES = {
    Type.SHORT: (-(1 << 15), (1 << 15) - 1),
    Type.INT: (-(1 << 31), (1 << 31) - 1),
    Type.LONG: (-(1 << 63), (1 << 63) - 1),
}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key."""

    name: str
    type: Type
    default: Value
    """The default, as a value and not as text."""
    doc: str
    validator: Validator | None = None
    update: Update = Update.READ_ONLY
    synonyms: tuple[str, ...] = ()
    """The keys that are used, in order, when this one is not set."""
    effect: bool = True
    """False for a key that is accepted for compatibility with Kafka but has no effect here."""
    member: bool = False
    """True for a key that has an effect only on a member of a cluster, with `zookeeper.connect`."""
    skips_empty: bool = False
    """True for a list whose empty items count for nothing: most such keys are text for Kafka, which it splits later."""
    scope: Scope = Scope.BROKER
    """The smallest part of a broker that the key may be set for."""
    update_of_listener: Update | None = None
    """The way in which the key may change under a listener's prefix, if it is another than without one."""

    @property
    def sensitive(self) -> bool:
        """True if nobody may see the value. The value of a key of unknown type may be a secret."""
        return self.type in (Type.PASSWORD, Type.UNKNOWN)

    def parse(self, text: str) -> Value:
        """Parse `text` into a value.

        Raises:
            ConfigError: the text is not of the key's type, or the validator refuses the value.
        """
        if len(text) > LONGEST_VALUE:
            beginning = f"of {len(text)} characters" if self.sensitive else shown(text)
            raise ConfigError(
                f"Invalid value {beginning} for configuration {self.name}: Value must have at most {LONGEST_VALUE} "
                "characters"
            )
        value = _parse(self.name, self.type, text.strip(_SPACE))
        if self.skips_empty:
            value = tuple(filter(None, value))
        if self.validator is not None:
            self.validator(self.name, value)
        return value

    def format(self, value: Value) -> str | None:
        """Return the text form of `value`, as DescribeConfigs reports it; None for null."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            if not math.isfinite(value):
                return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return str(value).replace("e+", "E").replace("e-", "E-")
        if isinstance(value, (list, tuple)):
            return ",".join(str(item) for item in value)
        return str(value)


def _parse(name: str, kind: Type, text: str) -> Value:
    if kind is Type.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ConfigError(
                f"Invalid value {shown(text)} for configuration {name}: Expected value to be either true or false"
            )
        return lowered == "true"
    if kind in _INTEGER_RANGES:
        number = parse_integer(text)
        low, high = _INTEGER_RANGES[kind]
        if number is None or not low <= number <= high:
            raise _no_number(name, kind, text)
        return number
    if kind is Type.DOUBLE:
        value = parse_double(text)
        if value is None:
            raise _no_number(name, kind, text)
        return value
    if kind is Type.LIST:
        return tuple(item.strip(_ITEM_SPACE) for item in text.split(",")) if text else ()
    return text


def shown(text: str) -> str:
    """Return what a message shows of a value: its beginning if it is long."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _no_number(name: str, kind: Type, text: str) -> ConfigError:
    return ConfigError(f"Invalid value {shown(text)} for configuration {name}: Not a number of type {kind.name}")


def at_least(minimum: float) -> Validator:
    def check(name: str, value: Value) -> None:
        if value is not None and value < minimum:
            raise ConfigError(f"Invalid value {value} for configuration {name}: Value must be at least {minimum}")

    return check


def not_zero(name: str, value: Value) -> None:
    """Refuse zero, which is neither a negative number, for no limit, nor a limit."""
    if value == 0:
        raise ConfigError(
            f"Invalid value {value} for configuration {name}: Value must be unlimited (-1) or, greater than or equal "
            "to 1"
        )


def between(minimum: float, maximum: float) -> Validator:
    def check(name: str, value: Value) -> None:
        if value is not None and not minimum <= value <= maximum:
            raise ConfigError(
                f"Invalid value {value} for configuration {name}: Value must be between {minimum} and {maximum}"
            )

    return check


def between_or(minimum: int, maximum: int, other: int) -> Validator:
    """Make a validator that allows numbers within two bounds, and `other`."""

    def check(name: str, value: Value) -> None:
        if value is not None and value != other and not minimum <= value <= maximum:
            raise ConfigError(
                f"Invalid value {value} for configuration {name}: "
                f"Value must be between {minimum} and {maximum} or equal to {other}"
            )

    return check


def one_of(*allowed: str) -> Validator:
    def check(name: str, value: Value) -> None:
        if value is not None and value not in allowed:
            raise ConfigError(
                f"Invalid value {shown(value)} for configuration {name}: String must be one of: {', '.join(allowed)}"
            )

    return check


def list_of(*allowed: str, empty: bool = False) -> Validator:
    """Make a validator for lists whose items are among `allowed`; `empty` allows the empty list."""

    def check(name: str, value: Value) -> None:
        for item in value or ():
            if item not in allowed:
                raise ConfigError(
                    f"Invalid value {shown(item)} for configuration {name}: String must be one of: {', '.join(allowed)}"
                )
        if not value and not empty:
            raise ConfigError(f"Invalid value for configuration {name}: List must not be empty")

    return check


class ConfigDefinition:
    """A closed set of keys, in declaration order.

    A key with the scope of a listener has other names, too: those with a listener's prefix. It is found by each of
    them, and then has that name, so that messages say which one is meant.

    Raises:
        ValueError: two keys have the same name.
    """

    def __init__(self, keys: list[ConfigKey]) -> None:
        self._keys = {key.name: key for key in keys}
        if len(self._keys) != len(keys):
            raise ValueError("a configuration key is declared twice")

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __getitem__(self, name: str) -> ConfigKey:
        key = self.get(name)
        if key is None:
            raise KeyError(name)
        return key

    def get(self, name: str) -> ConfigKey | None:
        key = self._keys.get(name)
        if key is None and name.startswith(LISTENER_PREFIX):
            return self._of_listener(name)
        return key

    def scope_of(self, name: str) -> Scope:
        """Return the scope of the key that has this plain name; that of a broker if there is none."""
        key = self._keys.get(name)
        return Scope.BROKER if key is None else key.scope

    def _of_listener(self, name: str) -> ConfigKey | None:
        """Return the key that a name with a listener's prefix stands for. Names of listeners may have dots, too."""
        words = name.removeprefix(LISTENER_PREFIX).split(".")
        for at in range(1, len(words)):
            key = self._keys.get(".".join(words[at:]))
            if key is not None and key.scope is not Scope.BROKER and all(words[:at]):
                return replace(key, name=name, update=key.update_of_listener or key.update)
        return None

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Parse the values of every declared key in `texts`; ignore undeclared names.

        Raises:
            ConfigError: a value does not fit its key.
        """
        keys = {name: self.get(name) for name in texts}
        return {name: key.parse(texts[name]) for name, key in keys.items() if key is not None}
