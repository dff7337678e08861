"""The options that the streaming jobs share, as arguments of a command line."""

from __future__ import annotations

import argparse
import re
from typing import Any

from spark_kafkalog.load.arguments import UsageError as UsageError
from spark_kafkalog.load.arguments import client_properties

AVAILABLE_NOW = "available-now"
PRODUCER_PROPERTY = "--producer-property"
EXIT_CODES = "exit codes: 0 done or stopped, 1 failed, 2 wrong usage"

_INTERVAL = re.compile(r"[0-9]+ *(milliseconds?|seconds?|minutes?|hours?|days?|ms|s|m|h)", re.ASCII)
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options of the input. They have the names of Kafka's tools, and of the source's options."""
    group = parser.add_argument_group("what to read")
    group.add_argument(
        "--bootstrap-server", required=True, metavar="HOST:PORT[,…]", help="brokers to learn the cluster from"
    )
    group.add_argument("--topic", required=True, metavar="NAME[,…]", help="topics with the lines")
    group.add_argument(
        "--starting-offsets",
        default="earliest",
        metavar="WHERE",
        help='earliest (default), latest, or {"logs":{"0":23,"1":-2}}; for the first start only',
    )
    group.add_argument(
        "--max-offsets-per-trigger", type=_positive, metavar="N", help="the most offsets of a micro-batch"
    )
    group.add_argument(
        "--fail-on-data-loss",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fail where offsets are gone that were not read (default); otherwise go on where records begin",
    )
    group.add_argument("--command-config", metavar="FILE", help="a file of client properties")
    group.add_argument(
        "--consumer-property", action="append", default=[], metavar="KEY=VALUE", help="a client property; repeatable"
    )


def add_streaming(parser: argparse.ArgumentParser) -> None:
    """Add the options for rejected records and checkpoints, and for the times of micro-batches."""
    rejected = parser.add_argument_group("records that do not parse").add_mutually_exclusive_group(required=True)
    rejected.add_argument("--rejected", metavar="DIR", help="Parquet, with the reason and each record's position")
    rejected.add_argument(
        "--rejected-topic",
        metavar="NAME",
        help="a topic: key and value as they were, the reason in the header 'reason'",
    )
    group = parser.add_argument_group("how")
    group.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="where a restart continues; one directory for each job"
    )
    group.add_argument(
        "--trigger",
        default=AVAILABLE_NOW,
        metavar="WHEN",
        help=f"{AVAILABLE_NOW} (default): read what is there and end; or an interval such as '1 minute': run on",
    )
    group.add_argument(
        PRODUCER_PROPERTY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for the producer of records to topics",
    )
    group.add_argument("--master", metavar="URL", help="Spark's master; with spark-submit, set it there")
    group.add_argument("--json", action="store_true", help="print the figures as JSON, for machines")


def source_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return options of the format `kafkalog` as a source.

    Raises:
        UsageError: An option is wrong.
    """
    properties = client_properties(arguments)
    if "bootstrap.servers" in properties:
        raise UsageError("bootstrap.servers is set by --bootstrap-server")
    options = {
        "kafka.bootstrap.servers": arguments.bootstrap_server,
        "subscribe": arguments.topic,
        "startingOffsets": arguments.starting_offsets,
        "failOnDataLoss": str(arguments.fail_on_data_loss).lower(),
    }
    if arguments.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(arguments.max_offsets_per_trigger)
    return options | {f"kafka.{key}": value for key, value in properties.items()}


def sink_options(arguments: argparse.Namespace, topic: str) -> dict[str, str]:
    """Return options of the format `kafkalog` as a sink.

    Raises:
        UsageError: An option is wrong.
    """
    properties = client_properties(argparse.Namespace(command_config=arguments.command_config, consumer_property=[]))
    for pair in arguments.producer_property:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            # The word may be a password.
            raise UsageError(f"{PRODUCER_PROPERTY}: expected KEY=VALUE")
        properties[key.strip()] = value.strip()
    if "bootstrap.servers" in properties:
        raise UsageError(
            f"{PRODUCER_PROPERTY}: a job writes to the brokers of --bootstrap-server; no others can be set"
        )
    properties["bootstrap.servers"] = arguments.bootstrap_server
    return {"topic": topic} | {f"kafka.{key}": value for key, value in properties.items()}


def topics(arguments: argparse.Namespace) -> set[str]:
    """Return the topics to read."""
    return {name.strip() for name in arguments.topic.split(",")}


def trigger(text: str) -> dict[str, Any]:
    """Return the arguments of `DataStreamWriter.trigger`."""
    if text == AVAILABLE_NOW:
        return {"availableNow": True}
    try:
        return {"processingTime": interval("--trigger", text)}
    except UsageError as error:
        raise UsageError(f"{error}, or {AVAILABLE_NOW}") from None


def interval(option: str, text: str) -> str:
    """Return an interval in Spark's syntax, such as `1 hour`, for `1 hour`, `1h` or `90 seconds`."""
    found = _INTERVAL.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} {text}: expected an interval such as '1 hour'")
    number = text.strip()[: -len(found[1])].strip()
    return f"{number} {_UNITS.get(found[1], found[1])}"


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no integer from 1 on")
    return int(text)
