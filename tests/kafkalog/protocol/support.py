"""Every message and version, and values for their fields."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st

from kafkalog.protocol import messages
from kafkalog.protocol.schema import FIRST_OWN_TAG, UNSET, Field, Message, Request, Response, Scalar, Struct

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_LONGEST_ARRAY = 3


@cache
def message_classes() -> tuple[type[Request] | type[Response], ...]:
    """Return all requests and responses, by API key."""
    for module in pkgutil.iter_modules(messages.__path__):
        importlib.import_module(f"{messages.__name__}.{module.name}")
    found: list[type[Request] | type[Response]] = [*Request.__subclasses__(), *Response.__subclasses__()]
    return tuple(sorted(found, key=lambda cls: (cls.api_key, cls.__name__)))


def request_classes() -> tuple[type[Request], ...]:
    return tuple(cls for cls in message_classes() if issubclass(cls, Request))


def versions(cls: type[Message]) -> range:
    return range(cls.min_version, cls.max_version + 1)


def each_version(test: Callable[[type[Message], int], None]) -> Callable[..., None]:
    """Make a test of (message, version) a test for each message, which has all of its versions.

    A test for each version would be two thousand tests of a millisecond, each of which costs four. The failure tells
    the version.
    """

    def of_all(cls: type[Message]) -> None:
        for version in versions(cls):
            try:
                test(cls, version)
            except BaseException as error:
                error.add_note(f"{cls.__name__}, version {version}")
                raise

    of_all.__doc__ = test.__doc__
    return pytest.mark.parametrize("cls", message_classes(), ids=class_name)(of_all)


def class_name(cls: type[Message]) -> str:
    return cls.__name__


def structs_of(cls: type[Struct], *, own: bool = True) -> set[type[Struct]]:
    """Return the structure and all structures inside it; without `own`, only those that Kafka has, too."""
    found = {cls}
    for field in cls.fields:
        if isinstance(field.type, type) and (own or not is_own(field)):
            found |= structs_of(field.type, own=own)
    return found


def is_own(field: Field) -> bool:
    """Return whether a field is this product's, which Kafka does not have."""
    return field.tag is not None and field.tag >= FIRST_OWN_TAG


def _scalar(of: Scalar) -> st.SearchStrategy[Any]:
    if of.name in _INTEGERS:
        return st.integers(*_INTEGERS[of.name])
    if of.name == "boolean":
        return st.booleans()
    if of.name == "float64":
        return st.floats(allow_nan=False)
    if of.name == "uuid":
        return st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw))
    if of.name == "string":
        # Around 127 bytes the length of a compact string begins to take two.
        return st.text(max_size=8) | st.integers(125, 130).map(lambda size: "s" * size)
    return st.binary(max_size=20) | st.integers(125, 130).map(lambda size: b"b" * size)


def _value(field: Field, version: int) -> st.SearchStrategy[Any]:
    of = field.type
    one: st.SearchStrategy[Any] = _scalar(of) if isinstance(of, Scalar) else values(of, version)
    if field.is_array:
        one = st.lists(one, max_size=_LONGEST_ARRAY)
    return st.none() | one if version in field.nullable else one


@cache
def values(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Draw instances that this version can encode: fields that it lacks keep their defaults."""
    present = {field.name: _value(field, version) for field in cls.fields if version in field.versions}
    return st.fixed_dictionaries(present).map(lambda drawn: cls(**drawn))


def sample(cls: type[Struct], version: int, seed: int = 0) -> Any:
    """Return an instance without default values in the fields of the version; the same seed gives the same one."""
    drawn = {}
    for number, field in enumerate(cls.fields, seed + 1):
        if version not in field.versions:
            continue
        of = field.type
        one = sample_scalar(of, number) if isinstance(of, Scalar) else sample(of, version, number)
        if not field.is_array and one == field.default and field.default is not UNSET:
            one = sample_scalar(of, number + 1) if isinstance(of, Scalar) else one
        drawn[field.name] = [one] if field.is_array else one
    return cls(**drawn)


def sample_scalar(of: Scalar, number: int) -> Any:
    """Return a value of the type; another number gives another value."""
    if of.name == "boolean":
        return number % 2 == 1
    if of.name == "uuid":
        return UUID(int=number)
    if of.name == "string":
        return f"s{number}"
    if of.name in ("bytes", "records"):
        return b"b%d" % number
    return float(number) if of.name == "float64" else number
