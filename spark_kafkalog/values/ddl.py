"""Parses schemas in Spark SQL's DDL: `id BIGINT, tags ARRAY<STRING>, at STRUCT<x: DOUBLE, y: DOUBLE>`.

PySpark parses these in the JVM, which a data source's Python process lacks. So this is a small parser of the grammar
that `StructType.fromDDL` accepts (Spark SQL reference, "Data Types").
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([\w.]+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\S))")
_ATOMS: dict[str, Callable[[], DataType]] = {
    "boolean": BooleanType, "tinyint": ByteType, "byte": ByteType, "smallint": ShortType, "short": ShortType,
    "int": IntegerType, "integer": IntegerType, "bigint": LongType, "long": LongType, "float": FloatType,
    "real": FloatType, "double": DoubleType, "date": DateType, "timestamp": TimestampType,
    "timestamp_ltz": TimestampType, "timestamp_ntz": TimestampNTZType, "string": StringType, "binary": BinaryType,
}  # fmt: skip
_MAX_DEPTH = 64


class DdlError(ValueError):
    """A text is not a schema; the message says where."""


def parse_ddl(text: str) -> StructType:
    """Parse a list of columns, or the fields of one `STRUCT<…>`.

    Raises:
        DdlError: The text cannot be parsed, names a field twice, or nests types too deeply.
    """
    reading = _Reading(text)
    if reading.peek("struct") and reading.peek("<", 1):
        found = reading.type(0)
        assert isinstance(found, StructType)
    else:
        found = StructType(reading.fields("", 0))
    reading.end()
    return found


class _Reading:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        for quoted, word, string, sign in _TOKEN.findall(text):
            kind = "name" if quoted else "word" if word else "string" if string else "sign"
            self._tokens.append((kind, quoted.replace("``", "`") or word or string or sign))
        self._at = 0

    def peek(self, wanted: str, ahead: int = 0) -> bool:
        at = self._at + ahead
        return at < len(self._tokens) and self._tokens[at][0] != "name" and self._tokens[at][1].lower() == wanted

    def end(self) -> None:
        if self._at < len(self._tokens):
            self._fail("the end")

    def fields(self, close: str, depth: int) -> list[StructField]:
        """Parse `name type, …` up to the closing token, which is not consumed."""
        found: list[StructField] = []
        while not (close and self.peek(close)):
            if found:
                self._take(",")
            name = self._name()
            if self.peek(":"):
                self._at += 1
            kind = self.type(depth)
            if self.peek("not"):
                self._at += 1
                self._take("null")
            if self.peek("comment"):
                self._at += 2
            if any(each.name == name for each in found):
                raise DdlError(f"'{self._text}': field '{name}' is there twice")
            found.append(StructField(name, kind))
            if not close and self._at == len(self._tokens):
                break
        return found

    def type(self, depth: int) -> DataType:
        if depth > _MAX_DEPTH:
            raise DdlError(f"more than {_MAX_DEPTH} types within each other")
        word = self._word()
        if word in _ATOMS:
            return _ATOMS[word]()
        if word in ("decimal", "dec", "numeric"):
            return self._decimal()
        if word in ("array", "map", "struct"):
            self._take("<")
            found: DataType
            if word == "array":
                found = ArrayType(self.type(depth + 1))
            elif word == "map":
                key = self.type(depth + 1)
                self._take(",")
                found = MapType(key, self.type(depth + 1))
            else:
                found = StructType(self.fields(">", depth + 1))
            self._take(">")
            return found
        self._at -= 1
        self._fail("a type such as BIGINT, STRING, ARRAY<…> or STRUCT<…>")
        raise AssertionError("unreachable")

    def _decimal(self) -> DecimalType:
        precision, scale = 10, 0
        if self.peek("("):
            self._take("(")
            precision = self._number()
            if self.peek(","):
                self._take(",")
                scale = self._number()
            self._take(")")
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise DdlError(
                f"decimal({precision},{scale}): 1 to 38 digits, of which no more than all are behind the point"
            )
        return DecimalType(precision, scale)

    def _number(self) -> int:
        word = self._word()
        if not word.isdecimal():
            self._at -= 1
            self._fail("a number")
        return int(word)

    def _name(self) -> str:
        if self._at == len(self._tokens) or self._tokens[self._at][0] not in ("name", "word"):
            self._fail("a field's name")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _word(self) -> str:
        if self._at == len(self._tokens) or self._tokens[self._at][0] != "word":
            self._fail("a type")
        self._at += 1
        return self._tokens[self._at - 1][1].lower()

    def _take(self, wanted: str) -> None:
        if not self.peek(wanted):
            self._fail(f"'{wanted}'")
        self._at += 1

    def _fail(self, wanted: str) -> None:
        found = f"'{self._tokens[self._at][1]}'" if self._at < len(self._tokens) else "the end"
        raise DdlError(f"'{self._text}': expected {wanted} but found {found}")
