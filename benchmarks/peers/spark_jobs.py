"""The other end of `benchmarks.peers.spark`: a Spark in this process that answers the orders of a benchmark."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.spark import GIVEN
from tests.spark_kafkalog.session import start_session

DRIVER_MEMORY = "2g"


def serve(
    run: Callable[[Any, dict[str, Any], Path], object],
    directory: str,
    jars: str = "",
    *,
    prepare: Callable[[Any], object] | None = None,
) -> None:
    """Run the orders that come as lines of JSON on standard input; answer each with a line of JSON.

    The environment variable GIVEN may have settings of Spark, and the program that Spark runs as Python.

    Args:
        run: Takes the session, an order and a directory for files; returns the answer.
        directory: Where the directory for files is made.
        jars: The jars of Spark's connector, separated by commas; none for kafkalog's source.
        prepare: Called with the session before the first order.
    """
    own = Path(tempfile.mkdtemp(dir=directory))
    given = json.loads(os.environ.get(GIVEN, "{}"))
    options = {"spark.driver.memory": DRIVER_MEMORY, **given.get("settings", {})}
    if jars:
        options["spark.jars"] = jars
    spark = start_session(own, options, measured=True, python=given.get("python"))
    if prepare is not None:
        prepare(spark)
    for line in sys.stdin:
        print(json.dumps(run(spark, json.loads(line), own)), flush=True)
    spark.stop()
