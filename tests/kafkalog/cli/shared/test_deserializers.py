"""Test the text of bytes: what `toString` of Java returns for the values of Kafka's deserializers."""

from __future__ import annotations

import struct

import pytest

from kafkalog.cli.shared.client_options import UsageError
from kafkalog.cli.shared.deserializers import find_deserializer

FLOATS = (
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (-1.5, "-1.5"),
    (100.0, "100.0"),
    (1.2345678e6, "1234567.8"),
    (1e7, "1.0E7"),
    (1.25e10, "1.25E10"),
    (0.001, "0.001"),
    (0.00099, "9.9E-4"),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
)
"""Numbers whose text is the same for float and double."""


def text(name: str, data: bytes) -> str:
    return find_deserializer("value.deserializer", name)(data).decode()


@pytest.mark.parametrize(("number", "expected"), FLOATS)
def test_floats_and_doubles(number: float, expected: str) -> None:
    assert text("DoubleDeserializer", struct.pack(">d", number)) == expected
    assert text("FloatDeserializer", struct.pack(">f", number)) == expected


def test_the_fewest_digits_that_name_the_number() -> None:
    # As in the documentation of Java's Double.toString and Float.toString: 2.0E-3 has no exponent, and the least
    # number has two digits.
    for number, expected in ((0.1, "0.1"), (1 / 3, "0.3333333333333333"), (5e-324, "4.9E-324"), (2e23, "2.0E23"),
                             (1.7976931348623157e308, "1.7976931348623157E308")):  # fmt: skip
        assert text("DoubleDeserializer", struct.pack(">d", number)) == expected
    for number, expected in ((0.1, "0.1"), (1 / 3, "0.33333334"), (1e-45, "1.4E-45"), (3.4028235e38, "3.4028235E38"),
                             (1.0e23, "1.0E23"), (16777216.0, "1.6777216E7")):  # fmt: skip
        assert text("FloatDeserializer", struct.pack(">f", number)) == expected


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", b"\xff" * 8, "-1"),
        ("ShortDeserializer", b"\x01\x00", "256"),
        ("BooleanDeserializer", b"\x01", "true"),
        ("UUIDDeserializer", b"123E4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("UUIDDeserializer", b"1-2-3-4-5", "00000001-0002-0003-0004-000000000005"),
        ("UUIDDeserializer", b"f00000001-0-0-0-0", "00000001-0000-0000-0000-000000000000"),
        ("BytesDeserializer", b"a \\\x00~\xfe", "a \\x5C\\x00~\\xFE"),
        ("StringDeserializer", b"\xc3\xa9\xff", "é�"),
    ],
)
def test_other_types(name: str, data: bytes, expected: str) -> None:
    assert text(name, data) == expected


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("LongDeserializer", b"1234567"),
        ("FloatDeserializer", b"12345678"),
        ("DoubleDeserializer", b"1234"),
        ("BooleanDeserializer", b"\x02"),
        ("VoidDeserializer", b""),
        ("UUIDDeserializer", b"123e4567e89b12d3a456426614174000"),
        ("UUIDDeserializer", b"{123e4567-e89b-12d3-a456-426614174000}"),
        ("UUIDDeserializer", b"0123e4567-e89b-12d3-a456-426614174000"),
        ("UUIDDeserializer", b"1-2-3-4-"),
    ],
)
def test_bytes_that_are_no_value(name: str, data: bytes) -> None:
    with pytest.raises(ValueError, match="no "):
        find_deserializer("value.deserializer", name)(data)


def test_an_unknown_class() -> None:
    with pytest.raises(UsageError, match="expected one of StringDeserializer, "):
        find_deserializer("key.deserializer", "com.example.Avro")


LIST = "ListDeserializer"
SERDES = "org.apache.kafka.common.serialization.Serdes$"


def of_list(inner: str, kind: str = "java.util.ArrayList", part: str = "value") -> dict[str, str]:
    return {f"default.list.{part}.serde.type": kind, f"default.list.{part}.serde.inner": f"{SERDES}{inner}Serde"}


def test_a_buffer_tells_only_its_size() -> None:
    assert text("ByteBufferDeserializer", b"abc") == "java.nio.HeapByteBuffer[pos=0 lim=3 cap=3]"


@pytest.mark.parametrize(
    ("inner", "data", "expected"),
    [
        ("Integer", "00 00000001 00000001 00000003 00000007 ffffffff", "[7, null, -1]"),
        ("String", "01 00000003 00000001 61 ffffffff 00000000", "[a, null, ]"),
        ("Boolean", "01 00000001 00000001 01", "[true]"),
        ("Long", "00 00000000 00000000", "[]"),
    ],
)
def test_lists(inner: str, data: str, expected: str) -> None:
    """The bytes are those of ListSerializer, which writes nothing for the nulls of elements with one size."""
    deserialize = find_deserializer("value.deserializer", LIST, of_list(inner))
    whole = bytes.fromhex(data)
    assert deserialize(whole).decode() == expected
    for length in range(1, len(whole)):
        with pytest.raises(ValueError, match="no whole list"):
            deserialize(whole[:length])


@pytest.mark.parametrize(
    ("inner", "data"),
    [
        ("Integer", ""),
        ("Integer", "02 00000000"),
        ("String", "00 00000000 00000000"),
        ("Integer", "00 00000000 7fffffff"),
        ("Integer", "00 7fffffff"),
        ("String", "01 80000000"),
        ("String", "01 00000001 fffffffe"),
    ],
)
def test_bytes_that_are_no_list(inner: str, data: str) -> None:
    with pytest.raises(ValueError, match="no "):
        find_deserializer("value.deserializer", LIST, of_list(inner))(bytes.fromhex(data))


def test_encodings_of_texts() -> None:
    def decoded(data: bytes, key: str = "value.deserializer", **properties: str) -> str:
        own = {name.replace("_", "."): value for name, value in properties.items()}
        return find_deserializer(key, "StringDeserializer", own)(data).decode()

    assert decoded(b"\xe9", deserializer_encoding="ISO-8859-1") == "é"
    assert decoded(b"\xe9", deserializer_encoding="UTF-8", value_deserializer_encoding="latin1") == "é"
    key = decoded(b"\xe9", "key.deserializer", key_deserializer_encoding="latin1")
    assert (key, decoded(b"\xe9", "headers.deserializer", value_deserializer_encoding="latin1")) == ("é", "é")
    for data in ("é".encode("utf-16-be"), "é".encode("utf-16"), b"\xfe\xff\0\xe9"):
        assert [decoded(data, deserializer_encoding=name) for name in ("UTF-16", "utf16", "UTF_16")] == ["é"] * 3
    assert decoded("é".encode("utf-32-be"), deserializer_encoding="UTF32") == "é"
    uuid = find_deserializer("key.deserializer", "UUIDDeserializer", {"key.deserializer.encoding": "UTF-16BE"})
    assert uuid("1-2-3-4-5".encode("utf-16-be")) == b"00000001-0002-0003-0004-000000000005"


@pytest.mark.parametrize(
    ("name", "properties", "told"),
    [
        ("StringDeserializer", {"deserializer.encoding": "EBCDIC-9"}, "the encoding EBCDIC-9 is not known"),
        ("StringDeserializer", {"deserializer.encoding": "hex"}, "the encoding hex is not known"),
        ("StringDeserializer", {"key.deserializer.encoding": "UTF-8"}, "StringDeserializer has no such property"),
        ("LongDeserializer", {"deserializer.encoding": "UTF-8"}, "LongDeserializer has no such property"),
        (LIST, {}, "it needs the property default.list.value.serde.type"),
        (LIST, of_list("Long", kind="com.example.Own"), "it needs the property default.list.value.serde.type"),
        (LIST, of_list("List"), "it needs the property default.list.value.serde.inner"),
        (LIST, of_list("Long") | {"default.list.value.serde.inner": "x"}, "default.list.value.serde.inner, such as"),
        (LIST, of_list("Avro"), "expected one of StringDeserializer"),
    ],
)
def test_properties_that_are_refused(name: str, properties: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        find_deserializer("value.deserializer", name, properties)
