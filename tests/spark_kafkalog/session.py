"""A small and quiet local Spark session, for tests and for the processes that they start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark_kafkalog.class_data import short_lived

_LOG4J2 = """status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c: %m%n
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
"""


def session_options(directory: Path, *, measured: bool = False) -> dict[str, str]:
    """Return settings of the session; its log goes to `directory`/spark.log."""
    config = directory / "log4j2.properties"
    config.write_text(_LOG4J2.format(log=directory / "spark.log"))
    jvm = "" if measured else short_lived()
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{jvm} -Dlog4j2.configurationFile=file:{config}",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.streaming.stopTimeout": "60000",
    }


def start_session(
    directory: Path, options: dict[str, str] | None = None, *, measured: bool = False, python: str | None = None
) -> SparkSession:
    """Start a session with local[2]; Spark runs this interpreter, or the program `python`."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python or sys.executable
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master("local[2]").appName("kafkalog tests")
    for key, value in (session_options(directory, measured=measured) | (options or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
