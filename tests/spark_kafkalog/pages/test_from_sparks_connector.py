"""Test that the page about Spark's connector names every option that the connector has, and no other."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path

import pytest

from peers.cache import require
from peers.toolchains import java
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.sink.sink_options import SinkOptions
from tests.spark_kafkalog import older

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "from-sparks-connector.md"
PROVIDER = "org/apache/spark/sql/kafka010/KafkaSourceProvider$.class"
NO_OPTIONS = {
    *("latest", "earliest", "source", "false", "executor", "none", "group.id", "max.poll.records"),
    *("receive.buffer.bytes", "key.deserializer", "value.deserializer", "auto.offset.reset", "enable.auto.commit"),
    *("key.serializer", "value.serializer", "kafka.key.serializer", "kafka.value.serializer"),
}
"""Strings of the class that are values of options, or properties of clients."""
_SIZES = {7: 3, 16: 3, 19: 3, 20: 3, 15: 4, 3: 5, 4: 5, 9: 5, 10: 5, 11: 5, 12: 5, 17: 5, 18: 5, 5: 9, 6: 9}
"""Bytes of the entries of a class file's constant pool, by kind (Java Virtual Machine Specification, 4.4)."""
_UTF8, _STRING, _WIDE = 1, 8, (5, 6)


def strings(data: bytes) -> set[str]:
    """Return the string constants of a class file."""
    (count,) = struct.unpack_from(">H", data, 8)
    texts: dict[int, str] = {}
    constants: list[int] = []
    at, index = 10, 1
    while index < count:
        kind = data[at]
        if kind == _UTF8:
            (size,) = struct.unpack_from(">H", data, at + 1)
            texts[index] = data[at + 3 : at + 3 + size].decode(errors="replace")
            at += 3 + size
        elif kind == _STRING:
            constants.append(struct.unpack_from(">H", data, at + 1)[0])
            at += 3
        else:
            at += _SIZES[kind]
        index += 2 if kind in _WIDE else 1
    return {texts[each] for each in constants}


def named(heading: str) -> set[str]:
    """Return the options in the first column of the table under a heading, in lower case."""
    table = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name.lower() for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.peer
def test_every_option_of_the_connector_is_named() -> None:
    require(java.missing())
    (jar,) = (each for each in older.connector() if each.name.startswith("spark-sql-kafka"))
    with zipfile.ZipFile(jar) as opened:
        found = {each for each in strings(opened.read(PROVIDER)) if re.fullmatch(r"[a-z]+(\.[a-z]+)*", each)}
    assert found >= NO_OPTIONS
    of_source = {name for name in named("Options of the source") if not name.startswith("kafka.")}
    of_sink = {name for name in named("Options of the sink") if not name.startswith("kafka.")}
    assert of_source | of_sink == found - NO_OPTIONS


def test_what_the_page_says_of_options_holds(caplog: pytest.LogCaptureFixture) -> None:
    """Options of the page are known, and the refused ones are refused."""
    servers = {"kafka.bootstrap.servers": "localhost:1"}
    values = {
        **dict.fromkeys(("failondataloss", "includeheaders"), "true"),
        **{f"{side}offsets": "earliest" if side == "starting" else "latest" for side in ("starting", "ending")},
        **{f"{side}offsetsbytimestamp": '{"t":{"0":1}}' for side in ("starting", "ending")},
        "startingoffsetsbytimestampstrategy": "latest",
        "maxtriggerdelay": "1m",
    }
    families = {"kafka.*", "kafka.security.protocol", "kafka.ssl.*", "kafka.sasl.*"}
    for name in named("Options of the source") - {*families, "assign", "subscribe", "subscribepattern"}:
        options = {
            **servers,
            "subscribe": "t",
            name: values.get(name, "1" if name not in servers else servers.get(name, "")),
        }
        if name.startswith("kafka.") and name not in (*servers, "kafka.group.id"):
            with pytest.raises(ValueError, match="is not supported"):
                SourceOptions.parse(options)
        else:
            SourceOptions.parse(options)
    for name in named("Options of the sink") - {"kafka.*"}:
        refused = name.startswith("kafka.") and name not in (*servers, "kafka.transactional.id")
        options = {**servers, name: servers.get(name, "t")}
        if refused:
            with pytest.raises(ValueError, match="is not supported"):
                SinkOptions.parse(options)
        else:
            SinkOptions.parse(options)
    assert not [each.message for each in caplog.records if "not known" in each.message]
