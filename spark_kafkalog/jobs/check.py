"""`kafkalog spark check` as an application of a cluster: `spark-submit [Spark's options] check.py [its options]`.

It also runs where the application's Python has no kafkalog, which is one of the faults that it finds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def session(master: str | None) -> Any:
    """Return the application's session."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.appName("kafkalog spark check")
    if master is not None:
        builder = builder.master(master)
    return builder.getOrCreate()


def _interpreters() -> list[Path]:
    """Return the Python of the environment that this file is installed in, if it is one."""
    return [each / "bin" / "python" for each in Path(__file__).parents if (each / "bin" / "python").exists()]


def main(words: Sequence[str] | None = None) -> int:
    """Run the check and return its exit code."""
    python: str | None = sys.executable
    try:
        from spark_kafkalog.cluster.check import EXAMPLES, add_options, run
    except ModuleNotFoundError:
        # This file lies in an installation of kafkalog that this Python does not know.
        sys.path.append(str(Path(__file__).resolve().parents[2]))
        from spark_kafkalog.cluster.check import EXAMPLES, add_options, run

        python = next((str(each) for each in _interpreters()), None)

    parser = argparse.ArgumentParser(
        prog="check.py", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    return run(parser.parse_args(words), session, python)


if __name__ == "__main__":
    sys.exit(main())
