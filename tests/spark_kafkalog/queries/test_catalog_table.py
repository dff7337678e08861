"""Tests of catalog tables: created, read, streamed from and written to by their names alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType

from spark_kafkalog import catalog_table
from spark_kafkalog.columns import has_metadata, source_schema
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.sink.sink_options import OPTIONS as SINK_OPTIONS
from spark_kafkalog.source import KafkalogDataSource
from tests.spark_kafkalog.topics import Topics, numbers

SERVERS = "kafka.bootstrap.servers"
MARKS = {"owner": "root", "provider": "kafkalog"}
KEPT = {SERVERS: "table:9092", "subscribe": "t", "startingoffsets": "earliest"}


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    name = "kafkalog_table"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def create(spark: SparkSession, table: str, columns: str = "", /, **options: str) -> None:
    listed = ", ".join(f"`{name}` '{value}'" for name, value in options.items())
    spark.sql(f"CREATE TABLE {table} {columns} USING kafkalog OPTIONS ({listed})")


def test_a_table_is_read_and_streamed(spark: SparkSession, topics: Topics, table: str, tmp_path: Path) -> None:
    topic, other = topics.create("table", 2), topics.create("table")
    topics.produce(topic, numbers(20))
    topics.produce(other, numbers(3, 100))
    create(spark, table, **{SERVERS: topics.bootstrap, "subscribe": topic, "startingOffsets": "earliest"})
    assert spark.table(table).count() == 20
    assert spark.sql(f"SELECT count(DISTINCT value) FROM {table} WHERE offset >= 0").collect()[0][0] == 20
    # Options of a query go before those of the table.
    assert spark.sql(f"SELECT * FROM {table} WITH (subscribe '{other}')").count() == 3
    assert spark.read.option("assign", f'{{"{other}":[0]}}').table(table).count() == 3
    query = (
        spark.readStream.table(table)
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(str(tmp_path / "out"), format="parquet")
    )
    query.awaitTermination(240)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 20


def test_a_query_that_names_servers_keeps_the_rest(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.create("table")
    topics.produce(topic, numbers(20))
    create(spark, table, **{SERVERS: topics.bootstrap, "subscribe": topic, "endingTimestamp": "1"})
    named = f"`{SERVERS}` '{topics.bootstrap}', subscribe '{topic}'"
    assert spark.sql(f"SELECT * FROM {table} WITH ({named})").count() == 0
    assert spark.sql(f"SELECT * FROM {table} WITH (endingOffsets 'latest')").count() == 20


def test_a_table_is_written(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.create("table")
    create(spark, table, **{SERVERS: topics.bootstrap, "subscribe": topic, "topic": topic})
    spark.sql(f"INSERT INTO {table} (key, value) VALUES (X'6B', X'76'), (NULL, X'77')")
    assert {(row.key and bytes(row.key), bytes(row.value)) for row in spark.table(table).collect()} == {
        (b"k", b"v"),
        (None, b"w"),
    }
    with pytest.raises(PySparkException, match="Save mode Overwrite not allowed"):
        spark.sql(f"INSERT OVERWRITE {table} (value) VALUES (X'76')")


def test_what_a_table_cannot_be(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match=r"Option 'kafka\.bootstrap\.servers' must be specified"):
        create(spark, table, topic="t")
    with pytest.raises(PySparkException, match=r"keeps no secret, and kafka\.sasl\.password may be one"):
        create(spark, table, **{SERVERS: "localhost:9", "subscribe": "t", "kafka.sasl.password": "hidden"})
    # Spark does not ask the source when such a table is created.
    create(spark, table, "(value BINARY)", **{SERVERS: "localhost:9", "subscribe": "t"})
    with pytest.raises(PySparkException, match="This table has no options"):
        spark.table(table).collect()


def carrying() -> StructType:
    return catalog_table.with_options(source_schema(include_headers=False), KEPT)


def converted(schema: StructType) -> StructType:
    """Return the schema of rows that Spark has converted to the columns of a table."""
    topic = StructField("topic", StringType())
    return StructType([topic if each.name == "topic" else each for each in schema.fields])


def test_only_the_creation_of_a_table_is_marked() -> None:
    assert catalog_table.created_with(KEPT) is None
    found = catalog_table.created_with({**KEPT, **MARKS, **{f"option.{name}": value for name, value in KEPT.items()}})
    assert found == KEPT


def test_options_of_the_query_go_before_those_of_the_table() -> None:
    reading = catalog_table.for_reading
    assert reading(carrying(), {}) == KEPT
    assert reading(carrying(), {"assign": "{}"}) == {
        SERVERS: "table:9092",
        "startingoffsets": "earliest",
        "assign": "{}",
    }
    assert reading(carrying(), {SERVERS: "other:1"}) == {**KEPT, SERVERS: "other:1"}
    assert reading(carrying(), {SERVERS: "other:1", "subscribe": "u"}) == {
        SERVERS: "other:1",
        "subscribe": "u",
        "startingoffsets": "earliest",
    }
    assert catalog_table.for_writing(converted(carrying()), {"topic": "u"}) == {SERVERS: "table:9092", "topic": "u"}


@pytest.mark.parametrize("side", ["starting", "ending"])
def test_a_limit_of_the_query_replaces_that_of_the_table_in_any_form(side: str) -> None:
    alone = {SERVERS: "table:9092", "subscribe": "t", f"{side}offsetsbytimestampstrategy": "latest"}
    forms = {f"{side}timestamp": "5", f"{side}offsetsbytimestamp": "{}", f"{side}offsets": "latest"}
    other = {"endingoffsets" if side == "starting" else "startingoffsets": "{}"}
    table = catalog_table.with_options(source_schema(include_headers=False), {**alone, **forms, **other})
    for name in (f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"):
        assert catalog_table.for_reading(table, {name: "x"}) == {**alone, **other, name: "x"}
    assert catalog_table.for_reading(table, {"failondataloss": "false"}).items() >= forms.items()


def test_a_query_that_names_servers_reads_no_log_directories() -> None:
    offline = catalog_table.with_options(source_schema(include_headers=False), {"path": "/logs", "includeheaders": "x"})
    given = {SERVERS: "other:1", "subscribe": "u"}
    assert catalog_table.for_reading(offline, given) == {**given, "includeheaders": "x"}


def test_rows_of_a_table_are_written_to_another_cluster() -> None:
    """The rows' schema carries the options of the table that they were read from."""
    kept = {**KEPT, "topic": "u", "kafka.security.protocol": "SASL_SSL"}
    rows = catalog_table.with_options(source_schema(include_headers=False), kept)
    assert catalog_table.for_writing(rows, {SERVERS: "other:1"}) == {SERVERS: "other:1"}


def test_rows_that_may_be_of_another_table_are_refused() -> None:
    """Spark keeps the type of a VARCHAR in the metadata of a column that it has not converted."""
    with pytest.raises(OptionsError, match="Select the columns to write"):
        catalog_table.for_writing(carrying(), {"topic": "u"})
    left = StructField("topic", StringType(), metadata={"any name": "varchar(300)"})
    with pytest.raises(OptionsError, match="Select the columns to write"):
        catalog_table.for_writing(StructType([*converted(carrying()).fields[:2], left]), {})
    assert catalog_table.for_writing(carrying(), {SERVERS: "other:1"}) == {SERVERS: "other:1"}


def of_earlier_version(options: dict[str, str]) -> StructType:
    """Return the schema of a table whose `topic` is a STRING, as it was before rows told their table."""
    key, *others = source_schema(include_headers=False).fields
    return StructType([StructField(key.name, key.dataType, metadata={catalog_table.KEY: options}), *others])


def test_tables_of_earlier_versions_are_read_but_not_written() -> None:
    earlier = of_earlier_version(KEPT)
    assert catalog_table.for_reading(earlier, {}) == KEPT
    with pytest.raises(OptionsError, match=r"earlier version of kafkalog created this table.* create it again: DROP"):
        catalog_table.for_writing(earlier, {"topic": "u"})
    assert catalog_table.for_writing(earlier, {SERVERS: "other:1"}) == {SERVERS: "other:1"}


def test_rows_of_an_earlier_table_do_not_go_back_to_its_topic(spark: SparkSession, topics: Topics, table: str) -> None:
    """Spark leaves rows as they are if the columns of the table that is written to are the same."""
    topic = topics.create("earlier")
    topics.produce(topic, numbers(3))
    options = {SERVERS: topics.bootstrap, "subscribe": topic, "topic": topic}
    schema = of_earlier_version(options)
    # Spark does not ask the source about a table with columns, and so creates one with a STRING, as before.
    create(spark, table, f"({', '.join(f'{each.name} {each.dataType.simpleString()}' for each in schema)})", **options)
    rows = spark.read.format("kafkalog").schema(schema).options(**{SERVERS: topics.bootstrap, "subscribe": topic})
    with pytest.raises(PySparkException, match="An earlier version of kafkalog created this table"):
        rows.load().writeTo(table).append()
    assert rows.load().count() == 3


def test_a_setting_that_hinders_reading_is_named(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.create("varchar")
    create(spark, table, **{SERVERS: topics.bootstrap, "subscribe": topic})
    setting = "spark.sql.preserveCharVarcharTypeInfo"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(PySparkException, match=f"set {setting}=false to read it"):
            spark.table(table).count()
        query = spark.readStream.table(table).writeStream.format("noop").trigger(availableNow=True)
        with pytest.raises(PySparkException, match=f"set {setting}=false to read it"):
            query.start().awaitTermination(240)
    finally:
        spark.conf.unset(setting)


def test_tables_with_other_options_have_other_types_of_topic() -> None:
    plain = source_schema(include_headers=False)
    tables = [catalog_table.with_options(plain, {**KEPT, "topic": f"t{n}"})["topic"].dataType for n in range(50)]
    assert len({kind.simpleString() for kind in tables}) == 50
    assert catalog_table.with_options(plain, KEPT) == carrying()


def test_a_write_without_servers_says_where_they_come_from() -> None:
    plain = source_schema(include_headers=False)
    with pytest.raises(OptionsError, match=r"Kafka producer\. A table has it if it was created with it"):
        catalog_table.for_writing(plain, {})
    with pytest.raises(OptionsError, match=r"Kafka producer\. A stream has none of the options of the table"):
        catalog_table.for_streaming({"topic": "t"})
    assert catalog_table.for_streaming({SERVERS: "other:1"}) == {SERVERS: "other:1"}


def test_a_table_to_write_to_names_no_topics_to_read() -> None:
    created = KafkalogDataSource({**MARKS, f"option.{SERVERS}": "table:9092", "option.topic": "u"}).schema()
    assert catalog_table.for_writing(converted(created), {}) == {SERVERS: "table:9092", "topic": "u"}
    with pytest.raises(OptionsError, match="One of the following options must be specified for Kafka source"):
        KafkalogDataSource({}).reader(created)


def test_options_of_sinks_are_known() -> None:
    for name in SINK_OPTIONS:
        kept = catalog_table.with_options(source_schema(include_headers=False), {name: "x", **KEPT})
        of_source = name == "includeHeaders"
        assert (name in catalog_table.for_reading(kept, {})) == of_source, name
        assert (name in catalog_table.for_writing(converted(kept), {})) != of_source, name


def test_a_schema_without_options_needs_a_query_with_some() -> None:
    plain = source_schema(include_headers=False)
    assert catalog_table.for_reading(plain, {"subscribe": "t"}) == {"subscribe": "t"}
    with pytest.raises(OptionsError, match="CREATE TEMPORARY VIEW"):
        catalog_table.for_reading(plain, {})


def test_metadata_is_found_at_any_depth() -> None:
    assert has_metadata(carrying())
    assert not has_metadata(source_schema(include_headers=True))
    deep = StructType([StructField("a", IntegerType(), metadata={"comment": "x"})])
    assert has_metadata(StructType([StructField("value", MapType(StringType(), ArrayType(deep)))]))


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.password",
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.key",
        "kafka.sasl.oauthbearer.token",
        "kafka.sasl.oauthbearer.config",
        "kafka.sasl.oauthbearer.assertion.private.key.pem",
        "kafka.sasl.oauthbearer.assertion.private.key.passphrase",
        "kafka.sasl.oauthbearer.client.credentials.client.secret",
        "schemaregistry.basic.auth.user.info",
    ],
)
def test_a_table_refuses_secrets_by_their_names(name: str) -> None:
    with pytest.raises(OptionsError) as caught:
        catalog_table.created_with({**MARKS, f"option.{name}": "hidden"})
    assert name in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_table_refuses_a_password_in_a_url() -> None:
    url = "schemaregistry.url"
    with pytest.raises(OptionsError) as caught:
        catalog_table.created_with({**MARKS, f"option.{url}": "https://alice:hidden@registry:8081"})
    assert url in str(caught.value)
    assert "hidden" not in str(caught.value)
    plain = {f"option.{url}": "https://registry:8081/a:b@c"}
    assert catalog_table.created_with({**MARKS, **plain}) == {url: "https://registry:8081/a:b@c"}
