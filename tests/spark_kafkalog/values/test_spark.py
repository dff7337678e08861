"""Tests of typed values in Spark itself, in batches, streams and log directories."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from peers.cache import MissingPeerError, require
from peers.toolchains import maven
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.offline.written import write_segment
from tests.spark_kafkalog.topics import Topics
from tests.spark_kafkalog.values.avro.avro_values import EVERYTHING, WRITTEN, written
from tests.spark_kafkalog.values.registry_server import RegistryServer

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
DDL = "id BIGINT, name STRING, tags ARRAY<STRING>, at STRUCT<x: DOUBLE, y: DOUBLE>"
GOOD = [{"id": n, "name": f"n{n}", "tags": ["a", None], "at": {"x": n / 2}} for n in range(50)]
JSON = {"valueFormat": "json", "valueSchema": DDL}
USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
}


def encoded(documents: list[Any]) -> list[bytes]:
    return [json.dumps(each).encode() for each in documents]


def test_json(reads: Reads, topics: Topics) -> None:
    topic = topics.create("values-json")
    topics.produce(topic, [*encoded(GOOD), b"{", None, b'{"id": 7, "more": []}'])
    frame = reads.batch(subscribe=topic, **JSON)
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,name:string,tags:array<string>,at:struct<x:double,y:double>>"
    )
    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "_corrupt_record",
    ]  # fmt: skip
    rows = frame.orderBy("offset").collect()
    assert rows[3].value == Row(id=3, name="n3", tags=["a", None], at=Row(x=1.5, y=None))
    assert [row._corrupt_record for row in rows] == [None] * 50 + [bytearray(b"{"), None, None]
    assert [row.value for row in rows[50:]] == [None, None, Row(id=7, name=None, tags=None, at=None)]
    assert frame.where("value.id % 2 = 0").agg(F.sum("value.at.x")).collect()[0][0] == sum(range(0, 50, 2)) / 2
    assert frame.count() == 53


def test_as_from_json(reads: Reads, topics: Topics, spark: SparkSession) -> None:
    """The same struct as Spark makes of the same bytes, and of what its own to_json writes."""
    ddl = (
        "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g BOOLEAN, h STRING, i DATE, j TIMESTAMP, "
        "k DECIMAL(12,3), l ARRAY<STRUCT<x: INT>>, m MAP<STRING, ARRAY<INT>>, n TIMESTAMP_NTZ"
    )
    made = spark.range(200).selectExpr(
        "named_struct('a', CAST(id % 100 AS TINYINT), 'b', CAST(id * 3 AS SMALLINT), 'c', CAST(-id AS INT), "
        "'d', id * 1000000007, 'e', CAST(id / 3 AS FLOAT), 'f', id / 7D, 'g', id % 2 = 0, 'h', concat('é\\n\"', id), "
        "'i', date_add(DATE'2024-01-30', CAST(id AS INT)), 'j', timestamp_millis(1700000000000 + id), "
        "'k', CAST(id / 8 AS DECIMAL(12,3)), 'l', array(named_struct('x', CAST(id AS INT)), NULL), "
        "'m', map(concat('k', id), array(1, 2)), 'n', CAST(DATE'2024-01-02' AS TIMESTAMP_NTZ)) AS s"
    )
    texts = [row[0] for row in made.selectExpr("to_json(s)").collect()]
    others = [
        '{"h": 1.5, "c": 3}', '{"h": {"q": [1, 2]}}', '{"k": "7.0005"}', '{"f": "NaN"}',
        '{"j": "2024-01-02T03:04:05+02:00"}', '{"j": "2024-01-02T03:04:05"}',
        '{"l": []}', '{"m": {}}', "{}", '{"unknown": {"a": 1}}', '{"j": 1700000000}', '{"i": "2024-2-9"}',
    ]  # fmt: skip
    topic = topics.create("values-from-json")
    topics.produce(topic, [text.encode() for text in texts + others])
    binary = reads.batch(subscribe=topic)
    for zone in ("UTC", "Europe/Berlin"):
        parsed = F.from_json(F.col("value").cast("string"), ddl, {"timeZone": zone})
        theirs = binary.select("offset", parsed.alias("value"))
        typed = reads.batch(subscribe=topic, valueFormat="json", valueSchema=ddl, timeZone=zone)
        expected = {row.offset: repr(row.value) for row in theirs.collect()}
        assert {row.offset: repr(row.value) for row in typed.select("offset", "value").collect()} == expected
        assert len(expected) == 212


def test_a_schema_with_a_struct(reads: Reads, topics: Topics) -> None:
    topic = topics.create("values-schema")
    topics.produce(topic, [*encoded(GOOD), b"{"])
    ddl = "offset BIGINT, value STRUCT<id: BIGINT COMMENT 'of the record'>"
    rows = reads.batch(ddl, subscribe=topic, valueFormat="json").collect()
    assert sorted((row.offset, row.value) for row in rows)[4] == (4, Row(id=4))
    assert len(rows) == 51
    only = reads.batch("bad BINARY, offset BIGINT", subscribe=topic, columnNameOfCorruptRecord="bad", **JSON)
    assert [tuple(row) for row in only.where("bad IS NOT NULL").collect()] == [(bytearray(b"{"), 50)]
    assert reads.batch("offset BIGINT", subscribe=topic, **JSON).count() == 51
    as_json = reads.batch(subscribe=topic, valueFormat="json", valueSchema=json.dumps({
        "type": "struct", "fields": [{"name": "id", "type": "long", "nullable": False, "metadata": {}}],
    }))  # fmt: skip
    assert as_json.where("value IS NULL").count() == 1


def test_errors_reach_the_user(reads: Reads) -> None:
    for schema, options, message in [
        (None, {"valueFormat": "json"}, "valueFormat=json needs valueSchema"),
        (None, {"valueFormat": "json", "valueSchema": "id BINARY"}, "valueSchema: BINARY cannot be read from JSON"),
        ("value BINARY", {"valueFormat": "json"}, "valueFormat=json needs valueSchema"),
        ("value STRUCT<id: INT>", JSON, "schema: column 'value' is struct<id:bigint,"),
        ("value STRUCT<id: INT NOT NULL>", {"valueFormat": "json"}, "fields of column 'value' cannot be NOT NULL"),
        ("value STRUCT<id: INT>, x INT", {"valueFormat": "json"}, "the source has no column 'x'"),
        (None, {"valueFormat": "avro"}, "valueFormat=avro needs valueSchema"),
    ]:
        with pytest.raises(PySparkException, match=message):
            reads.batch(schema, subscribe="t", **options).collect()


def test_a_stream(reads: Reads, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("values-stream", 2)
    topics.produce(topic, [*encoded(GOOD), b"?"])
    frame = reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20, **JSON)

    def drain() -> None:
        query = (
            frame.selectExpr("offset", "value.id AS id", "_corrupt_record AS bad")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        assert query.awaitTermination(120)

    drain()
    topics.produce(topic, encoded([{"id": 1000}]))
    drain()
    rows = reads.spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.id for row in rows if row.id is not None) == [*range(50), 1000]
    assert [row.bad for row in rows if row.id is None] == [bytearray(b"?")]


def test_a_stream_with_wrong_options(reads: Reads, tmp_path: Path) -> None:
    frame = reads.stream("value BINARY, offset BIGINT", subscribe="t", valueFormat="json")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(PySparkException, match="valueFormat=json needs valueSchema"):
        query.awaitTermination(120)


def test_log_directories(spark: SparkSession, tmp_path: Path) -> None:
    from kafkalog.records.batch import Record, encode_batch

    values = [*encoded(GOOD), b"{"]
    records = [Record(n, 0, None, value, ()) for n, value in enumerate(values)]
    write_segment(tmp_path / "t-0", [bytes(encode_batch(records))])
    frame = spark.read.format("kafkalog").options(**JSON).load(str(tmp_path))
    assert frame.agg(F.sum("value.id"), F.count("_corrupt_record")).collect()[0][:] == (sum(range(50)), 1)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer("me:secret") as server:
        yield server


@pytest.mark.peer
def test_as_from_avro(reads: Reads, topics: Topics, tmp_path: Path) -> None:
    """The same types and rows as Spark makes of the same bytes."""
    require(spark_avro_missing())
    # time-micros is Spark's TIME since 4.1, which is off unless spark.sql.timeType.enabled; here it stays a number.
    schema = EVERYTHING | {"fields": [each for each in EVERYTHING["fields"] if each["name"] != "tus"]}
    order = {"schema": schema, "values": [written(schema, WRITTEN).hex()] * 2}
    module = "tests.spark_kafkalog.values.avro.spark_from_avro"
    command = [sys.executable, "-m", module, str(tmp_path), str(spark_avro())]
    done = subprocess.run(
        command, input=json.dumps(order), capture_output=True, text=True, timeout=280, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = json.loads(done.stdout)
    topic = topics.create("values-from-avro")
    topics.produce(topic, [bytes.fromhex(each) for each in order["values"]])
    frame = reads.batch(subscribe=topic, valueFormat="avro", valueSchema=json.dumps(schema))
    assert frame.schema["value"].dataType.simpleString() == theirs["type"]
    assert [repr(row.value) for row in frame.collect()] == theirs["rows"]


def spark_avro() -> Path:
    """The jar of Spark's Avro module, in the newest version that Maven Central holds; it fits later Sparks."""
    return next(jar for jar in maven.classpath(("org.apache.spark:spark-avro_2.13:4.1.1",)) if "spark-avro" in jar.name)


def spark_avro_missing() -> str | None:
    try:
        spark_avro()
    except MissingPeerError as error:
        return str(error)
    return None


def test_avro(reads: Reads, topics: Topics, registry: RegistryServer) -> None:
    """Confluent's serializer, a registry that asks who we are, a batch and the types from its latest schema."""
    topic = topics.create("values-avro")
    client = SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "me:secret"})
    write = AvroSerializer(client, json.dumps(USER))
    context = SerializationContext(topic, MessageField.VALUE)
    values = [write({"id": n, "name": None if n % 3 else "x"}, context) for n in range(40)]
    topics.produce(topic, [*values, None, b"\0junk"])
    options = {
        "valueFormat": "avro",
        "schemaRegistry.url": registry.url,
        "schemaRegistry.basic.auth.user.info": "me:secret",
    }
    rows = reads.batch(subscribe=topic, **options).orderBy("offset").collect()
    assert [row.value for row in rows[:40]] == [Row(id=n, name=None if n % 3 else "x") for n in range(40)]
    assert [tuple(row)[1::6] for row in rows[40:]] == [(None, None), (None, bytearray(b"\0junk"))]
    stream = reads.stream(subscribe=topic, startingOffsets="earliest", **options)
    assert stream.schema["value"].dataType.simpleString() == "struct<id:bigint,name:string>"
    plain = reads.batch(subscribe=topic, valueFormat="avro", avroFraming="confluent", valueSchema=json.dumps(USER))
    assert plain.agg(F.sum("value.id")).collect()[0][0] == sum(range(40))
