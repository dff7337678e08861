"""The options of `kafkalog load` and its commands, as command-line arguments."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

from kafkalog.java_properties import PropertiesError, load_properties
from spark_kafkalog.load.load_options import LoadOptions, parse_time, parse_until, topic_names
from spark_kafkalog.options.limits import AtEnd, AtOffsets, AtTimestamp
from spark_kafkalog.options.parsing import parse_offsets

EXAMPLES = """\
examples:
  kafkalog load --bootstrap-server localhost:9092 --topic words --to hdfs://namenode:8020/kafka
  kafkalog load --bootstrap-server localhost:9092 --topic words,clicks --to /data/kafka --until 2026-11-21T18:00:00Z
  kafkalog load --bootstrap-server localhost:9092 --topic words --to /data/kafka --dry-run
  kafkalog load --bootstrap-server localhost:9092 --topic-pattern '^shop-' --to /data/kafka
  kafkalog load status --to /data/kafka --topic words --bootstrap-server localhost:9092
  kafkalog load compact --to /data/kafka --topic words

exit codes: 0 done (or nothing new), 1 failed, 2 wrong usage, 3 another loader was first: nothing was published
"""


class UsageError(ValueError):
    """Options are wrong; the message says what to change."""


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # noqa: SLF001
    """Parses a command's options, and refuses those before it: argparse would let the command's defaults hide them."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        given = [
            each.option_strings[0]
            for each in parser._actions  # noqa: SLF001
            if each.option_strings and getattr(namespace, each.dest, each.default) != each.default
        ]
        if given:
            parser.error(f"{values[0]} takes only options that follow it, not {', '.join(given)} before it")
        super().__call__(parser, namespace, values, option_string)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a load, and its commands; `arguments.action` names the command."""
    commands = parser.add_subparsers(
        dest="action", metavar="[status | compact]", required=False, action=_Commands, parser_class=type(parser)
    )
    _add_load(parser)
    _add_status(commands)
    _add_compact(commands)


def _add_load(parser: argparse.ArgumentParser) -> None:
    # Some are required for a load, but not for the commands below it, so `load_options` checks them.
    _add_common(parser)
    parser.add_argument("--format", default="parquet", metavar="NAME", help="parquet (default), avro or raw")
    where = parser.add_argument_group("what to load")
    where.add_argument(
        "--topic-pattern",
        metavar="REGEX",
        help="in place of --topic: topics in whose names this Java regular expression is found, internal ones excepted",
    )
    where.add_argument(
        "--from",
        dest="first",
        choices=("earliest", "latest"),
        default="earliest",
        help="where the first load of a topic begins (default: earliest); later loads go on where it ended",
    )
    where.add_argument("--from-timestamp", metavar="TIME", help="begin at the first record of this time (ms or ISO)")
    where.add_argument("--from-offsets", metavar="JSON", help='begin at these offsets: {"words":{"0":23,"1":-2}}')
    where.add_argument(
        "--until", default="latest", metavar="WHERE", help="latest (default), a time, or offsets as JSON"
    )
    where.add_argument(
        "--fail-on-data-loss",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fail where offsets are gone that were not loaded (default); otherwise load what is left",
    )
    where.add_argument(
        "--on-recreated-topic",
        choices=("fail", "restart"),
        default="fail",
        help="what to do with a topic that was deleted and created again (default: fail)",
    )
    how = parser.add_argument_group("how")
    _add_how(how)
    how.add_argument(
        "--without-spark", action="store_true", help="run the tasks in threads of this process: for small loads"
    )
    how.add_argument(
        "--min-splits", type=_positive, metavar="N", help="the least number of tasks (default: one a core)"
    )
    how.add_argument(
        "--max-records-per-split", type=_positive, metavar="N", help="the most offsets of a task (4000000)"
    )
    how.add_argument(
        "--poll-timeout", type=_positive, metavar="S", help="seconds for which a task waits for its next record (120)"
    )
    how.add_argument(
        "--max-batch-bytes",
        type=_size,
        metavar="BYTES",
        help="what one record batch may expand to (512m), 2g at most; k, m, g",
    )
    how.add_argument("--command-config", metavar="FILE", help="a file of client properties")
    how.add_argument(
        "--consumer-property", action="append", default=[], metavar="KEY=VALUE", help="a client property; repeatable"
    )
    how.add_argument("--dry-run", action="store_true", help="print what would be loaded, and touch nothing")
    how.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT[,…]", help="brokers to connect to first")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[,…]", help="topics; may be repeated")
    parser.add_argument("--to", metavar="URL", help="hdfs://host:port/directory, file:///directory or /directory")
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def _add_how(group: Any) -> None:
    group.add_argument("--master", metavar="URL", help="Spark's master (default: local[*]; merging: no Spark)")
    group.add_argument(
        "--target-file-size", type=_size, metavar="BYTES", help="size at which a file is closed (512m); k, m, g"
    )
    group.add_argument("--compression-level", type=int, metavar="N", help="of zstd (3)")
    group.add_argument(
        "--stale-after", type=float, metavar="S", help="seconds after which a silent run is considered dead (600)"
    )


def _add_status(commands: Any) -> None:
    parser = commands.add_parser("status", help="show what was loaded, and how far that is behind the brokers")
    _add_common(parser)
    parser.add_argument("--command-config", metavar="FILE", help="a file of client properties")
    parser.add_argument("--consumer-property", action="append", default=[], metavar="KEY=VALUE", help="repeatable")


def _add_compact(commands: Any) -> None:
    parser = commands.add_parser("compact", help="merge small files of published loads into bigger ones")
    _add_common(parser)
    parser.add_argument("--loads", metavar="A-B", help="the loads to compact (default: all)")
    _add_how(parser)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no integer from 1 on")
    return int(text)


def _size(text: str) -> int:
    number, unit = (text[:-1], text[-1].lower()) if text[-1:].isalpha() else (text, "")
    if unit not in ("", "k", "m", "g"):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 128m")
    return _positive(number) << {"": 0, "k": 10, "m": 20, "g": 30}[unit]


def load_options(arguments: argparse.Namespace) -> LoadOptions:
    """Return the options of a load.

    Raises:
        UsageError, OptionsError: An option is wrong.
    """
    for name in ("bootstrap_server", "topic", "to"):
        if not getattr(arguments, name) and not (name == "topic" and arguments.topic_pattern is not None):
            raise UsageError(f"--{name.replace('_', '-')} is missing")
    if arguments.from_timestamp is not None and arguments.from_offsets is not None:
        raise UsageError("--from-timestamp and --from-offsets cannot be used together")
    start: AtOffsets | AtTimestamp | None = None
    if arguments.from_timestamp is not None:
        start = parse_time("--from-timestamp", arguments.from_timestamp)
    elif arguments.from_offsets is not None:
        if arguments.from_offsets.strip().lower() in ("earliest", "latest"):
            raise UsageError(
                f"--from-offsets {arguments.from_offsets}: expected an offset for each partition as JSON; use --from "
                f"{arguments.from_offsets.strip().lower()} for topics that were never loaded"
            )
        start = AtOffsets(parse_offsets("--from-offsets", arguments.from_offsets))
    if arguments.without_spark and arguments.master is not None:
        raise UsageError("--without-spark and --master cannot be used together")
    if arguments.format == "avro" and importlib.util.find_spec("fastavro") is None:
        raise UsageError("--format avro needs fastavro, here and on the executors: pip install 'kafkalog[avro]'")
    given = {
        "min_splits": arguments.min_splits,
        "most_split_records": arguments.max_records_per_split,
        "most_file_bytes": arguments.target_file_size,
        "compression_level": arguments.compression_level,
        "stale_after_s": arguments.stale_after,
        "poll_timeout_s": arguments.poll_timeout,
        "max_batch_bytes": arguments.max_batch_bytes,
    }
    return LoadOptions(
        bootstrap_servers=arguments.bootstrap_server,
        topics=topic_names(arguments.topic),
        topic_pattern=arguments.topic_pattern,
        to=arguments.to,
        first=AtEnd(-2 if arguments.first == "earliest" else -1),
        start=start,
        until=parse_until(arguments.until),
        format=arguments.format,
        properties=client_properties(arguments),
        fail_on_data_loss=arguments.fail_on_data_loss,
        restart_recreated=arguments.on_recreated_topic == "restart",
        **{name: value for name, value in given.items() if value is not None},
    )


def client_properties(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the client properties of `--command-config` and `--consumer-property`, which takes precedence.

    Raises:
        UsageError: The file cannot be read, or a word is not of the form KEY=VALUE. No text shows a line of the file.
    """
    found: dict[str, str] = {}
    if arguments.command_config is not None:
        try:
            loaded = load_properties(Path(arguments.command_config))
        except PropertiesError as error:
            cause = error.__cause__
            reason = cause.strerror if isinstance(cause, OSError) else cause
            raise UsageError(f"--command-config {arguments.command_config}: {reason}") from None
        found |= {key: value.strip() for key, value in loaded.items()}
    return found | dict(_pair(pair, "--consumer-property") for pair in arguments.consumer_property)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        # The word may be a password.
        raise UsageError(f"{option}: expected KEY=VALUE")
    return key.strip(), value.strip()
