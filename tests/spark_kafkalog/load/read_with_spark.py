"""Read a topic's loads with Spark; print rows, the sum of the offsets and the sum of the values as JSON.

python -m tests.spark_kafkalog.load.read_with_spark DIRECTORY URL
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.spark_kafkalog.session import start_session

PARTITION_COLUMNS = ["load", "date", "hour"]


def main(directory: str, url: str) -> None:
    spark = start_session(Path(tempfile.mkdtemp(dir=directory)))
    frame = spark.read.parquet(url)
    if frame.columns[-3:] != PARTITION_COLUMNS:
        raise AssertionError(f"Spark sees the columns {frame.columns}")
    row = frame.selectExpr("count(*)", "sum(offset)", "sum(CAST(CAST(value AS STRING) AS BIGINT))").first()
    assert row is not None
    print(json.dumps(list(row)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
