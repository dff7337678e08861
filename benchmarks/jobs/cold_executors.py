"""One Spark of `benchmarks.cold_executors`.

    python -m benchmarks.jobs.cold_executors DIRECTORY BOOTSTRAP TOPIC EXECUTORS

It waits for the executors, lets them run a query without Python, and prints the seconds of the first and the second
query over the topic as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from tests.spark_kafkalog.session import start_session

DEADLINE_S = 120.0


def main(directory: str, bootstrap: str, topic: str, executors: int) -> None:
    spark = start_session(
        Path(directory),
        {
            "spark.master": f"local-cluster[{executors},1,1024]",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.executorEnv.HOME": os.environ["HOME"],
            "spark.driver.extraJavaOptions": f"-Duser.home={directory}",
            "spark.driver.memory": "1g",
        },
    )
    status = spark.sparkContext._jsc.sc()
    end = time.monotonic() + DEADLINE_S
    while status.getExecutorMemoryStatus().size() <= executors:
        if time.monotonic() > end:
            raise TimeoutError(f"{executors} executors did not start in {DEADLINE_S:g} s")
        time.sleep(0.05)
    spark.range(executors * 1000).repartition(executors).selectExpr("sum(id)").collect()
    times = []
    for _ in range(2):
        began = time.monotonic()
        frame = spark.read.format("kafkalog").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        frame.load().selectExpr("sum(length(value))").collect()
        times.append(time.monotonic() - began)
    spark.stop()
    print(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
