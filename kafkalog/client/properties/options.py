"""Declare options as fields of dataclasses, and parse their texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from kafkalog.client.errors import ConfigError
from kafkalog.java_numbers import parse_double, parse_integer

T = TypeVar("T")
Parse = Callable[[str], T]

INT32_MAX = 0x7FFFFFFF


def option(
    key: str, default: Any, parse: Parse[Any], *aliases: str, is_secret: bool = False, is_object: bool = False
) -> Any:
    """Make a field of a dataclass for an option.

    Args:
        key: The option's name.
        default: Its value unless it is given.
        parse: Makes the value from the option's text.
        aliases: Other names of the same option.
        is_secret: Whether the value must not be shown.
        is_object: Whether `parse` takes the object that is given, such as a function, and not its text.
    """
    metadata = {"key": key, "parse": parse, "aliases": aliases, "is_secret": is_secret, "is_object": is_object}
    return dataclasses.field(default=default, repr=not is_secret, metadata=metadata)


@cache
def declared(cls: type) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of a dataclass that are options, by the names and aliases of the options."""
    fields = [field for field in dataclasses.fields(cls) if "key" in field.metadata]
    aliases = {alias: field for field in fields for alias in field.metadata.get("aliases", ())}
    return MappingProxyType({field.metadata["key"]: field for field in fields} | aliases)


def read_options(cls: type, properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take the options of a dataclass from properties. Of an option with several names, the last one given counts.

    Returns:
        The values by the names of the fields, and the properties that are none of the options.

    Raises:
        ConfigError: A property cannot have its value. The message names it, and shows the value unless that is secret.
    """
    options = declared(cls)
    values: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, given in properties.items():
        field = options.get(key)
        if field is None:
            rest[key] = given
            continue
        metadata = field.metadata
        value = given if metadata["is_object"] else text_of(given)
        try:
            values[field.name] = metadata["parse"](value)
        except ConfigError as error:
            shown = "" if metadata["is_secret"] or metadata["is_object"] else f"={value}"
            raise ConfigError(f"{key}{shown}: {error}") from None
    return values, rest


def text_of(given: Any) -> str:
    """Return the text of a property's value, as Java's properties would write it."""
    return str(given).lower() if isinstance(given, bool) else str(given).strip()


def integer(low: int, high: int = INT32_MAX) -> Parse[int]:
    """Parse an integer of a range, both ends included."""

    def parse(text: str) -> int:
        value = parse_integer(text)
        if value is None or not low <= value <= high:
            raise ConfigError(f"expected an integer from {low} to {high}")
        return value

    return parse


def milliseconds(low: int = 0) -> Parse[float]:
    """Parse a duration in ms into seconds."""
    parse = integer(low)
    return lambda text: parse(text) / 1000


def boolean(text: str) -> bool:
    """Parse `true` or `false`."""
    if text.lower() not in ("true", "false"):
        raise ConfigError("expected true or false")
    return text.lower() == "true"


def one_of(*values: str) -> Parse[str]:
    """Parse one of some words, which are compared without regard to case."""
    known = {value.lower(): value for value in values}

    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ConfigError(f"expected one of {', '.join(values)}")
        return known[text.lower()]

    return parse


def decimal(low: float, high: float) -> Parse[float]:
    """Parse a number of a range, both ends included."""

    def parse(text: str) -> float:
        value = parse_double(text)
        if value is None or not low <= value <= high:
            raise ConfigError(f"expected a number from {low:g} to {high:g}")
        return value

    return parse
