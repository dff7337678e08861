"""`kafkalog load`: topics into Parquet on HDFS or in a directory, exactly once (`spark_kafkalog.load`)."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `load` and its commands."""
    from spark_kafkalog.load.arguments import EXAMPLES, add_options

    parser = subparsers.add_parser(
        "load",
        help="load topics into Parquet on HDFS, exactly once",
        description="Load what is new of topics into Parquet (or Avro, or raw values), exactly once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Load, show the status, or compact; `spark_kafkalog.load.command` says what the exit codes mean."""
    from spark_kafkalog.cli.requirements import missing_requirement
    from spark_kafkalog.load import arguments as load_arguments
    from spark_kafkalog.load import command

    # SIGTERM ends the run by an exception, so that its staging directory is removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with ExitStack() as stack:

        def context(master: str | None) -> Any:
            from spark_kafkalog.cli.quiet_spark import quiet_session

            missing = missing_requirement()
            if missing:
                raise load_arguments.UsageError(missing)
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkalog-load-"))
            session = quiet_session("kafkalog load", Path(directory), master or "local[*]")
            stack.callback(session.stop)
            return session.sparkContext

        return command.run(arguments, context)
