"""Generates the function that encodes one message in one version.

The function is ``encode(m, out, cuts)``, with every structure inlined. It appends to the bytearray ``out``;
neighbouring fields of fixed width, and the length that follows them, are one ``struct`` call. Records are
not copied: their length is written, and ``cuts`` gets the pair (position in ``out``, records) for the caller
to put them between two pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Pack

from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.generator import SchemaError, Source, is_flexible, tagged_fields
from kafkalog.protocol.primitives import MAX_STRING, EncodeError, RunTable, uvarint
from kafkalog.protocol.schema import RECORDS, STRING, UUID_, Field, Message, Scalar, Struct


def generate_encoder(cls: type[Message], version: int) -> Callable[..., None]:
    """The encoding function of a message in a version."""
    return _Encoder(cls, version).generate()


def _unsupported(path: str, version: int) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        f"{path} has another value than its default, and version {version} cannot carry it"
    )


def _null_value(path: str) -> EncodeError:
    return EncodeError(f"{path} is None")


def _long_string(path: str, length: int) -> EncodeError:
    return EncodeError(f"{path} has {length} bytes, and a string can have {MAX_STRING}")


class _Encoder:
    def __init__(self, cls: type[Message], version: int) -> None:
        self._cls = cls
        self._version = version
        self._flexible = is_flexible(cls, version)
        self._source = Source()
        self._source.scope.update(
            unsupported=_unsupported, null_value=_null_value, long_string=_long_string, uvarint=uvarint
        )
        # Fixed-width values not yet written: (struct code, expression).
        self._run: list[tuple[str, str]] = []
        self._in_tag = False

    def generate(self) -> Callable[..., None]:
        self._struct(self._cls, "m", self._cls.__name__)
        self._flush()
        return self._source.compile("encode", "m, out, cuts", f"{self._cls.__name__} v{self._version} encode")

    # Fixed-width values

    def _fixed(self, code: str, expression: str) -> None:
        self._run.append((code, expression))

    def _packed(self, run: list[tuple[str, str]]) -> str:
        codes = "".join(code for code, _ in run)
        pack = self._source.constant(f"pack_{codes.replace('?', 'Z')}_", Pack(">" + codes).pack)
        return f"{pack}({', '.join(expression for _, expression in run)})"

    def _flush(self) -> None:
        if not self._run:
            return
        if [code for code, _ in self._run] == ["B"]:
            self._source.line(f"out.append({self._run[0][1]})")
        else:
            self._source.line(f"out += {self._packed(self._run)}")
        self._run.clear()

    def _length(self, wide: str, var: str) -> None:
        """Write a length or count, as it stands in the variable."""
        if not self._flexible:
            self._fixed(wide, var)
            self._flush()
            return
        source = self._source
        with source.block(f"if {var} < 128:"):
            short = [*self._run, ("B", var)]
            source.line(f"out += {self._packed(short)}" if len(short) > 1 else f"out.append({var})")
        with source.block("else:"):
            if self._run:
                source.line(f"out += {self._packed(self._run)}")
            source.line(f"out += uvarint({var})")
        self._run.clear()

    # Structures

    def _struct(self, cls: type[Struct], var: str, path: str) -> None:
        tagged = tagged_fields(cls, self._version)
        for field in cls.fields:
            if field in tagged:
                continue
            if self._version in field.versions:
                self._field(field, f"{var}.{field.slot}", f"{path}.{field.name}")
            elif not field.ignorable:
                with self._source.block(f"if {self._differs(field, f'{var}.{field.slot}')}:"):
                    self._source.line(f"raise unsupported({f'{path}.{field.name}'!r}, {self._version})")
        if self._flexible:
            self._tagged_section(tagged, var, path)

    def _differs(self, field: Field, value: str) -> str:
        """The condition that the value is another than the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if field.is_array:
            return f"{value} or {value} is None"
        if field.is_lazy:
            default = self._source.constant("default_", field.type())  # type: ignore[operator]
            return f"{value} is not None and {value} != {default}"
        if isinstance(field.default, bool):
            return f"not {value}" if field.default else value
        if isinstance(field.default, int | str | bytes):
            return f"{value} != {field.default!r}"
        return f"{value} != {self._source.constant('default_', field.default)}"

    def _tagged_section(self, tagged: list[Field], var: str, path: str) -> None:
        source = self._source
        if not tagged:
            self._fixed("B", "0")
            return
        count = source.fresh("n")
        flags = [source.fresh("t") for _ in tagged]
        for flag, field in zip(flags, tagged, strict=True):
            source.line(f"{flag} = bool({self._differs(field, f'{var}.{field.slot}')})")
        source.line(f"{count} = {' + '.join(flags)}")
        self._fixed("B", count)
        self._flush()
        with source.block(f"if {count}:"):
            for flag, field in zip(flags, tagged, strict=True):
                with source.block(f"if {flag}:"):
                    self._tagged_field(field, f"{var}.{field.slot}", f"{path}.{field.name}")

    def _tagged_field(self, field: Field, value: str, path: str) -> None:
        source = self._source
        kept = source.fresh("kept")
        piece = source.fresh("piece")
        was_in_tag, self._in_tag = self._in_tag, True
        source.line(f"{kept} = out")
        source.line("out = bytearray()")
        self._field(field, value, path)
        self._flush()
        source.line(f"{piece} = out")
        source.line(f"out = {kept}")
        source.line(f"out += {uvarint(field.tag or 0)!r} + uvarint(len({piece}))")
        source.line(f"out += {piece}")
        self._in_tag = was_in_tag

    # Fields

    def _field(self, field: Field, value: str, path: str) -> None:
        nullable = self._version in field.nullable
        if field.is_array:
            self._array(field, value, path, nullable)
        elif isinstance(field.type, Scalar):
            self._scalar(field.type, value, path, nullable)
        else:
            self._inner_struct(field, value, path, nullable)

    def _inner_struct(self, field: Field, value: str, path: str, nullable: bool) -> None:
        source = self._source
        of = field.type
        assert not isinstance(of, Scalar)
        var = source.fresh("m")
        source.line(f"{var} = {value}")
        if not nullable:
            with source.block(f"if {var} is None:"):
                if field.is_lazy:
                    source.line(f"{var} = {source.constant('default_', of())}")
                else:
                    source.line(f"raise null_value({path!r})")
            self._struct(of, var, path)
            return
        self._flush()
        with source.block(f"if {var} is None:"):
            source.line("out.append(255)")
        with source.block("else:"):
            source.line("out.append(1)")
            self._struct(of, var, path)
            self._flush()

    def _scalar(self, of: Scalar, value: str, path: str, nullable: bool) -> None:
        if of is UUID_:
            self._fixed(of.code, f"{value}.bytes")
        elif of.code:
            self._fixed(of.code, value)
        else:
            self._sized(of, value, path, nullable)

    def _sized(self, of: Scalar, value: str, path: str, nullable: bool) -> None:
        """A string, bytes or records."""
        source = self._source
        data = source.fresh("s")
        length = source.fresh("n")
        source.line(f"{data} = {value}")
        with source.block(f"if {data} is None:"):
            if nullable:
                source.line(f"{length} = {0 if self._flexible else -1}")
                source.line(f'{data} = b""')
            else:
                source.line(f"raise null_value({path!r})")
        with source.block("else:"):
            if of is STRING:
                source.line(f"{data} = {data}.encode()")
            source.line(f"{length} = len({data}){' + 1' if self._flexible else ''}")
            if of is STRING:
                with source.block(f"if {length} > {MAX_STRING + self._flexible}:"):
                    source.line(f"raise long_string({path!r}, len({data}))")
        self._length("h" if of is STRING else "i", length)
        if of is not RECORDS:
            source.line(f"out += {data}")
            return
        if self._in_tag:
            raise SchemaError(f"{path}: records cannot be tagged, their place would be unknown")
        with source.block(f"if {data}:"):
            source.line(f"cuts.append((len(out), {data}))")

    def _array(self, field: Field, value: str, path: str, nullable: bool) -> None:
        source = self._source
        values = source.fresh("a")
        count = source.fresh("n")
        source.line(f"{values} = {value}")
        with source.block(f"if {values} is None:"):
            if nullable:
                source.line(f"{count} = {0 if self._flexible else -1}")
                source.line(f"{values} = ()")
            else:
                source.line(f"raise null_value({path!r})")
        with source.block("else:"):
            source.line(f"{count} = len({values}){' + 1' if self._flexible else ''}")
        of = field.type
        if isinstance(of, Scalar) and of.code and of is not UUID_:
            self._scalar_elements(of, values, count)
            return
        self._length("i", count)
        var = source.fresh("m")
        with source.block(f"for {var} in {values}:"):
            if isinstance(of, Scalar):
                self._scalar(of, var, path, nullable=False)
            else:
                self._struct(of, var, path)
            self._flush()

    def _scalar_elements(self, of: Scalar, values: str, count: str) -> None:
        """The count and all elements in one call where the count has its usual size."""
        source = self._source
        if not self._flexible:
            table = source.constant(f"pack_{of.name}s_", RunTable("i", of.code, "pack"))
            self._flush()
            source.line(f"out += {table}[len({values})]({count}, *{values})")
            return
        table = source.constant(f"pack_{of.name}s_", RunTable("B", of.code, "pack"))
        bare = source.constant(f"pack_bare_{of.name}s_", RunTable("", of.code, "pack"))
        self._flush()
        with source.block(f"if {count} < 128:"):
            source.line(f"out += {table}[len({values})]({count}, *{values})")
        with source.block("else:"):
            source.line(f"out += uvarint({count})")
            source.line(f"out += {bare}[len({values})](*{values})")
