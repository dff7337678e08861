"""Declare options as fields of dataclasses, and parse their texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from kafkalog.client.errors import ConfigError

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


def integer(low: int, high: int = INT32_MAX) -> Parse[int]:
    """Parse an integer of a range, both ends included."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"expected an integer from {low} to {high}") from None
        if not low <= value <= high:
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
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ConfigError(f"expected a number from {low:g} to {high:g}")
        return value

    return parse
