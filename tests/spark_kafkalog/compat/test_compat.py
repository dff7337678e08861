"""Test that private parts of PySpark and fastavro are as `spark_kafkalog.compat` expects, in this version.

A failure here means that a version has changed something. Look at the module of `compat` that the test is about, and
run all of `tests/spark_kafkalog` with the new version before it is added to `versions.TESTED`.
"""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.functions import udf

from spark_kafkalog.compat import avro, pushed_filters
from spark_kafkalog.compat.gateway import hadoop_files, jvm, jvm_errors
from spark_kafkalog.compat.streams import file_sink, micro_batch, prefetched, queries
from spark_kafkalog.compat.versions import TESTED, is_tested
from spark_kafkalog.compat.workers import forks, processes, starting
from spark_kafkalog.jobs.directories import check_written
from tests.spark_kafkalog.queries.streaming import wait_for

NUMBERS = "SELECT id, id AS value FROM range(10)"


def test_this_version_was_tested() -> None:
    assert pyspark.__version__ in TESTED
    assert is_tested()
    assert not is_tested("4.3.99")


# ---------------------------------------------------------------------------------------------- pushed filters


def test_filters_are_taken_where_they_stay_with_their_scan() -> None:
    """`tests/spark_kafkalog/queries/test_pushed_filters.py` has the queries that give wrong rows otherwise."""

    class LaterReader(DataSourceReader):
        def pushLimit(self, limit: int) -> bool:  # noqa: N802
            return False

    assert not pushed_filters.stay_with_their_scan()
    assert pushed_filters.stay_with_their_scan(LaterReader)
    assert not pushed_filters.stay_with_their_scan(LaterReader, tested=False)


# ---------------------------------------------------------------------------------------------- rows of the planner


class Planned(prefetched.RowsInPlanner):
    """A stream that has the rows of a batch, or has not."""

    def __init__(self, rows: list[pa.RecordBatch] | None) -> None:
        self._planned = rows

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self.rows = self._planned
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize("rows", [None, [pa.record_batch({"value": pa.array([b"a", b"b"])})]], ids=["none", "some"])
def test_the_planner_sends_the_rows_that_a_reader_has(rows: list[pa.RecordBatch] | None) -> None:
    """Driven as PySpark's process drives it, up to the bytes that it writes for the JVM."""
    from pyspark.serializers import read_int, write_with_length
    from pyspark.sql.streaming import python_streaming_source_runner as runner
    from pyspark.sql.types import StructType

    asked, written = io.BytesIO(), io.BytesIO()
    for offset in ({"t": {"0": 0}}, {"t": {"0": 2}}):
        write_with_length(json.dumps(offset).encode(), asked)
    asked.seek(0)
    schema = StructType().add("value", "binary")
    reader = Planned(rows)
    runner.partitions_func(reader, None, schema, 1000, asked, written)  # type: ignore[arg-type]
    written.seek(0)
    assert read_int(written) == 1, "one partition"
    written.read(read_int(written))
    told = read_int(written)
    assert (told == runner.PREFETCHED_RECORDS_NOT_FOUND) == (rows is None)
    assert isinstance(reader, Planned)


def test_without_a_tested_version_or_the_class_there_are_tasks() -> None:
    assert prefetched.find_wrapper(tested=True) is prefetched.WRAPPER
    assert prefetched.find_wrapper(tested=False) is None


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "change",
    [
        "sys.modules['pyspark.sql.datasource_internal'] = None",
        "import pyspark.sql.datasource_internal as m; del m._SimpleStreamReaderWrapper",
        "import pyspark.sql.datasource_internal as m; m._SimpleStreamReaderWrapper = type('Other', (), {})",
        "import pyspark; pyspark.__version__ = '4.3.99'",
    ],
    ids=["no module", "no class", "another class", "another version"],
)
def test_streams_are_read_by_tasks_where_pyspark_has_changed(change: str) -> None:
    """The streaming reader is there, and plans no batch with rows."""
    script = (
        f"import sys; {change}\n"
        "from spark_kafkalog.options.source_options import SourceOptions\n"
        "from spark_kafkalog.columns import source_schema\n"
        "from spark_kafkalog.driver.stream_reader import KafkalogStreamReader\n"
        "from spark_kafkalog.offsets import OffsetRange\n"
        "from kafkalog.client.types import TopicPartition\n"
        "options = SourceOptions.parse({'kafka.bootstrap.servers': '127.0.0.1:1', 'subscribe': 't'})\n"
        "reader = KafkalogStreamReader(options, source_schema(False))\n"
        "print(reader._small.is_small([OffsetRange(TopicPartition('t', 0), 0, 1)]))\n"
        "reader.rows = [1]\n"
        "print(isinstance(reader, KafkalogStreamReader), type(reader) is reader.__class__)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "True"]


# ---------------------------------------------------------------------------------------------- small things


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.99")


@pytest.mark.usefixtures("untested")
def test_an_untested_version_hides_no_stack_trace_and_no_sink_log(tmp_path: Path) -> None:
    """Uses of private parts are off, so the answers are those of a PySpark that does not have them."""
    error = RuntimeError("x")
    error._stackTrace = "\tat org.apache.spark"  # type: ignore[attr-defined]
    assert jvm_errors.jvm_stack_trace(error) == ""
    assert file_sink.written_files(tmp_path) is None


@pytest.mark.usefixtures("untested")
def test_jobs_say_that_an_untested_version_leaves_a_directory_unchecked(caplog: pytest.LogCaptureFixture) -> None:
    check_written(object(), "--output", "/out", "/checkpoint")  # type: ignore[arg-type]
    assert "--output /out" in caplog.text


def test_pyspark_looks_for_the_source_in_modules_of_this_name() -> None:
    lookup = importlib.import_module("pyspark.sql.worker.lookup_data_sources")
    assert lookup.__file__ is not None
    text = Path(lookup.__file__).read_text()
    assert '"pyspark_"' in text
    assert '"DefaultSource"' in text
    from pyspark_kafkalog import DefaultSource

    assert DefaultSource.name() == "kafkalog"


def test_the_programs_that_the_jvm_runs_with_python_have_their_names() -> None:
    """`tests/spark_kafkalog/starting` shows that the JVM runs them."""
    for name in (starting.DAEMON, starting.STREAM_PLANNER, *starting.DRIVER_IMPORTS, *starting.TASK_IMPORTS):
        assert importlib.util.find_spec(name) is not None, name
    assert starting.is_of_driver(["-m", starting.STREAM_PLANNER])
    assert starting.is_of_driver(["-m", starting.DAEMON, starting.DRIVER_IMPORTS[0]])
    assert not starting.is_of_driver(["-m", starting.DAEMON, "pyspark.worker"])
    assert not starting.is_of_driver(["-c", "pass"])
    assert starting.STREAM_PLANNER not in starting.DRIVER_IMPORTS
    assert starting.is_daemon(["-m", starting.DAEMON, "pyspark.worker"])
    assert not starting.is_daemon(["-m", starting.STREAM_PLANNER])


def test_fastavros_public_reader_finds_no_choice_by_a_negative_number() -> None:
    assert avro.keeps_choices(), "the slower reader in plain Python is used now"


def test_fastavro_ends_records_within_records_by_an_exception() -> None:
    read = avro.bounded_reader()
    assert read is not None
    schema = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    deep = b"\x02" * 100_000 + b"\x00"
    with pytest.raises(RecursionError):
        read(io.BytesIO(deep), fastavro.parse_schema(schema), None)


@pytest.mark.parametrize("kind", ["int", "long", "bytes", {"type": "array", "items": "int"}])
def test_fastavro_does_not_read_numbers_of_more_bytes_than_a_long_has(kind: Any) -> None:
    """It would take quadratic time for them. Its reader for others does not change."""
    from fastavro import _read_py

    read = avro.bounded_reader()
    assert read is not None
    too_long = b"\x80" * 10 + b"\x00"
    assert not _read_py.schemaless_reader(io.BytesIO(too_long), kind, None)
    with pytest.raises(ValueError, match="a number of more than 10 bytes"):
        read(io.BytesIO(too_long), kind, None)
    assert not read(io.BytesIO(b"\x80" * 9 + b"\x00"), kind, None)
    with pytest.raises(EOFError):
        read(io.BytesIO(b"\x80"), kind, None)


@pytest.mark.parametrize("number", [0, -1, 64, 1 << 31, (1 << 63) - 1, -(1 << 63)])
def test_fastavro_reads_numbers_with_our_decoder(number: int) -> None:
    read = avro.bounded_reader()
    assert read is not None
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    assert read(io.BytesIO(stream.getvalue()), "long", None) == number


def test_another_reader_of_fastavro_than_one_in_plain_python_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled one would overflow the stack."""
    from fastavro import _read_py

    monkeypatch.setattr(_read_py, "schemaless_reader", len)
    assert avro.bounded_reader() is None


def test_fastavro_reads_decimals_of_our_name_by_our_function_and_others_by_its_own() -> None:
    from decimal import Decimal

    avro.register_decimals("kafkalog-canary", lambda data, writer, reader: Decimal(len(data)))
    for name, expected in (("kafkalog-canary", Decimal(2)), ("decimal", Decimal("2.58"))):
        schema = {"type": "bytes", "logicalType": name, "precision": 4, "scale": 2}
        assert fastavro.schemaless_reader(io.BytesIO(b"\x04\x01\x02"), schema, None) == expected


# ---------------------------------------------------------------------------------------------- with Spark


def test_tasks_know_that_they_run_in_a_worker(spark: SparkSession) -> None:
    assert not processes.is_worker()
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: processes.is_worker()).collect() == [True]

    def with_another_version(_: int) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pyspark, "__version__", "4.3.99")
            return processes.is_worker()

    assert spark.sparkContext.parallelize([0], 1).map(with_another_version).collect() == [False]


def test_errors_keep_the_stack_trace_of_the_jvm(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.sql("SELECT * FROM no_such_table").collect()
    assert "\tat org.apache.spark" in jvm_errors.jvm_stack_trace(raised.value)


def test_small_files_where_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    path = (tmp_path / "new" / "file").as_uri()
    assert hadoop_files.read_text(spark, path) is None
    for text in ("first é", "second"):
        assert hadoop_files.write_text(spark, path, text)
        assert hadoop_files.read_text(spark, path) == text
    assert "file" in (hadoop_files.names(spark, (tmp_path / "new").as_uri()) or [])
    assert hadoop_files.names(spark, (tmp_path / "none").as_uri()) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyspark, "__version__", "4.3.99")
        assert hadoop_files.read_text(spark, path) is None
        assert not hadoop_files.write_text(spark, path, "third")
    assert hadoop_files.read_text(spark, path) == "second"


def test_a_small_file_is_replaced_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    """So a process that is killed while it writes leaves the old text or the new one."""
    file, old = tmp_path / "file", tmp_path / "old"
    hadoop_files.write_text(spark, str(file), "first")
    old.hardlink_to(file)
    hadoop_files.write_text(spark, str(file), "second")
    assert (file.read_text(), old.read_text()) == ("second", "first")
    assert {each.name for each in tmp_path.iterdir() if not each.name.endswith(".crc")} == {"file", "old"}


def test_a_query_its_tasks_and_what_it_leaves(spark: SparkSession, tmp_path: Path) -> None:
    """The local properties of tasks, the words of a query's status, and the directories of the file sink."""

    def note(_: int) -> tuple[str | None, int | None]:
        return micro_batch.query_id(), micro_batch.batch_id()

    rows = tmp_path / "rows"
    spark.sql(NUMBERS).write.parquet(str(rows))
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    assert file_sink.last_written(spark, out) == file_sink.last_planned(spark, checkpoint) == -1
    frame = spark.readStream.schema("id LONG, value LONG").parquet(str(rows))
    noted = udf(note, "query STRING, batch LONG", useArrow=False)("id").alias("noted")
    writer = frame.select(noted).select("noted.*").writeStream.format("parquet")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(out)
    query.awaitTermination(120)
    assert not queries.is_initializing(query)
    found = {(row.query, row.batch) for row in spark.read.parquet(out).collect()}
    assert found == {(str(query.id), 0)}
    files = file_sink.written_files(Path(out))
    assert files is not None
    assert set(files) == set(Path(out).glob("*.parquet"))
    assert file_sink.last_written(spark, out) == file_sink.last_planned(spark, checkpoint) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyspark, "__version__", "4.3.99")
        assert file_sink.last_written(spark, out) is None
        assert file_sink.last_planned(spark, checkpoint) is None
    assert micro_batch.query_id() is None
    assert micro_batch.batch_id() is None


def test_a_query_says_that_it_makes_its_sources(spark: SparkSession, tmp_path: Path) -> None:
    """The planner of a Python source takes hundreds of milliseconds to begin."""
    frame = spark.readStream.format("kafkalog").options(
        **{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.default.api.timeout.ms": "50"}
    )
    query = frame.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        assert queries.is_initializing(query)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pyspark, "__version__", "4.3.99")
            assert not queries.is_initializing(query)
        wait_for(lambda: not queries.is_initializing(query), "the sources, or the end of the query")
    finally:
        query.stop()


# ------------------------------------------------------------------------------------------------------------ the JVM


def test_the_jvm_can_be_asked(spark: SparkSession) -> None:
    found = jvm.Jvm(spark)
    assert found.environment()["PATH"]
    assert found.working_directory() == Path.cwd()
    assert found.executors() == 0


def test_the_active_context_is_known_without_the_jvm(spark: SparkSession) -> None:
    assert forks.active_context() is spark.sparkContext
    assert forks.has_own_context()


def test_executors_run_programs_without_pyspark(spark: SparkSession) -> None:
    words = ["/bin/sh", "-c", 'read line; echo "$WORD $line $1"', "sh", "it's"]
    printed = jvm.Jvm(spark).pipe(["a", "b c"], words, {"WORD": "says"})
    assert sorted(printed) == ["says a it's", "says b c it's"]
