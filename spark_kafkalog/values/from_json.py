"""Decodes JSON values to typed columns.

pyarrow's JSON reader parses all values of a batch at once. Each gets a line of its own, `{"v":[VALUE]}`. The brackets
reveal a value that is empty or holds two documents, because a line must hold exactly one element. Unbalanced brackets
within a value are detected before; otherwise `{"a":1}],"w":[5` would pass. If the reader refuses a batch, the batch
is cut into parts, down to small ones. Python's `json` parses their records one by one, and they are converted by the
rules of Spark's `from_json`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kafkalog.records.arrow.json_text import first_not_enclosed
from spark_kafkalog.values import spark_times
from spark_kafkalog.values.arrow_types import arrow_type, parts

SLOW_ROWS = 16
"""A part of at most this many records is parsed one by one instead of being cut further."""
SLOW_BYTES = 128 << 10
"""A part of at most this many bytes, too. To cut it costs more, because each call of the reader takes 1 to 2 ms."""
CUTS = 8
MOST_DEPTH = 500
"""A value that is nested deeper is corrupt. Python's parser needs such a limit, and pyarrow's has none."""
MOST_BYTES = 256 << 20
"""The most bytes passed to the reader at a time; its offsets have 31 bits."""
DECIMAL256_DIGITS = 76
"""The most digits of Arrow's longest decimal."""

_HEAD, _TAIL = pa.scalar(b'{"v":['), pa.scalar(b"]}\n")
_EMPTY = pa.scalar(b"")
_NEWLINE = 10
_OPENING, _CLOSING = list(b"[{"), list(b"]}")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NOT_SPARKS = (
    r'"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T](?:[0-9]{2}(?::[0-9]{2})?(?:Z|[+-][0-9:]+)"|[0-9]{3}'
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?[+-](?:1[89]|2|[0-9]{2}:?[6-9]))"
    r"|\\u00(?:2[0bBdDeE]|3[0-9aA]|5[4aA])"
)
"""Timestamps that pyarrow reads and Spark does not: a zone after hours or minutes, compact times, offsets of more than
18 hours or with more than 59 minutes. Escapes in a document may hide them."""
_UNSAFE_DECIMALS = (
    r'[":,\[\s][-+]?[0-9.]*(?:[eE]-0*(?:[6-9][0-9]|[0-9]{3,})|[0-9]{18,}[eE]-[0-9]+)["\s,\]}]'
    r'|"[-+.0-9eE]*\\u00(?:2[bBdDeE]|3[0-9]|[46]5)'
)
"""Numbers with so many digits after the point, once the exponent is applied, that pyarrow looks up a power of ten
beyond the end of its table (76). It ends the process then, or divides by what lies there. Whole numbers only, because
hexadecimal ids have such parts. Escapes in a string may hide them."""
_NON_NUMBERS = {
    "NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf,
    "+INF": math.inf, "-INF": -math.inf,
}  # fmt: skip
_RANGES: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


def check_supported(schema: StructType) -> None:
    """Check that JSON values can have the schema.

    Raises:
        ValueError: They cannot. The message names the part and a remedy.
    """
    if not schema.fields:
        raise ValueError("a field is needed")
    for kind in parts(schema):
        if isinstance(kind, BinaryType):
            raise ValueError("BINARY cannot be read from JSON; read it as STRING and decode it with unbase64 or unhex")
        if isinstance(kind, NullType) or (isinstance(kind, MapType) and not isinstance(kind.keyType, StringType)):
            raise ValueError(f"{kind.simpleString().upper()} cannot be read from JSON; keys of maps are STRING")
        if isinstance(kind, StructType) and len({each.name for each in kind.fields}) < len(kind.fields):
            raise ValueError(f"{kind.simpleString()} has a field twice")
    arrow_type(schema)


class JsonDecoder:
    """Decodes binary columns of JSON documents, each an object, with one schema.

    Args:
        schema: The schema.
        time_zone: The zone of timestamps that name none.

    Raises:
        ValueError: JSON values cannot have the schema, or there is no such zone.
    """

    def __init__(self, schema: StructType, time_zone: str = "UTC") -> None:
        check_supported(schema)
        self.type = arrow_type(schema)
        zone = spark_times.zone_of(time_zone)
        self._convert = _converter(schema, zone)
        self._has_decimals = any(isinstance(kind, DecimalType) for kind in parts(schema))
        self._has_times = any(isinstance(kind, TimestampType | TimestampNTZType) for kind in parts(schema))
        self._parse_options: Any = None
        is_elsewhere = zone is not spark_times.UTC and any(isinstance(kind, TimestampType) for kind in parts(schema))
        if not is_elsewhere and not any(isinstance(kind, MapType) for kind in parts(schema)):
            # pyarrow reads no maps, and knows no other zone.
            self._parse_options = {
                "explicit_schema": pa.schema([("v", pa.list_(_parsed_type(schema)))]),
                "unexpected_field_behavior": "ignore",
            }

    def decode(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the structs, null where a value is null or undecodable, and a mask of the undecodable ones."""
        found: list[pa.Array] = []
        bad = np.zeros(len(values), bool)
        self._decode(values, 0, found, bad)
        return pa.concat_arrays(found) if found else pa.array([], self.type), pa.array(bad)

    def _decode(self, values: pa.Array, at: int, found: list[pa.Array], bad: Any) -> None:
        parsed = self._parse(values) if len(values) else None
        if parsed is not None:
            found.append(parsed)
        elif len(values) <= SLOW_ROWS or _size(values) <= SLOW_BYTES or self._parse_options is None:
            found.append(self._one_by_one(values, at, bad))
        else:
            step = -(-len(values) // CUTS)
            for start in range(0, len(values), step):
                self._decode(values.slice(start, step), at + start, found, bad)

    # All at once

    def _parse(self, values: pa.Array) -> pa.Array | None:
        """Parse all values at once; None if one of them is invalid."""
        if self._parse_options is None or _size(values) > MOST_BYTES:
            return None
        values = values.fill_null(b"null")
        if first_not_enclosed(values) < len(values) or _has_too_deep(values):
            return None
        if self._has_times and pc.any(pc.match_substring_regex(values, _NOT_SPARKS)).as_py():
            return None
        if self._has_decimals and pc.any(pc.match_substring_regex(values, _UNSAFE_DECIMALS)).as_py():
            return None
        lines = pc.binary_join_element_wise(_HEAD, values, _TAIL, _EMPTY)
        begin, end = (int(each) for each in _offsets(lines)[[0, -1]])
        text = lines.buffers()[2].slice(begin, end - begin)
        seen = np.frombuffer(text, np.uint8)
        if not _is_utf8(text):
            return None
        options = pj.ParseOptions(
            newlines_in_values=bool(np.count_nonzero(seen == _NEWLINE) != len(values)), **self._parse_options
        )
        reading = pj.ReadOptions(use_threads=False, block_size=len(seen) + 1)
        try:
            column = pj.read_json(pa.BufferReader(text), reading, options).column(0).combine_chunks()
            if len(column) != len(values) or (np.diff(_offsets(column)) != 1).any() or column.null_count:
                return None
            found = column.flatten().cast(self.type)
            if self._has_decimals:
                found.validate(full=True)
            return found
        except (pa.ArrowException, ValueError):
            return None

    # One by one

    def _one_by_one(self, values: pa.Array, at: int, bad: Any) -> pa.Array:
        rows: list[Any] = []
        for number, value in enumerate(values.to_pylist()):
            row = None
            if value is not None:
                try:
                    row = self._convert(_load(value))
                except (ValueError, RecursionError, OverflowError, InvalidOperation):
                    bad[at + number] = True
            rows.append(row)
        return pa.array(rows, self.type)


def _has_too_deep(values: pa.Array) -> bool:
    """Return whether a value is nested too deeply. Short ones and those with few brackets are not looked at."""
    if np.diff(_offsets(values)).max(initial=0) <= 2 * MOST_DEPTH:
        return False
    brackets = pc.add(pc.count_substring(values, "["), pc.count_substring(values, "{"))
    return any(map(_is_too_deep, values.filter(pc.greater(brackets, MOST_DEPTH)).to_pylist()))


def _is_too_deep(value: bytes) -> bool:
    if value.count(b"[") + value.count(b"{") <= MOST_DEPTH:
        return False
    seen = np.frombuffer(_STRING.sub(b"", value), np.uint8)
    opening, closing = (np.isin(seen, each) for each in (_OPENING, _CLOSING))
    depth = np.cumsum(opening.astype(np.int64) - closing)
    return bool(depth.max(initial=0) > MOST_DEPTH)


def _is_utf8(text: pa.Buffer) -> bool:
    """Return whether text is valid UTF-8, which pyarrow's reader does not check."""
    bounds = pa.py_buffer(np.array([0, text.size], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, bounds, text]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _parsed_type(kind: DataType) -> pa.DataType:
    """Return the type to read with pyarrow and cast then.

    It reads numbers as dates, timestamps with a zone where none may be, and too long decimals. It adds a decimal's
    missing digits after the point without a check for overflow. Hence decimals are read in 256 bits with at most so
    many digits that there is room for all that are added. The cast then checks the number of digits.
    """
    if isinstance(kind, StructType):
        return pa.struct([(each.name, _parsed_type(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(_parsed_type(kind.elementType))
    if isinstance(kind, DecimalType):
        return pa.decimal256(DECIMAL256_DIGITS - abs(kind.scale), kind.scale)
    return pa.string() if isinstance(kind, DateType | TimestampNTZType) else arrow_type(kind)


def _offsets(column: pa.Array) -> Any:
    """Return the offsets of a binary or list column; of a slice, only its own."""
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def _size(values: pa.Array) -> int:
    """Return the bytes of the values with what surrounds them for the reader."""
    offsets = _offsets(values)
    return int(offsets[-1]) - int(offsets[0]) + 16 * len(values)


# ---------------------------------------------------------------------------------------------- one by one


class _Number(str):
    """A number in its original text."""


def _load(value: bytes) -> Any:
    if _is_too_deep(value):
        raise ValueError("nested too deeply")
    return json.loads(value.decode(), parse_int=_Number, parse_float=_Number)


Convert = Callable[[Any], Any]


def _converter(kind: DataType, zone: tzinfo) -> Convert:
    """Return a function that converts results of `_load` for pyarrow; it ends with ValueError if that is impossible."""
    convert = _bare_converter(kind, zone)
    return lambda value: None if value is None else convert(value)


def _bare_converter(kind: DataType, zone: tzinfo) -> Convert:
    if isinstance(kind, StructType):
        fields = [(each.name, _converter(each.dataType, zone)) for each in kind.fields]

        def struct(value: Any) -> dict[str, Any]:
            given = _expect(value, dict)
            return {name: convert(given.get(name)) for name, convert in fields}

        return struct
    if isinstance(kind, ArrayType):
        element = _converter(kind.elementType, zone)
        return lambda value: [element(each) for each in _expect(value, list)]
    if isinstance(kind, MapType):
        item = _converter(kind.valueType, zone)
        return lambda value: [(_text(key), item(each)) for key, each in _expect(value, dict).items()]
    if isinstance(kind, DecimalType):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if type(kind) in _RANGES:
        most = 1 << (_RANGES[type(kind)] - 1)
        return lambda value: _integer(value, most)
    if isinstance(kind, TimestampType):
        return lambda value: _timestamp(value, zone)
    return _ATOMS[type(kind)]


def _expect(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{type(value).__name__} where {kind.__name__} should be")
    return value


def _text(value: Any) -> str:
    """Convert to a string; other values keep their JSON text."""
    text = str(value) if isinstance(value, str) else _written(value)
    text.encode()  # a lone surrogate is no character
    return text


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    # Loops, because comprehensions would double the number of calls within each other, which Python limits.
    pieces: list[str] = []
    if isinstance(value, dict):
        for key, each in value.items():
            pieces.append(f"{_written(key)}:{_written(each)}")
        return "{" + ",".join(pieces) + "}"
    if isinstance(value, list):
        for each in value:
            pieces.append(_written(each))  # noqa: PERF401
        return "[" + ",".join(pieces) + "]"
    return json.dumps(value, ensure_ascii=False)


def _integer(value: Any, most: int) -> int:
    number = int(_expect(value, _Number))
    if not -most <= number < most:
        raise ValueError(f"{number} does not fit")
    return number


def _double(value: Any) -> float:
    if type(value) is float:  # NaN, Infinity
        return value
    if isinstance(value, _Number):
        return float(value)
    found = _NON_NUMBERS.get(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("no number")
    return found


def _float(value: Any) -> float:
    # By way of a double, some numbers would be rounded twice.
    return float(pa.scalar(str(value)).cast(pa.float32()).as_py()) if isinstance(value, _Number) else _double(value)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if not isinstance(value, str) or _DECIMAL.fullmatch(text := value.replace(",", "")) is None:
        raise ValueError("no number")
    with localcontext() as context:
        context.prec = 100
        number = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    if number.adjusted() >= precision - scale:
        raise ValueError(f"{number} does not fit")
    return number


def _timestamp(value: Any, zone: tzinfo) -> int:
    """Parse a timestamp, or a number of seconds; return microseconds since 1970."""
    if not isinstance(value, _Number):
        return spark_times.micros(_expect(value, str), zone)
    micros = int(value) * spark_times.MICROS_S
    if not -(1 << 63) <= micros < 1 << 63:
        raise ValueError(f"{value} does not fit")
    return micros


_ATOMS: dict[type[DataType], Convert] = {
    BooleanType: lambda value: _expect(value, bool),
    StringType: _text,
    FloatType: _float,
    DoubleType: _double,
    DateType: lambda value: spark_times.days(_expect(value, str)),
    TimestampNTZType: lambda value: spark_times.local_micros(_expect(value, str)),
}
