"""Hourly page views of web access logs: `spark-submit [Spark's options] page_views.py [options]`.

Reads lines of the common or combined log format from topics, counts them by hour, path and status class, and writes
each hour to Parquet when the watermark has passed its end. Lines that cannot be parsed go to a side output. Both
outputs are queries with a checkpoint each: after any process was killed, a restart continues at the checkpoints, with
the same result.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from spark_kafkalog.jobs import access_log, application, rejected
from spark_kafkalog.jobs.arguments import (
    EXIT_CODES,
    UsageError,
    add_source,
    add_streaming,
    interval,
    sink_options,
    source_options,
    topics,
    trigger,
)
from spark_kafkalog.jobs.directories import check_written
from spark_kafkalog.jobs.start import same_for_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "page_views"
AHEAD = "the time is more than an hour after the record's own"
FUTURE = "the time is more than an hour in the future"
REASONS = (*access_log.REASONS, AHEAD, FUTURE)
WINDOWS = "windows"
LARGEST_SIZE = 10**12
"""The largest size of a response that is added up. Millions of them in an hour do not overflow a bigint."""

EXAMPLES = f"""\
examples:
  spark-submit page_views.py --bootstrap-server localhost:9092 --topic access --output out/page_views \\
      --rejected out/rejected --checkpoint out/checkpoint
  python -m spark_kafkalog.jobs.page_views --bootstrap-server localhost:9092 --topic access \\
      --output out/page_views --rejected-topic access-rejected --checkpoint out/checkpoint --trigger "1 minute"

{EXIT_CODES}
"""


def arguments_of(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; end the process with exit code 2 if it is wrong."""
    parser = argparse.ArgumentParser(
        prog="page_views.py",
        description="Count page views by hour, path and status class, from web access logs in topics into Parquet.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source(parser)
    counted = parser.add_argument_group("what to count")
    counted.add_argument(
        "--output", required=True, metavar="DIR", help="Parquet: hour, path, status_class, views, bytes"
    )
    counted.add_argument(
        "--watermark",
        default="1 hour",
        metavar="INTERVAL",
        help="how long after the latest line's time a line may come and still be counted (default: 1 hour)",
    )
    counted.add_argument(
        "--methods", default="GET", metavar="NAME[,…]", help="methods whose requests are views (default: GET)"
    )
    add_streaming(parser)
    return parser.parse_args(words)


def with_requests(records: DataFrame) -> DataFrame:
    """Return the source's records with the columns `request` (`access_log.parsed`) and `reason`."""
    from pyspark.sql import functions as F  # noqa: N812

    request, now = F.col("request"), F.current_timestamp()
    # Records of Kafka before 0.10 have no time. `least` and comparisons skip it then.
    made = F.when(F.col("timestampType") != -1, F.col("timestamp"))
    # Otherwise a single line from the far future would move the watermark there, and all others would be late. The
    # record's time may come from the same clock as the line's, so the time of the micro-batch limits it. Spark keeps
    # that in the offset log: a repeated micro-batch decides the same. No time is added to the record's own if it is
    # later, because the sum could overflow.
    is_ahead = request["time"] > F.least(made, now) + F.expr("INTERVAL 1 HOUR")
    ahead = F.when(is_ahead, F.when(made <= now, AHEAD).otherwise(FUTURE))
    return records.withColumn("request", access_log.parsed(F.col("value"))).withColumn(
        "reason", F.coalesce(request["reason"], ahead)
    )


def page_views(records: DataFrame, watermark: str, methods: Sequence[str]) -> DataFrame:
    """Count views by hour (the timestamp of its start), path and status class, and add up the bytes sent."""
    from pyspark.sql import functions as F  # noqa: N812

    requests = with_requests(records).where("reason IS NULL").select("request.*").where(F.col("method").isin(*methods))
    hour = F.window("time", "1 hour")
    size = F.when(F.col("bytes") <= LARGEST_SIZE, F.col("bytes"))
    return (
        requests.withWatermark("time", watermark)
        .groupBy(hour.alias("hour"), "path", access_log.status_class(F.col("status")).alias("status_class"))
        .agg(F.count(F.lit(1)).alias("views"), F.coalesce(F.sum(size), F.lit(0)).cast("bigint").alias("bytes"))
        .select(F.col("hour.start").alias("hour"), "path", "status_class", "views", "bytes")
        .observe("rows", F.count(F.lit(1)).alias(WINDOWS))
    )


def check(arguments: argparse.Namespace) -> tuple[dict[str, str], str, list[str], dict[str, Any]]:
    """Check the source's options, the watermark, the methods and the trigger.

    Raises:
        UsageError, OptionsError: One of them is wrong.
    """
    from spark_kafkalog.options.source_options import SourceOptions
    from spark_kafkalog.sink.sink_options import SinkOptions

    source = source_options(arguments)
    SourceOptions.parse(source)
    if arguments.rejected_topic is not None:
        SinkOptions.parse(sink_options(arguments, arguments.rejected_topic))
        if arguments.rejected_topic.strip() in topics(arguments):
            raise UsageError("--rejected-topic is one of the topics that are read: it would be read for ever")
    elif PurePosixPath(arguments.rejected) == PurePosixPath(arguments.output):
        raise UsageError("--rejected and --output are the same directory")
    methods = [name.strip() for name in arguments.methods.split(",") if name.strip()]
    if not methods:
        raise UsageError("--methods names no method")
    return source, interval("--watermark", arguments.watermark), methods, trigger(arguments.trigger)


def job(arguments: argparse.Namespace) -> None:
    """Run both queries until they end; print the figures."""
    source, watermark, methods, when = check(arguments)
    spark = application.session(NAME, arguments.master)
    own, aside = f"{arguments.checkpoint}/{NAME}", rejected.checkpoint(NAME, arguments)
    check_written(spark, "--output", arguments.output, own)
    rejected.check(spark, arguments, aside)
    source = same_for_all(spark, source, rejected.start_note(NAME, arguments), (own, aside))
    views = page_views(_records(spark, source), watermark, methods)
    others = rejected.observed(with_requests(_records(spark, source)), REASONS)
    figures = application.Figures()
    application.run_queries(
        [
            views.writeStream.format("parquet")
            .outputMode("append")
            .option("path", arguments.output)
            .option("checkpointLocation", own)
            .queryName(NAME)
            .trigger(**when),
            rejected.writer(others, arguments)
            .option("checkpointLocation", aside)
            .queryName(f"{NAME} rejected")
            .trigger(**when),
        ],
        figures,
    )
    sums = figures.sums
    by_reason = {reason: sums[reason] for reason in REASONS if sums[reason]}
    told = {
        "lines": sums[rejected.LINES],
        "rejected": by_reason,
        "windows": sums[WINDOWS],
        "late": sums[application.LATE],
    }
    text = (
        f"{sums[rejected.LINES]:,} lines, {rejected.described(sums, REASONS)}; "
        f"{sums[WINDOWS]:,} rows of closed hours written; {sums[application.LATE]:,} late"
    )
    application.report(told, text, arguments.json)


def _records(spark: SparkSession, source: dict[str, str]) -> DataFrame:
    return spark.readStream.format("kafkalog").options(**source).load()


def main(words: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    arguments = arguments_of(words)
    return application.run(NAME, lambda: job(arguments))


if __name__ == "__main__":
    sys.exit(main())
