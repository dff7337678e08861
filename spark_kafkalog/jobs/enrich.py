"""From a topic to a topic, enriched from a small table: `spark-submit [Spark's options] enrich.py [options]`.

Reads access-log lines or JSON objects, joins each with the matching row of a CSV or Parquet file, and writes JSON
objects to another topic. Records that cannot be parsed go to a side output. Delivery into topics is at least once:
after a failure some records may be there twice; `--source-position` adds a member by which duplicates can be
recognized.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafkalog.jobs import access_log, application, json_lines, lookup, rejected
from spark_kafkalog.jobs.arguments import (
    EXIT_CODES,
    UsageError,
    add_source,
    add_streaming,
    sink_options,
    source_options,
    topics,
    trigger,
)
from spark_kafkalog.jobs.start import same_for_all

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAME = "enrich"
ACCESS_LOG, JSON = "access-log", "json"
POSITION = "source"
RECORDS, UNMATCHED = "records", "unmatched"
REASONS = {ACCESS_LOG: access_log.REASONS, JSON: json_lines.REASONS}

EXAMPLES = f"""\
examples:
  spark-submit enrich.py --bootstrap-server localhost:9092 --topic access --to access-enriched \\
      --lookup status_codes.csv --on status --rejected out/rejected --checkpoint out/checkpoint
  spark-submit enrich.py --bootstrap-server localhost:9092 --topic access --to access-sections \\
      --lookup sections.csv --on path --match prefix --as section --rejected-topic bad --checkpoint out/checkpoint
  python -m spark_kafkalog.jobs.enrich --bootstrap-server localhost:9092 --topic nginx-status --to nginx-sites \\
      --format json --lookup sites.parquet --on '$.address' --key '$.address' --keep-headers \\
      --rejected out/rejected --checkpoint out/checkpoint --trigger "10 seconds"

{EXIT_CODES}
"""


class Plan(NamedTuple):
    """Checked options."""

    source: dict[str, str]
    sink: dict[str, str]
    trigger: dict[str, Any]
    lookup_format: str
    key: str | None
    """A field or path; None to keep the record's own key."""


def arguments_of(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; end the process with exit code 2 if it is wrong."""
    parser = argparse.ArgumentParser(
        prog="enrich.py",
        description="Write the records of topics to another topic as JSON, enriched from a small CSV or Parquet file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source(parser)
    parser.add_argument_group("what to read").add_argument(
        "--format", choices=(ACCESS_LOG, JSON), default=ACCESS_LOG, help="what values are (default: access-log)"
    )
    table = parser.add_argument_group("what to add")
    table.add_argument(
        "--lookup", required=True, metavar="FILE", help="CSV with a header, or Parquet; read at the start"
    )
    table.add_argument("--lookup-format", choices=("csv", "parquet"), help="where the name does not tell")
    table.add_argument("--lookup-key", metavar="COLUMN", help="the file's column with the keys (default: its first)")
    table.add_argument(
        "--on",
        required=True,
        metavar="FIELD",
        help=f"what must match: {', '.join(access_log.FIELDS)}; or $.path of JSON",
    )
    table.add_argument(
        "--match",
        choices=lookup.MATCHES,
        default=lookup.EXACT,
        help="exact (default), or prefix: the longest key that FIELD begins with",
    )
    table.add_argument(
        "--as",
        dest="name",
        default="lookup",
        metavar="NAME",
        help="the added member (default: lookup); null if unmatched",
    )
    table.add_argument(
        "--source-position", action="store_true", help=f"add the member '{POSITION}': topic, partition, offset"
    )
    to = parser.add_argument_group("where to")
    to.add_argument("--to", required=True, metavar="NAME", help="the topic to write to")
    key = to.add_mutually_exclusive_group()
    key.add_argument(
        "--key", metavar="FIELD", help="the new key (default: host of access-log, the record's own of json)"
    )
    key.add_argument("--keep-key", action="store_true", help="the record's own key")
    to.add_argument("--keep-headers", action="store_true", help="the record's own headers")
    add_streaming(parser)
    return parser.parse_args(words)


def check(arguments: argparse.Namespace) -> Plan:
    """Check the options.

    Raises:
        UsageError, OptionsError: An option is wrong. The text names it.
    """
    from spark_kafkalog.options.source_options import SourceOptions
    from spark_kafkalog.sink.sink_options import SinkOptions

    source = source_options(arguments)
    if arguments.keep_headers:
        source["includeHeaders"] = "true"
    SourceOptions.parse(source)
    sink = sink_options(arguments, arguments.to)
    for option, topic in (("--to", arguments.to), ("--rejected-topic", arguments.rejected_topic)):
        if topic is not None:
            SinkOptions.parse(sink | {"topic": topic})
            if topic.strip() in topics(arguments):
                raise UsageError(f"{option} {topic} is one of the topics that are read: it would be read for ever")
    key = arguments.key
    if key is None and not arguments.keep_key and arguments.format == ACCESS_LOG:
        key = "host"
    for option, field in (("--on", arguments.on), ("--key", key)):
        if field is not None:
            _check_field(option, field, arguments.format)
    taken = (*(access_log.FIELDS if arguments.format == ACCESS_LOG else ()), POSITION)
    if not arguments.name or arguments.name in taken:
        raise UsageError(f"--as {arguments.name}: expected a name that no other member has")
    form = lookup.format_of(arguments.lookup, arguments.lookup_format)
    return Plan(source, sink, trigger(arguments.trigger), form, key)


def _check_field(option: str, field: str, form: str) -> None:
    if form == JSON and json_lines.PATH.fullmatch(field) is None:
        raise UsageError(f"{option} {field}: expected a path such as '$.address' or '$.peers[0].id'")
    if form == ACCESS_LOG and field not in access_log.FIELDS:
        raise UsageError(f"{option} {field}: expected one of {', '.join(access_log.FIELDS)}")


def with_reason(records: DataFrame, arguments: argparse.Namespace) -> DataFrame:
    """Return the source's records with `reason`, and with `request` if they are access-log lines."""
    from pyspark.sql import functions as F  # noqa: N812

    if arguments.format == JSON:
        added = (arguments.name, POSITION) if arguments.source_position else (arguments.name,)
        return records.withColumn("reason", json_lines.reason(F.col("value"), *added))
    parsed = records.withColumn("request", access_log.parsed(F.col("value")))
    return parsed.withColumn("reason", F.col("request.reason"))


def enriched(records: DataFrame, table: DataFrame, arguments: argparse.Namespace, key: str | None) -> DataFrame:
    """Return rows for the sink: key, value and, with --keep-headers, headers."""
    from pyspark.sql import functions as F  # noqa: N812

    def field(name: str) -> Column:
        return json_lines.member(F.col("value"), name) if arguments.format == JSON else F.col("request")[name]

    valid = with_reason(records, arguments).where("reason IS NULL").withColumn("on_field", field(arguments.on))
    rows = lookup.joined(valid, table, F.col("on_field"), arguments.match, "found")
    added = [F.col("found").alias(arguments.name)]
    if arguments.source_position:
        added.append(F.struct("topic", "partition", "offset").alias(POSITION))
    if arguments.format == JSON:
        value = json_lines.with_members(F.col("value"), F.struct(*added))
    else:
        own = [F.col("request")[name].alias(name) for name in access_log.FIELDS]
        value = F.to_json(F.struct(*own, *added), {"ignoreNullFields": "false", "timeZone": "UTC"})
    columns = [
        (F.col("key") if key is None else field(key).cast("string")).alias("key"),
        value.alias("value"),
        *([F.col("headers")] if arguments.keep_headers else []),
    ]
    counts = F.count(F.lit(1)).alias(RECORDS), F.count_if(F.col("found").isNull()).alias(UNMATCHED)
    return rows.observe("enriched", *counts).select(*columns)


def job(arguments: argparse.Namespace) -> None:
    """Run both queries until they end; print the figures."""
    plan = check(arguments)
    spark = application.session(NAME, arguments.master)
    own, aside = f"{arguments.checkpoint}/{NAME}", rejected.checkpoint(NAME, arguments)
    rejected.check(spark, arguments, aside)
    source = same_for_all(spark, plan.source, rejected.start_note(NAME, arguments), (own, aside))
    table = lookup.read(spark, arguments.lookup, plan.lookup_format, arguments.lookup_key)

    def records() -> DataFrame:
        return spark.readStream.format("kafkalog").options(**source).load()

    reasons = REASONS[arguments.format]
    others = rejected.observed(with_reason(records(), arguments), reasons)
    figures = application.Figures()
    application.run_queries(
        [
            enriched(records(), table, arguments, plan.key)
            .writeStream.format("kafkalog")
            .options(**plan.sink)
            .option("checkpointLocation", own)
            .queryName(NAME)
            .trigger(**plan.trigger),
            rejected.writer(others, arguments)
            .option("checkpointLocation", aside)
            .queryName(f"{NAME} rejected")
            .trigger(**plan.trigger),
        ],
        figures,
    )
    sums = figures.sums
    told = {
        "records": sums[rejected.LINES],
        "written": sums[RECORDS],
        "unmatched": sums[UNMATCHED],
        "rejected": {reason: sums[reason] for reason in reasons if sums[reason]},
    }
    text = (
        f"{sums[rejected.LINES]:,} records; {sums[RECORDS]:,} written to {arguments.to}, {sums[UNMATCHED]:,} of them "
        f"without a match; {rejected.described(sums, reasons)}"
    )
    application.report(told, text, arguments.json)


def main(words: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    arguments = arguments_of(words)
    return application.run(NAME, lambda: job(arguments))


if __name__ == "__main__":
    sys.exit(main())
