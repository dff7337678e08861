"""`kafkalog spark`: this environment and its Spark.

The work is done by `spark_kafkalog.cluster`, `compat.workers.precompiled` and `cli.warm`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_kafkalog.compat.workers.precompiled import Status

EXAMPLES = """\
examples:
  kafkalog spark warm
  kafkalog spark precompile
  kafkalog spark precompile --status
  kafkalog spark precompile --undo

Run it with the Python that Spark's workers run (PYSPARK_PYTHON): another version of Python does not use this byte code.
With --status, the exit code is 1 if byte code is missing.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `spark` and its commands."""
    parser = subparsers.add_parser(
        "spark",
        help="check and prepare the Python environments of Spark",
        description="Check and prepare the Python environments that Spark's drivers and executors run.",
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    precompile = commands.add_parser(
        "precompile",
        help="put byte code into PySpark's archives",
        description="Put byte code into the archives that Spark's Python processes import PySpark from.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = precompile.add_mutually_exclusive_group()
    which.add_argument("--status", action="store_true", help="tell what the archives have, and change nothing")
    which.add_argument("--undo", action="store_true", help="take byte code out again; stop Spark before that")
    precompile.add_argument(
        "--spark-home", type=Path, metavar="DIRECTORY", help="default: SPARK_HOME, else the pyspark package"
    )
    precompile.set_defaults(run=run_precompile)
    _add_check(commands)
    from spark_kafkalog.cli import pack, warm

    pack.add_parser(commands)
    warm.add_parser(commands)


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from spark_kafkalog.cluster import check

    parser = commands.add_parser(
        "check",
        help="tell whether driver and executors can run the source",
        description="Tell which Python looks for sources, what driver and executors have, and what is wrong with it.",
        epilog=check.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_options(parser)
    parser.set_defaults(run=run_check)


def run_check(arguments: argparse.Namespace) -> int:
    """Check an application that is made for this; return 0 if nothing is wrong (`spark_kafkalog.cluster.check`)."""
    from spark_kafkalog.cli.quiet_spark import quiet_session
    from spark_kafkalog.cli.requirements import missing_requirement
    from spark_kafkalog.cluster import check

    missing = missing_requirement()
    if missing:
        print(f"kafkalog: {missing}", file=sys.stderr)
        return check.WRONG
    with ExitStack() as stack:

        def session(master: str | None) -> SparkSession:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkalog-check-"))
            try:
                made: SparkSession = quiet_session(
                    "kafkalog spark check", Path(directory), master or "local[*]", own_python=False
                )
            except Exception as error:
                # If the JVM has ended, only its log says why.
                raise check.StartError(_last_error(Path(directory, "spark.log")) or str(error)) from error
            stack.callback(made.stop)
            return made

        return check.run(arguments, session)


def _last_error(log: Path) -> str | None:
    """Return the last line of a JVM's log that is an exception and no place in its code."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if "Exception: " in line and not line.startswith(("\t", " "))]
    return errors[-1].rpartition("Exception: ")[2] if errors else None


def run_precompile(arguments: argparse.Namespace) -> int:
    """Change the archives, or report on them; return 1 if that failed, or if --status has found something to do."""
    from spark_kafkalog.compat.workers import precompiled

    try:
        archives = precompiled.find_archives(arguments.spark_home)
        if arguments.status:
            found = [precompiled.status(each) for each in archives]
            for each in found:
                print(f"{each.archive}: {_told(each)}")
            return int(not all(each.complete for each in found))
        for archive in archives:
            before = precompiled.status(archive)
            after = precompiled.undo(archive) if arguments.undo else precompiled.precompile(archive)
            print(f"{archive}: {'nothing to do, ' if after == before else ''}{_told(after)}")
    except precompiled.PrecompileError as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    return 0


def _told(status: Status) -> str:
    version = ".".join(map(str, sys.version_info[:2]))
    text = f"{status.current} of {status.modules} modules have byte code for Python {version}"
    return f"{text}, {status.other} have other" if status.other else text
