"""A small and quiet local Spark session, for tests and for the processes that tests start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

_LOG4J2 = """status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c: %m%n
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
"""


def session_options(directory: Path) -> dict[str, str]:
    """Settings of the session; its log goes to ``directory``/spark.log."""
    config = directory / "log4j2.properties"
    config.write_text(_LOG4J2.format(log=directory / "spark.log"))
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        # Sessions of tests are short: they spend less on compiling well than they would gain by it.
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile=file:{config}"
        ),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.streaming.stopTimeout": "60000",
    }


def start_session(directory: Path, options: dict[str, str] | None = None) -> SparkSession:
    """local[2]; Python workers run on this interpreter."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master("local[2]").appName("kafkalog tests")
    for key, value in (session_options(directory) | (options or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
