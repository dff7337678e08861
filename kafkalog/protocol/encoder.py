"""Generates the function that encodes one message in one version.

The function is `encode(m, out, cuts)`, with every structure inlined. It appends to the bytearray `out`;
neighbouring fields of fixed width, and the length that follows them, are one `struct` call. Records are
not copied: their length is written, and `cuts` gets the pair (position in `out`, records) for the caller
to put them between two pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Pack

from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.generator import SchemaError, Source, is_flexible, tagged_fields
from kafkalog.protocol.primitives import MAX_STRING, EncodeError, PackTable, uvarint
from kafkalog.protocol.schema import RECORDS, STRING, UUID_, Field, Message, Scalar, Struct


def generate_encoder(cls: type[Message], version: int) -> Callable[..., None]:
    """Generate the function that encodes a message in a version."""
    return _Encoder(cls, version).generate()


def _unsupported(path: str, version: int) -> UnsupportedVersionError:
    return UnsupportedVersionError(f"{path} has another value than its default, and version {version} cannot carry it")


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
        self._run: list[tuple[str, str]] = []
        """Fixed-width values not yet written: (struct code, expression). An array has the code "*i" and the like, and
        the variable that holds it; its count stands before it."""
        self._in_tag = False

    def generate(self) -> Callable[..., None]:
        self._struct(self._cls, "m", self._cls.__name__)
        self._flush()
        return self._source.compile("encode", "m, out, cuts", f"{self._cls.__name__} v{self._version} encode")

    # Fixed-width values

    def _fixed(self, code: str, expression: str) -> None:
        self._run.append((code, expression))

    def _packed(self, run: list[tuple[str, str]]) -> str:
        codes = [code for code, _ in run]
        name = f"pack_{''.join(codes).replace('?', 'Z').replace('*', 'n')}_"
        arrays = [expression for code, expression in run if code[0] == "*"]
        if arrays:
            lengths = ", ".join(f"len({array})" for array in arrays)
            pack = f"{self._source.constant(name, PackTable(codes))}[({lengths},)]"
        else:
            pack = self._source.constant(name, Pack(">" + "".join(codes)).pack)
        values = ", ".join(f"*{value}" if code[0] == "*" else value for code, value in run)
        return f"{pack}({values})"

    def _flush(self) -> None:
        if not self._run:
            return
        if [code for code, _ in self._run] == ["B"]:
            self._source.line(f"out.append({self._run[0][1]})")
        else:
            self._source.line(f"out += {self._packed(self._run)}")
        self._run.clear()

    def _length(self, wide: str, var: str, string_path: str = "") -> None:
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
            if string_path:
                with source.block(f"if {var} > {MAX_STRING + 1}:"):
                    source.line(f"raise long_string({string_path}, {var} - 1)")
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
        """Return the condition that the value differs from the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if field.is_array:
            return f"{value} is None or len({value}) > 0"
        if field.is_lazy:
            default = self._source.constant("default_", field.type())  # type: ignore[operator]
            return f"{value} is not None and {value} != {default}"
        if isinstance(field.default, bool):
            return f"not {value}" if field.default else f"bool({value})"
        if isinstance(field.default, int | str | bytes):
            return f"{value} != {field.default!r}"
        return f"{value} != {self._source.constant('default_', field.default)}"

    def _tagged_section(self, tagged: list[Field], var: str, path: str) -> None:
        source = self._source
        if not tagged:
            self._fixed("B", "0")
            return
        run, self._run = self._run, []
        conditions = [self._differs(field, f"{var}.{field.slot}") for field in tagged]
        with source.block(f"if {' or '.join(f'({condition})' for condition in conditions)}:"):
            flags = [source.fresh("t") for _ in tagged]
            for flag, condition in zip(flags, conditions, strict=True):
                source.line(f"{flag} = {condition}")
            self._run = [*run, ("B", " + ".join(flags))]
            self._flush()
            for flag, field in zip(flags, tagged, strict=True):
                with source.block(f"if {flag}:"):
                    self._tagged_field(field, f"{var}.{field.slot}", f"{path}.{field.name}")
        with source.block("else:"):
            self._run = [*run, ("B", "0")]
            self._flush()

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
        """Encode a string, bytes or records."""
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
        self._length("h" if of is STRING else "i", length, f"{path!r}" if of is STRING else "")
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
            self._fixed("B" if self._flexible else "i", count)
            self._fixed(f"*{of.code}", values)
            return
        self._length("i", count)
        var = source.fresh("m")
        with source.block(f"for {var} in {values}:"):
            if isinstance(of, Scalar):
                self._scalar(of, var, path, nullable=False)
            else:
                self._struct(of, var, path)
            self._flush()
