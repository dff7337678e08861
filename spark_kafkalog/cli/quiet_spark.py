"""A local Spark session that leaves the terminal to the command that runs it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def quiet_session(name: str, directory: Path, master: str = "local[*]", *, own_python: bool = True) -> Any:
    """Return a session whose JVM logs to `directory/spark.log`.

    Its workers run this Python, or with `own_python=False` the one that the environment names.
    """
    from pyspark.sql import SparkSession

    from spark_kafkalog.redaction import hide_secrets

    log = directory / "spark.log"
    settings = directory / "log4j2.properties"
    settings.write_text(LOG4J.format(log=log))
    if own_python:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.appName(name)
        .master(master)
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{settings}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        # The figures at the end are sums over every progress report.
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
    )
    if master.startswith("local"):
        # The executors of a cluster must reach the driver.
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("ab") as file:
        # The JVM's launcher prints to standard error before its logging is set up; the log file gets that too.
        os.dup2(file.fileno(), 2)
        try:
            with _signals_held():
                spark = builder.getOrCreate()
            hide_secrets(spark)
            return spark
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back signals that end the command until Spark is up: a JVM whose start is cut short outlives the command.

    This uses handlers, not a mask: a signal that the main thread blocks goes to any other thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda caught, _: came.append(caught))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in dict.fromkeys(came):
            os.kill(os.getpid(), caught)
