"""Run Spark's own from_avro on values, in a separate Spark that has Spark's Avro module.

    python -m tests.spark_kafkalog.values.avro.spark_from_avro DIRECTORY JAR < order

The order is JSON: schema (an Avro schema) and values (hex); the answer too: the type's short form, and each row's repr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql.avro.functions import from_avro

from tests.spark_kafkalog.session import start_session


def main(directory: str, jar: str) -> None:
    order = json.load(sys.stdin)
    spark = start_session(Path(directory), {"spark.jars": jar})
    frame = spark.createDataFrame([(bytearray.fromhex(each),) for each in order["values"]], "value BINARY")
    made = frame.select(from_avro("value", json.dumps(order["schema"])).alias("value"))
    kind = made.schema["value"].dataType.simpleString()
    print(json.dumps({"type": kind, "rows": [repr(row.value) for row in made.collect()]}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
