"""Catalog tables: `CREATE TABLE t USING kafkalog OPTIONS (…)`, and queries that read or write `t`.

PySpark hands the options of a table to the source when the table is created, but not when it is read or written. What
it does hand over then is the table's schema, as the source gave it at the creation. So the schema of a new table
carries its options: in the metadata of its first column, under the key `kafkalog.options`.

A column's metadata goes along with data frames, and into files that are written from them. So options with secrets are
refused for a table; queries give them.

Rows keep the metadata of the table that they were read from, too. Spark gives rows that are written to a table the
metadata of that table only if it converts them, and it does not where names and types are the same already. So `topic`
is a VARCHAR in a table, of a length that depends on the table's options: rows of another table, and those of a plain
frame, have another type, and are converted. To readers and to users the column is a STRING. Rows that Spark does not
convert still have the length in their metadata, and are refused. Only batches get this far: Spark converts no rows of
streams.

In tables that earlier versions created, `topic` is a STRING, so that rows do not tell their table. Such tables lack the
mark `kafkalog.form` beside their options, and nothing is written with these options.

Spark marks the creation of a table by the properties `owner` and `provider` among the options, and names the table's
options `option.…` (`TableCatalog` in Spark's interface). No other query has these.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType, VarcharType

from spark_kafkalog.offline.offline_options import is_offline
from spark_kafkalog.options.limits import LIMITS
from spark_kafkalog.options.parsing import OptionsError, missing_servers
from spark_kafkalog.options.subscription import names_a_source
from spark_kafkalog.redaction import is_secret

KEY = "kafkalog.options"
FORM_KEY = "kafkalog.form"
_FORM = 2
"""The form of a table whose `topic` is a VARCHAR. Earlier tables have no form."""
_OPTION = "option."
_MARKS = ("owner", "provider")
_SERVERS = "kafka.bootstrap.servers"
_OF_SINKS = frozenset({"topic", "ledgertopic", "losttransactions", "batchid"})
"""Options that only sinks have."""
_TOPIC = "topic"
_SHORTEST, _LONGEST = 249, 65535
"""The most characters of a topic's name, and of a VARCHAR of Hive, which may get a copy of the column."""
REMEDY = (
    "Create the table without a list of columns and with OPTIONS, so that its schema keeps them, or use "
    "CREATE TEMPORARY VIEW … USING kafkalog OPTIONS (…)"
)
_AGAIN = "create it again: DROP TABLE …, and CREATE TABLE … USING kafkalog OPTIONS (…). No record is lost"


def created_with(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is being created; None if `options` are those of another query.

    Raises:
        OptionsError: One of the table's options has a secret.
    """
    if not all(mark in options for mark in _MARKS):
        return None
    found = {name.removeprefix(_OPTION): value for name, value in options.items() if name.startswith(_OPTION)}
    secrets = sorted(name for name, value in found.items() if is_secret(name, value))
    if secrets:
        raise OptionsError(
            f"a table keeps no secret, and {', '.join(secrets)} may be one. Leave it out of the table's OPTIONS and "
            f"give it in each query: SELECT … FROM t WITH (`{secrets[0]}` '…'), or spark.read.option(…).table('t')"
        )
    return found


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return a schema that carries a table's options, and whose `topic` differs from that of other tables."""
    first, *others = schema.fields
    metadata = {**first.metadata, KEY: dict(options), FORM_KEY: _FORM}
    fields = [StructField(first.name, first.dataType, first.nullable, metadata), *others]
    kind = _kind_of_topic(options)
    return StructType(
        [StructField(each.name, kind, each.nullable, each.metadata) if each.name == _TOPIC else each for each in fields]
    )


def _kind_of_topic(options: Mapping[str, str]) -> VarcharType:
    digest = zlib.crc32(json.dumps(sorted(options.items())).encode())
    return VarcharType(_SHORTEST + digest % (_LONGEST - _SHORTEST + 1))


def _is_as_read(schema: StructType) -> bool:
    """Return whether Spark has left rows as they were read from a table: `topic` still has its length."""
    return any(
        isinstance(column.dataType, VarcharType)
        or any(str(value).startswith("varchar(") for value in column.metadata.values())
        for column in schema.fields
        if column.name == _TOPIC
    )


def options_in(schema: StructType) -> dict[str, str]:
    """Return the options that a table's schema carries; none if it is another schema."""
    for column in schema.fields:
        found = column.metadata.get(KEY)
        if isinstance(found, dict):
            return {str(name): str(value) for name, value in found.items()}
    return {}


def _is_of_earlier_table(schema: StructType) -> bool:
    """Return whether a schema carries the options of a table that an earlier version created."""
    return any(KEY in column.metadata and column.metadata.get(FORM_KEY) != _FORM for column in schema.fields)


def for_reading(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which a query reads: its own, and those of its table that they do not replace.

    A start of the query replaces that of the table in whatever form they are, and likewise the end.

    Raises:
        OptionsError: This is a table whose schema carries no options.
    """
    kept = {name: value for name, value in options_in(schema).items() if name.lower() not in _OF_SINKS}
    if not given and not options_in(schema):
        raise OptionsError(f"This table has no options: PySpark passes none to readers of catalog tables. {REMEDY}")
    if names_a_source(given):
        kept = {name: value for name, value in kept.items() if not names_a_source([name])}
    for limits in LIMITS:
        if any(name.lower() in limits for name in given):
            kept = {name: value for name, value in kept.items() if name.lower() not in limits}
    if _SERVERS in given:
        kept = {name: value for name, value in kept.items() if not is_offline([name])}
    return {**kept, **given}


def for_writing(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which a batch writes.

    A query that names servers has its own options alone. The rows that it writes may come from a table of another
    cluster, and then their schema carries the topic and the login of that table.

    Raises:
        OptionsError: Neither the query nor its table names servers, or it is unknown which table is written to.
    """
    if _SERVERS in given:
        return dict(given)
    if _is_as_read(schema):
        raise OptionsError(
            "These rows have the columns that they were read with, from a table with the same options as the one that "
            "is written to, so Spark does not tell which of the two it is. Select the columns to write: "
            "INSERT INTO … (key, value) SELECT key, value FROM …; or give kafka.bootstrap.servers and topic. If an "
            f"earlier version of kafkalog created the table that is written to, {_AGAIN}"
        )
    if _is_of_earlier_table(schema):
        raise OptionsError(
            "An earlier version of kafkalog created this table, or the one that these rows were read from. Such tables "
            "can be read, but Spark does not tell to which of them rows are written. To write, "
            f"{_AGAIN}; or give kafka.bootstrap.servers and topic in the query"
        )
    kept = {name: value for name, value in options_in(schema).items() if _is_of_sinks(name.lower())}
    options = {**kept, **given}
    if _SERVERS not in options:
        raise OptionsError(
            f"{missing_servers(given, 'producer')}. A table has it if it was created with it among the OPTIONS, and "
            f"without a list of columns. If an earlier version of kafkalog created the table, {_AGAIN}"
        )
    return options


def for_streaming(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which a stream writes: its own.

    The schema never carries those of the table that it writes to, but may carry those of a table that it reads.

    Raises:
        OptionsError: The stream names no servers.
    """
    if _SERVERS in given:
        return dict(given)
    raise OptionsError(
        f"{missing_servers(given, 'producer')}. A stream has none of the options of the table that it writes to: give "
        "kafka.bootstrap.servers and topic by writeStream.option(…), also with toTable(…)"
    )


def _is_of_sinks(name: str) -> bool:
    return name in _OF_SINKS or name.startswith("kafka.")
