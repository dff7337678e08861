"""The load as an application of a cluster: `spark-submit [Spark's options] load.py [options of kafkalog load]`.

Spark's own options (`--master`, `--deploy-mode`, `--conf`) go before the file. kafkalog must be installed for the
Python of driver and executors (`PYSPARK_PYTHON`, docs/how-to/on-a-cluster.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any


def context(master: str | None) -> Any:
    """Return the application's SparkContext."""
    from pyspark.sql import SparkSession

    from spark_kafkalog.redaction import hide_secrets

    builder: Any = SparkSession.builder
    builder = builder.appName("kafkalog load")
    if master is not None:
        builder = builder.master(master)
    spark = builder.getOrCreate()
    hide_secrets(spark)
    return spark.sparkContext


def main(words: Sequence[str] | None = None) -> int:
    """Run a load and return its exit code."""
    from spark_kafkalog.load.arguments import EXAMPLES, add_options
    from spark_kafkalog.load.command import run

    parser = argparse.ArgumentParser(
        prog="load.py", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    return run(parser.parse_args(words), context)


if __name__ == "__main__":
    sys.exit(main())
