"""Tests that what users can mend is told without the frames that led to it, and that defects keep theirs."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

from kafkalog.client.errors import ClientError, ClientTimeoutError
from spark_kafkalog.brief import brief, brief_rows
from spark_kafkalog.columns import source_schema
from spark_kafkalog.data_loss import DataLossError
from spark_kafkalog.offline.corrupt_log import CorruptLogError
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.sink.message import TaskWrote
from spark_kafkalog.sink.transactional.claim import Claim
from spark_kafkalog.sink.transactional.commit_driver import since_boot
from spark_kafkalog.sink.transactional.errors import LedgerError
from spark_kafkalog.sink.transactional.ledger_record import TaskTransaction
from spark_kafkalog.source import KafkalogDataSource
from spark_kafkalog.values.registry.registry_error import SchemaRegistryError
from spark_kafkalog.values.typed_readers import TypedBatchReader, TypedStreamReader
from spark_kafkalog.values.value_options import ValueOptions
from spark_kafkalog.values.value_types import plan
from tests.kafkalog.client.support import closed_port
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.offline.written import batch, write_segment
from tests.spark_kafkalog.without_spark import copied, make_source

QUICK = {"kafka.default.api.timeout.ms": 300, "fetchOffset.numRetries": 1, "subscribe": "t"}


def frames(error: BaseException) -> list[str]:
    """Return the functions in a traceback, those of this file excepted."""
    return [each.name for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]


def failing(call: Callable[[], Any], kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as caught:
        call()
    return caught.value


class FramedValue(DataSourceReader):
    """Reads one record with a value in Confluent's wire format."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([b"\0\0\0\0\1\2"], pa.binary())})


def test_wrong_options() -> None:
    wrong = {"subscribe": "t", "failOnDataLoss": "maybe"}
    error = failing(lambda: make_source("localhost:1", wrong), OptionsError)
    assert frames(error)[-1] == "briefly"
    assert "parse" not in frames(error)
    assert str(error) == "failOnDataLoss: expected true or false, got 'maybe'"


def test_brokers_that_do_not_answer() -> None:
    source = make_source(closed_port(), QUICK)
    schema = source.schema()
    stream = source.streamReader(schema)
    calls: list[Callable[[], Any]] = [
        source.reader(schema).partitions,
        lambda: stream.latestOffset(stream.initialOffset(), ReadAllAvailable()),
        lambda: stream.partitions(stream.initialOffset(), {"t": {"0": 1}}),
        lambda: stream.latestOffset({"t": {"0": 1}}, ReadAllAvailable()),
    ]
    for call in calls:
        error = failing(call, ClientTimeoutError)
        assert frames(error) == ["briefly"]
        assert error.__cause__ is None
        assert "Traceback" not in "".join(traceback.format_exception_only(error))


def test_errors_of_writing_exactly_once() -> None:
    @brief
    def claim() -> None:
        raise LedgerError("too old")

    assert frames(failing(claim, LedgerError)) == ["briefly"]


def test_transactions_that_cannot_be_ended() -> None:
    options = {"topic": "t", "kafka.transactional.id": "orders", "kafka.max.block.ms": 300}
    schema = StructType([StructField("value", StringType())])
    wrote = TaskWrote(claim=Claim(1, since_boot(), "", -1), transaction=TaskTransaction("orders-0123456789ab-0", 1, 0))
    batch = make_source(closed_port(), options).writer(schema, False)
    stream = make_source(closed_port(), options).streamWriter(schema, False)
    calls: list[Callable[[], Any]] = [
        lambda: batch.commit([wrote]),
        lambda: batch.abort([wrote]),
        lambda: stream.commit([wrote], 0),
        lambda: stream.abort([wrote], 0),
    ]
    for call in calls:
        assert frames(failing(call, ClientError)) == ["briefly"]


def test_errors_of_a_schema_registry() -> None:
    options = {
        "valueFormat": "avro",
        "valueSchema": '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',
        "schemaRegistry.url": f"http://{closed_port()}",
        "schemaRegistry.retries": "0",
    }
    parsed = ValueOptions.parse(options)
    assert parsed is not None
    typed = plan(parsed, ("t",))
    schema = typed.schema(source_schema(include_headers=False))
    for kind in (TypedBatchReader, TypedStreamReader):
        rows = kind(FramedValue(), typed, schema).read(InputPartition(None))
        error = failing(lambda rows=rows: next(rows), SchemaRegistryError)  # type: ignore[misc]
        assert frames(error)[-1] == "brief_rows"


def test_rows_that_cannot_be_written() -> None:
    schema = StructType([StructField("topic", StringType()), StructField("value", StringType())])
    writer = make_source(closed_port(), {}).writer(schema, False)
    rows = pa.record_batch({"topic": pa.array([None], pa.string()), "value": pa.array(["v"])})
    error = failing(lambda: writer.write(iter([rows])), ValueError)
    assert str(error) == "null topic present in the data. Use the topic option for setting a default topic."
    assert frames(error) == ["briefly"]


def test_log_directories(tmp_path: Path) -> None:
    """A directory that does not exist, a damaged segment, and one that is gone when it is read."""
    absent = make_source_offline(tmp_path / "absent")
    error = failing(absent.reader(absent.schema()).partitions, OptionsError)
    assert frames(error) == ["briefly"]
    log = write_segment(tmp_path / "t-0", [batch(0), batch(1), batch(2)], index_every=0)
    source = make_source_offline(tmp_path)
    reader = source.reader(source.schema())
    (task,) = reader.partitions()
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    error = failing(lambda: list(reader.read(task)), CorruptLogError)
    assert frames(error) == ["brief_rows"]
    log.unlink()
    error = failing(lambda: list(reader.read(task)), DataLossError)
    assert frames(error) == ["brief_rows"]


def make_source_offline(path: Path) -> KafkalogDataSource:
    source: KafkalogDataSource = copied(KafkalogDataSource({"path": str(path)}))
    return source


def test_pyspark_sees_the_methods_as_they_are() -> None:
    """It asks how many arguments `latestOffset` takes."""
    reader = make_source("localhost:1", QUICK).streamReader(make_source("localhost:1", QUICK).schema())
    assert list(inspect.signature(reader.latestOffset).parameters) == ["start", "limit"]


def test_defects_keep_their_frames() -> None:
    def inner() -> None:
        raise KeyError("x")

    @brief
    def outer() -> None:
        inner()

    with pytest.raises(KeyError) as caught:
        outer()
    assert [each.name for each in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["outer", "inner"]


def test_rows_come_before_the_error() -> None:
    def rows() -> Iterator[int]:
        yield 1
        raise OptionsError("wrong")

    found = brief_rows(rows())
    assert next(found) == 1
    error = failing(lambda: next(found), OptionsError)
    assert frames(error) == ["brief_rows"]


def test_spark_shows_few_lines(reads: Reads) -> None:
    with pytest.raises(PySparkException) as caught:
        reads.batch(subscribe="t", failOnDataLoss="maybe")
    lines = str(caught.value).splitlines()
    assert len(lines) <= 6, lines
    assert lines[-2].endswith("OptionsError: failOnDataLoss: expected true or false, got 'maybe'")
