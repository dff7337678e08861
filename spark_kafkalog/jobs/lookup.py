"""A small table to enrich records from: read once at the start, and broadcast to the tasks of a join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_kafkalog.jobs.arguments import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

EXACT, PREFIX = "exact", "prefix"
MATCHES = (EXACT, PREFIX)
MOST_ROWS = 100_000
"""The most rows of a table: it goes through the driver, and into the memory of each executor."""

_FORMATS = {".csv": "csv", ".parquet": "parquet"}
_KEY, _ENTRY, _ENTRIES = "lookup_key", "lookup_entry", "lookup_entries"


def format_of(path: str, given: str | None) -> str:
    """Return `csv` or `parquet`, by default from the file's name.

    Raises:
        UsageError: The format is not clear from the name.
    """
    if given is not None:
        return given
    for ending, name in _FORMATS.items():
        if path.rstrip("/").endswith(ending):
            return name
    raise UsageError(f"--lookup {path}: the name does not end in .csv or .parquet; say --lookup-format")


def read(spark: SparkSession, path: str, kind: str, column: str | None) -> DataFrame:
    """Read the table: strings `lookup_key`, and structures `lookup_entry` with its other columns.

    `column` has the keys, by default the first one. The driver holds the rows: later changes of the file have no effect
    until a restart.

    Raises:
        UsageError: The table cannot be used.
    """
    from pyspark.sql import functions as F  # noqa: N812

    reader = spark.read.option("header", "true") if kind == "csv" else spark.read
    table = reader.format(kind).load(path)
    if not table.columns:
        raise UsageError(f"--lookup {path} has no columns: it is empty")
    column = table.columns[0] if column is None else column
    if column not in table.columns:
        raise UsageError(f"--lookup {path} has no column {column!r}, but {', '.join(table.columns)}")
    others = [name for name in table.columns if name != column]
    if not others:
        raise UsageError(f"--lookup {path} has no column beside {column!r}: there is nothing to add to records")
    entries = table.select(
        F.col(_quoted(column)).cast("string").alias(_KEY),
        F.struct(*(F.col(_quoted(name)) for name in others)).alias(_ENTRY),
    )
    rows = entries.limit(MOST_ROWS + 1).collect()
    check(path, rows)
    return spark.createDataFrame(rows, entries.schema)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def check(path: str, rows: Sequence[Row]) -> None:
    """Check that a table can be used.

    Raises:
        UsageError: The table is empty or too long, or it has a key twice or a row without a key.
    """
    if not rows:
        raise UsageError(f"--lookup {path} has no rows")
    if len(rows) > MOST_ROWS:
        raise UsageError(f"--lookup {path} has more than {MOST_ROWS:,} rows; join a table of that size in a query")
    key, count = Counter(row[_KEY] for row in rows).most_common(1)[0]
    if count > 1:
        raise UsageError(f"--lookup {path} has {count} rows for {key!r}: records would be written that often")
    if any(row[_KEY] is None for row in rows):
        raise UsageError(f"--lookup {path} has a row without a key")


def joined(records: DataFrame, table: DataFrame, on: Column, match: str, name: str) -> DataFrame:
    """Return each record once, with the matching row of the table as the column `name`, null if there is none.

    With `exact` the key equals `on`; with `prefix` it is the longest one that `on` begins with.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, StructField, StructType

    if match == EXACT:
        found = table.select(F.col(_KEY), F.col(_ENTRY).alias(name))
        return records.join(F.broadcast(found), on.cast("string") == F.col(_KEY), "left").drop(_KEY)
    # One row that has the whole table, longest keys first: each record is joined once, and the first match is the
    # longest.
    ordered = table.orderBy(F.length(_KEY).desc(), _KEY).collect()
    entries = ArrayType(table.schema)
    single = table.sparkSession.createDataFrame([(ordered,)], StructType([StructField(_ENTRIES, entries)]))
    crossed = records.crossJoin(F.broadcast(single))
    fits = F.filter(F.col(_ENTRIES), lambda each: F.startswith(on, each[_KEY]))
    return crossed.withColumn(name, F.get(fits, F.lit(0))[_ENTRY]).drop(_ENTRIES)
