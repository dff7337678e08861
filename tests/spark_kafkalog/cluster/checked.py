"""An application that checks itself as `kafkalog spark check` does, and then reads a topic in earnest.

Arguments: the file of the check, bootstrap server, topic. Prints the check's exit code and findings, and the rows that
were counted or the error, as JSON. It imports PySpark alone.
"""

import contextlib
import io
import json
import runpy
import sys

from pyspark.sql import SparkSession


def main() -> None:
    check, bootstrap, topic = sys.argv[1:]
    spark = SparkSession.builder.appName("checked").getOrCreate()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = runpy.run_path(check)["main"](["--bootstrap-server", bootstrap, "--json"])
    # So many tasks that no executor comes too late for one.
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "minPartitions": "24"}
    rows, error = None, None
    try:
        rows = spark.read.format("kafkalog").options(**options).load().count()
    except Exception as failed:
        error = str(failed)
    print(json.dumps({"code": code, "rows": rows, "error": error, **json.loads(printed.getvalue().splitlines()[-1])}))


if __name__ == "__main__":
    main()
