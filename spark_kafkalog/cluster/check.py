"""`kafkalog spark check`: can this application's driver and executors run the source, and if not, what mends it?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OK, WRONG, USAGE = 0, 1, 2

EXAMPLES = """\
examples:
  kafkalog spark check
  kafkalog spark check --master spark://master:7077 --bootstrap-server broker:9092
  spark-submit --master yarn .../spark_kafkalog/jobs/check.py --bootstrap-server broker:9092

Start it as the application is started: in the same environment, with the same settings. exit codes: 0 nothing is
wrong, 1 something is, 2 wrong usage.
"""


class StartError(Exception):
    """The application of the check did not start; the message says why."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that the command and the job share."""
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT[,…]", help="also connect to all brokers, from every host"
    )
    parser.add_argument("--command-config", metavar="FILE", help="a file of client properties")
    parser.add_argument(
        "--consumer-property", action="append", default=[], metavar="KEY=VALUE", help="a client property; repeatable"
    )
    parser.add_argument("--master", metavar="URL", help="Spark's master; with spark-submit, set it there")
    parser.add_argument("--json", action="store_true", help="print for programs")


def run(
    arguments: argparse.Namespace, session: Callable[[str | None], SparkSession], python: str | None = sys.executable
) -> int:
    """Check an application, print the report, and return the exit code.

    `session` makes the application's session for a master's URL. `python` is an interpreter that has kafkalog, if one
    is known, which remedies name.
    """
    from spark_kafkalog.load.arguments import UsageError, client_properties

    try:
        properties = client_properties(arguments)
    except UsageError as error:
        return _complain(str(error), USAGE)
    if arguments.bootstrap_server:
        properties["bootstrap.servers"] = arguments.bootstrap_server
    return _check(lambda: session(arguments.master), properties, python, arguments.json)


def _check(session: Callable[[], SparkSession], properties: dict[str, str], python: str | None, as_json: bool) -> int:
    from spark_kafkalog.cluster.diagnosis import diagnose
    from spark_kafkalog.cluster.report import render
    from spark_kafkalog.cluster.survey import survey
    from spark_kafkalog.compat.gateway.jvm import NoJvmError
    from spark_kafkalog.compat.gateway.jvm_errors import jvm_stack_trace
    from spark_kafkalog.jobs.application import cause

    try:
        spark = session()
    except Exception as error:  # noqa: BLE001  it is reported
        return _complain(f"the application did not start: {cause(str(error), jvm_stack_trace(error))}", WRONG)
    try:
        found = survey(spark, properties, python)
    except NoJvmError as error:
        return _complain(str(error), WRONG)
    findings = diagnose(found)
    if as_json:
        # Settings of the application may have passwords.
        facts: dict[str, Any] = {
            "driver": asdict(found.driver),
            "executors": [asdict(each) for each in found.executors],
        }
        print(json.dumps(facts | {"findings": [asdict(each) for each in findings]}))
    else:
        print(render(found, findings), flush=True)
    return WRONG if any(each.is_problem for each in findings) else OK


def _complain(message: str, code: int) -> int:
    print(f"kafkalog: {message}", file=sys.stderr, flush=True)
    return code
