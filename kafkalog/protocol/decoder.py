"""Generates the function that decodes one message in one version.

The function is `decode(buf, pos, end) -> (message, position after it)`, with every structure inlined.
Neighbouring fields of fixed width, and the length that follows them, are one `struct` call. Reading beyond
the end ends in the `IndexError` or `struct.error` of the read itself; slices and counts, which Python
would cut short or take memory for, are checked first. The caller turns all of these into `ProtocolError`.

With a budget the function is `decode(buf, pos, end, budget)`. Each array, string and tagged section takes its cost
from the budget before it is decoded, and the function raises `TooManyEntriesError` once the budget is exceeded.
Records cost nothing, because they are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from struct import Struct as Pack
from typing import Any

from kafkalog.protocol import primitives
from kafkalog.protocol.generator import (
    SchemaError,
    Source,
    contains_records,
    is_flexible,
    least_element_size,
    tagged_fields,
)
from kafkalog.protocol.primitives import LONG_RUN, MAX_STRING, UNPACK_ARRAY
from kafkalog.protocol.schema import BYTES, RECORDS, STRING, UUID_, Field, Message, Scalar, Struct

_HELPERS = (
    "continue_uvarint",
    "read_uvarint",
    "too_short",
    "too_many",
    "null_value",
    "long_string",
    "wrong_size",
    "unpack_long_array",
    "TooManyEntriesError",
)
ELEMENT_COST = 32
"""The cost of an array's element; a byte of a string costs 1."""
TAG_COST = 8


def generate_decoder(cls: type[Message], version: int, *, with_budget: bool = False) -> Callable[..., tuple[Any, int]]:
    """Generate the function that decodes a message in a version."""
    return _Decoder(cls, version, with_budget).generate()


class _Decoder:
    def __init__(self, cls: type[Message], version: int, with_budget: bool) -> None:
        self._with_budget = with_budget
        self._cls = cls
        self._version = version
        self._flexible = is_flexible(cls, version)
        self._views = contains_records(cls)
        self._source = Source()
        self._source.scope.update({name: getattr(primitives, name) for name in _HELPERS})
        self._source.scope.update(repeat=repeat, read_uuid=primitives.read_uuid, new=object.__new__)
        self._run: list[tuple[str, str, str]] = []
        """Fixed-width values not yet read: (struct code, assignment target, line to run after)."""

    def generate(self) -> Callable[..., tuple[Any, int]]:
        self._struct(self._cls, "m", self._cls.__name__)
        self._flush()
        self._source.line("return m, pos")
        file = f"{self._cls.__name__} v{self._version} decode"
        return self._source.compile("decode", "buf, pos, end, budget" if self._with_budget else "buf, pos, end", file)

    def _spend(self, amount: str) -> None:
        if self._with_budget:
            self._source.line(f"budget -= {amount}")
            with self._source.block("if budget < 0:"):
                self._source.line("raise TooManyEntriesError")

    # Fixed-width values

    def _fixed(self, code: str, target: str, then: str = "") -> None:
        self._run.append((code, target, then))

    def _flush(self) -> None:
        if not self._run:
            return
        line = self._source.line
        codes = "".join(code for code, _, _ in self._run)
        targets = [target for _, target, _ in self._run]
        if codes == "B":
            line(f"{targets[0]} = buf[pos]")
            line("pos += 1")
        else:
            pack = Pack(">" + codes)
            reader = self._source.constant(f"unpack_{''.join(c for c in codes if c != '?')}_", pack.unpack_from)
            line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {reader}(buf, pos)")
            line(f"pos += {pack.size}")
        for _, _, then in self._run:
            if then:
                line(then)
        self._run.clear()

    def _length(self, wide: str, string_path: str = "") -> str:
        """Read a length or count into a variable: null is then 0 where compact, and negative elsewhere."""
        name = self._source.fresh("n")
        self._fixed("B" if self._flexible else wide, name)
        self._flush()
        if self._flexible:
            with self._source.block(f"if {name} > 127:"):
                self._source.line(f"{name}, pos = continue_uvarint(buf, pos, {name})")
                if string_path:
                    with self._source.block(f"if {name} > {MAX_STRING + 1}:"):
                        self._source.line(f"raise long_string({string_path}, {name} - 1)")
        return name

    # Structures

    def _struct(self, cls: type[Struct], var: str, path: str) -> None:
        self._source.line(f"{var} = new({self._source.constant(cls.__name__ + '_', cls)})")
        tagged = tagged_fields(cls, self._version)
        for field in cls.fields:
            if field in tagged or self._version not in field.versions:
                self._default(field, var)
            else:
                self._field(field, f"{var}.{field.slot}", f"{path}.{field.name}")
        if self._flexible:
            self._tagged_section(tagged, var, path)

    def _default(self, field: Field, var: str) -> None:
        if field.is_lazy:
            value = "None"
        elif field.is_array and field.default is not None:
            value = "[]"
        elif field.default is None or isinstance(field.default, bool | int | str | bytes):
            value = repr(field.default)
        else:
            value = self._source.constant("default_", field.default)
        self._source.line(f"{var}.{field.slot} = {value}")

    def _tagged_section(self, tagged: list[Field], var: str, path: str) -> None:
        source = self._source
        count, tag, size, stop = (source.fresh(prefix) for prefix in ("n", "tag", "size", "stop"))
        self._fixed("B", count)
        self._flush()
        with source.block(f"if {count}:"):
            with source.block(f"if {count} > 127:"):
                source.line(f"{count}, pos = continue_uvarint(buf, pos, {count})")
            self._spend(f"{count} * {TAG_COST}")
            with source.block(f"for _ in repeat(None, {count}):"):
                source.line(f"{tag}, pos = read_uvarint(buf, pos)")
                source.line(f"{size}, pos = read_uvarint(buf, pos)")
                source.line(f"{stop} = pos + {size}")
                with source.block(f"if {stop} > end:"):
                    source.line(f"raise too_short({path + '.tagged fields'!r}, {size}, end - pos)")
                for position, field in enumerate(tagged):
                    with source.block(f"{'elif' if position else 'if'} {tag} == {field.tag}:"):
                        self._field(field, f"{var}.{field.slot}", f"{path}.{field.name}")
                        self._flush()
                        with source.block(f"if pos != {stop}:"):
                            source.line(f"raise wrong_size({f'{path}.{field.name}'!r})")
                # A tag that this table does not have belongs to another implementation or to a later version.
                if tagged:
                    with source.block("else:"):
                        source.line(f"pos = {stop}")
                else:
                    source.line(f"pos = {stop}")

    # Fields

    def _field(self, field: Field, target: str, path: str) -> None:
        nullable = self._version in field.nullable
        if field.is_array:
            self._array(field, target, path, nullable)
        elif isinstance(field.type, Scalar):
            self._scalar(field.type, target, path, nullable)
        else:
            self._inner_struct(field.type, target, path, nullable)

    def _inner_struct(self, cls: type[Struct], target: str, path: str, nullable: bool) -> None:
        source = self._source
        var = source.fresh("m")
        if not nullable:
            self._struct(cls, var, path)
            source.line(f"{target} = {var}")
            return
        mark = source.fresh("n")
        self._fixed("b", mark)
        self._flush()
        with source.block(f"if {mark} < 0:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            self._struct(cls, var, path)
            self._flush()
            source.line(f"{target} = {var}")

    def _scalar(self, of: Scalar, target: str, path: str, nullable: bool) -> None:
        if of is UUID_:
            raw = self._source.fresh("u")
            self._fixed(of.code, raw, f"{target} = read_uuid({raw})")
        elif of.code:
            self._fixed(of.code, target)
        else:
            self._sized(of, target, path, nullable)

    def _sized(self, of: Scalar, target: str, path: str, nullable: bool) -> None:
        """Decode a string, bytes or records."""
        source = self._source
        length = self._length("h" if of is STRING else "i", f"{path!r}" if of is STRING else "")
        stop = source.fresh("stop")
        with self._unless_null(length, target, path, nullable):
            size = f"{length} - 1" if self._flexible else length
            source.line(f"{stop} = pos + {size}")
            with source.block(f"if {stop} > end:"):
                source.line(f"raise too_short({path!r}, {size}, end - pos)")
            if of is STRING:
                self._spend(size)
            piece = f"buf[pos:{stop}]"
            if of is STRING:
                piece = f'str({piece}, "utf-8", "replace")'
            elif of is BYTES and (self._views or self._with_budget):
                # A slice of a view would be a view of a buffer that is received into again.
                piece = f"bytes({piece})"
            elif of not in (BYTES, RECORDS):
                raise SchemaError(f"{path}: no decoding of {of.name}")
            source.line(f"{target} = {piece}")
            source.line(f"pos = {stop}")

    @contextmanager
    def _unless_null(self, length: str, target: str, path: str, nullable: bool) -> Iterator[None]:
        """Open the block after a length; a separate block only if null is possible, so that other runs continue."""
        is_null = f"if {length} {'== 0' if self._flexible else '< 0'}:"
        if nullable:
            with self._source.block(is_null):
                self._source.line(f"{target} = None")
            with self._source.block("else:"):
                yield
                self._flush()
        else:
            with self._source.block(is_null):
                self._source.line(f"raise null_value({path!r})")
            yield

    def _array(self, field: Field, target: str, path: str, nullable: bool) -> None:
        source = self._source
        count = self._length("i")
        with self._unless_null(count, target, path, nullable):
            if self._flexible:
                source.line(f"{count} -= 1")
            self._spend(f"{count} * {ELEMENT_COST}")
            self._elements(field.type, count, target, path)

    def _elements(self, of: Scalar | type[Struct], count: str, target: str, path: str) -> None:
        source = self._source
        if isinstance(of, Scalar) and of.code and of is not UUID_:
            # No check of the count: unpacking refuses to read beyond the end before it makes anything.
            table = source.constant("unpack_arrays_of_", UNPACK_ARRAY[of.code])
            with source.block(f"if {count} > {LONG_RUN}:"):
                source.line(f"{target} = unpack_long_array(buf, pos, end, {count}, {of.code!r}, {path!r})")
            with source.block("else:"):
                source.line(f"{target} = [*{table}[{count}](buf, pos)]")
            source.line(f"pos += {f'{count} * {of.size}' if of.size > 1 else count}")
            return
        least = least_element_size(of, self._version, self._flexible)
        if least < 1:
            raise SchemaError(f"{path}: an element can be empty, so its count cannot be checked")
        with source.block(f"if {count}{f' * {least}' if least > 1 else ''} > end - pos:"):
            source.line(f"raise too_many({path!r}, {count}, end - pos)")
        values = source.fresh("a")
        source.line(f"{target} = {values} = []")
        with source.block(f"for _ in repeat(None, {count}):"):
            var = source.fresh("m")
            if isinstance(of, Scalar):
                self._scalar(of, var, path, nullable=False)
            else:
                self._struct(of, var, path)
            self._flush()
            source.line(f"{values}.append({var})")
