"""Records that cannot be parsed: their output, and their number by reason."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from spark_kafkalog.jobs.arguments import sink_options
from spark_kafkalog.jobs.directories import check_written

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LINES = "lines"
_TRANSACTIONAL_ID = "kafka.transactional.id"
_PLACE = ("topic", "partition", "offset", "timestamp")


def observed(frame: DataFrame, reasons: Sequence[str]) -> DataFrame:
    """Observe a frame with the column `reason`: count all `lines`, and the rejected records of each reason."""
    from pyspark.sql import functions as F  # noqa: N812

    counts = [F.count_if(F.col("reason") == reason).alias(reason) for reason in reasons]
    return frame.observe("records", F.count(F.lit(1)).alias(LINES), *counts)


def checkpoint(name: str, arguments: argparse.Namespace) -> str:
    """Return the checkpoint of the query that writes the rejected records of the job `name`.

    Its name contains the job's: with one name for all, a job that gets another's checkpoint would consider its records
    done.
    """
    return f"{arguments.checkpoint}/{name}-rejected"


def start_note(name: str, arguments: argparse.Namespace) -> str:
    """Return the file of the job `name` with the offsets at which its queries begin."""
    return f"{arguments.checkpoint}/{name}-starting-offsets.json"


def check(spark: SparkSession, arguments: argparse.Namespace, checkpoint: str) -> None:
    """Check that `--rejected` does not name a directory that belongs to another checkpoint.

    Raises:
        UsageError: It does.
    """
    if arguments.rejected is not None:
        check_written(spark, "--rejected", arguments.rejected, checkpoint)


def writer(frame: DataFrame, arguments: argparse.Namespace) -> DataStreamWriter:
    """Return the writer of the records with a `reason`: to Parquet files, or to a topic with the reason as a header.

    `frame` has the columns of the source and `reason`.

    Raises:
        UsageError: An option cannot be used.
    """
    found = frame.where("reason IS NOT NULL")
    if arguments.rejected is not None:
        columns = ["reason", *_PLACE, "key", "value", *(["headers"] if "headers" in frame.columns else [])]
        return found.select(*columns).writeStream.format("parquet").option("path", arguments.rejected)
    rows = found.select("key", "value", _headers(frame).alias("headers"))
    return rows.writeStream.format("kafkalog").options(**topic_options(arguments))


def topic_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of the sink that writes to `--rejected-topic`.

    The job's other query may write with the same properties, and each query needs a `transactional.id` of its own.

    Raises:
        UsageError: An option is wrong.
    """
    options = sink_options(arguments, arguments.rejected_topic)
    given = options.get(_TRANSACTIONAL_ID)
    return options if given is None else options | {_TRANSACTIONAL_ID: f"{given}-rejected"}


def _headers(frame: DataFrame) -> Column:
    """Return the record's own headers, if they were read, then its reason and its position."""
    from pyspark.sql import functions as F  # noqa: N812

    place = F.concat_ws("-", "topic", "partition", "offset")
    added = F.array(
        *(
            F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in (("reason", F.col("reason")), ("source", place))
        )
    )
    if "headers" not in frame.columns:
        return added
    return F.concat(F.coalesce(F.col("headers"), F.array().cast(frame.schema["headers"].dataType)), added)


def described(sums: Mapping[str, int], reasons: Sequence[str]) -> str:
    """Return one line with the number of rejected records and the reasons."""
    found = [(reason, sums.get(reason, 0)) for reason in reasons]
    why = "; ".join(f"{reason}: {count:,}" for reason, count in found if count)
    return f"{sum(count for _, count in found):,} rejected{f' ({why})' if why else ''}"
