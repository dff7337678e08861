"""Source text of generated functions; shared by the generators of decoders and encoders."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from kafkalog.protocol.schema import STRING, Field, Message, Scalar, Struct


class SchemaError(TypeError):
    """A table that contradicts itself."""


class Source:
    """Lines of one function, the names that they use, and fresh variables."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0
        self.scope: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        start = len(self._lines)
        yield
        if len(self._lines) == start:
            self.line("pass")
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, prefix: str, value: Any) -> str:
        """Return the name of a global of the function that has the value."""
        for name, present in self.scope.items():
            if present is value and name.startswith(prefix):
                return name
        name = self.fresh(prefix)
        self.scope[name] = value
        return name

    def compile(self, name: str, signature: str, file: str) -> Callable[..., Any]:
        source = f"def {name}({signature}):\n" + "\n".join(self._lines or ["    pass"]) + "\n"
        filename = f"<kafkalog {file}>"
        exec(compile(source, filename, "exec"), self.scope)
        # With the source at hand a traceback shows the generated line.
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        return cast("Callable[..., Any]", self.scope[name])


def contains_records(cls: type[Struct]) -> bool:
    """Return whether the structure, or a structure inside it, has a records field."""
    return any(
        field.type.name == "records" if isinstance(field.type, Scalar) else contains_records(field.type)
        for field in cls.fields
    )


def is_flexible(cls: type[Message], version: int) -> bool:
    return version in cls.flexible_versions


def tagged_fields(cls: type[Struct], version: int) -> list[Field]:
    """Return the fields of the tagged section, in the order of their tags."""
    found = [field for field in cls.fields if version in field.tagged]
    return sorted(found, key=lambda field: field.tag or 0)


def least_size(field: Field, version: int, flexible: bool) -> int:
    """Return the smallest number of bytes that a value of the field can take."""
    length = 1 if flexible else 2 if field.type is STRING and not field.is_array else 4
    if field.is_array:
        return length
    if version in field.nullable and not isinstance(field.type, Scalar):
        return 1
    return least_element_size(field.type, version, flexible)


def least_element_size(of: Scalar | type[Struct], version: int, flexible: bool) -> int:
    """Return the smallest number of bytes that an element of an array can take, to check counts."""
    if isinstance(of, Scalar):
        return of.size or (1 if flexible else 2 if of is STRING else 4)
    size = 1 if flexible else 0
    for field in of.fields:
        if version in field.versions and version not in field.tagged:
            size += least_size(field, version, flexible)
    return size
