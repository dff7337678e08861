"""Catalog tables: `CREATE TABLE t USING kafkalog OPTIONS (…)`, and queries that read or write `t`.

PySpark hands the options of a table to the source when the table is created, but not when it is read or written. What
it does hand over then is the table's schema, as the source gave it at the creation. So the schema of a new table
carries its options: in the metadata of its first column, under the key `kafkalog.options`.

A column's metadata goes along with data frames, and into files that are written from them. So options with secrets are
refused for a table; queries give them.

Spark marks the creation of a table by the properties `owner` and `provider` among the options, and names the table's
options `option.…` (`TableCatalog` in Spark's interface). No other query has these.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from spark_kafkalog.offline.offline_options import is_offline
from spark_kafkalog.options.limits import LIMITS
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.subscription import names_a_source
from spark_kafkalog.redaction import is_secret

KEY = "kafkalog.options"
_OPTION = "option."
_MARKS = ("owner", "provider")
_SERVERS = "kafka.bootstrap.servers"
_OF_SINKS = frozenset({"topic", "ledgertopic", "losttransactions", "batchid"})
"""Options that only sinks have."""
REMEDY = (
    "Create the table without a list of columns and with OPTIONS, so that its schema keeps them, or use "
    "CREATE TEMPORARY VIEW … USING kafkalog OPTIONS (…)"
)


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
    """Return a schema that carries a table's options."""
    first, *others = schema.fields
    metadata = {**first.metadata, KEY: dict(options)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def options_in(schema: StructType) -> dict[str, str]:
    """Return the options that a table's schema carries; none if it is another schema."""
    for column in schema.fields:
        found = column.metadata.get(KEY)
        if isinstance(found, dict):
            return {str(name): str(value) for name, value in found.items()}
    return {}


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
    """Return the options with which a query writes.

    A query that names servers has its own options alone. The rows that it writes may come from a table of another
    cluster, and then their schema carries the topic and the login of that table.
    """
    if _SERVERS in given:
        return dict(given)
    kept = {name: value for name, value in options_in(schema).items() if _is_of_sinks(name.lower())}
    return {**kept, **given}


def _is_of_sinks(name: str) -> bool:
    return name in _OF_SINKS or name.startswith("kafka.")
