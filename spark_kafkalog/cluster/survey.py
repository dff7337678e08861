"""Run the probe on the driver and the executors of a running application.

Executors run it by the JVM's own `RDD.pipe`, which starts a program without PySpark. So a Python that is missing, or
that is not the driver's version, gives an answer instead of a failed task.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_kafkalog.cluster import interpreters, probe
from spark_kafkalog.cluster.facts import Executor, Probe, Settings, Survey, read_executor
from spark_kafkalog.compat.gateway.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROBE_TIMEOUT_S = 120.0
EXECUTORS_DEADLINE_S = 30.0
"""The time to wait for executors that were requested and have not registered."""
_ROUNDS = 3
_PATHS = "KAFKALOG_PROBE_PATHS"
"""The variable that carries the driver's PYTHONPATH to the script."""

# `sh` finds the Python as Spark does: by PATH and working directory, with Spark's own archives before the PYTHONPATH
# of the driver and of the executor. Whatever happens, it prints one line and succeeds.
_SCRIPT = r"""
paths=
if [ -n "${SPARK_HOME:-}" ]; then
  for each in "$SPARK_HOME"/python/lib/pyspark.zip "$SPARK_HOME"/python/lib/py4j-*-src.zip; do
    paths="$paths:$each"
  done
fi
export PYTHONPATH="${paths#:}:$KAFKALOG_PROBE_PATHS:${PYTHONPATH:-}"
output=$("$1" -c "$2" 2>&1)
code=$?
printf '%s\t%s\t%s\t%s\t%s\n' "$(uname -n)" "${SPARK_EXECUTOR_ID:-}" "${SPARK_LOG_URL_STDERR:-}" "$code" \
  "$(printf '%s' "$output" | tr '\n\t' '\036 ')"
"""


def survey(spark: SparkSession, properties: Mapping[str, str], right_python: str | None) -> Survey:
    """Describe the Python of the driver and of each executor.

    `properties` are those of Kafka clients. `right_python` is an interpreter that is known to have kafkalog.

    Raises:
        NoJvmError: The session is one of Spark Connect, which has no JVM to ask.
    """
    jvm = Jvm(spark)
    environment = jvm.environment()
    command, _ = interpreters.of_sources(environment)
    conf = dict(jvm.context.getConf().getAll())
    settings = Settings(
        str(jvm.context.master),
        conf.get("spark.submit.deployMode", "client"),
        {name: environment[name] for name in interpreters.NAMES if name in environment},
        conf,
        right_python,
    )
    driver = _on_driver(jvm, command, environment, properties)
    executors, unseen = _on_executors(jvm, command, environment.get("PYTHONPATH", ""), properties)
    return Survey(settings, driver, executors, unseen, _discovery(spark))


def _words(command: str) -> list[str]:
    return ["/bin/sh", "-c", _SCRIPT, "sh", command, inspect.getsource(probe)]


def _on_driver(jvm: Jvm, command: str, environment: dict[str, str], properties: Mapping[str, str]) -> Probe:
    """Run the probe as the driver's JVM looks for sources: in its environment and working directory."""
    try:
        done = subprocess.run(
            _words(command),
            input=json.dumps(dict(properties)),
            env={**environment, _PATHS: ""},
            cwd=jvm.working_directory(),
            stdout=subprocess.PIPE,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Probe(command, problem=f"it did not end within {PROBE_TIMEOUT_S:.0f} s")
    return read_executor(command, done.stdout.rstrip("\n")).probe


def _on_executors(jvm: Jvm, command: str, paths: str, properties: Mapping[str, str]) -> tuple[list[Executor], int]:
    """Run the probe until each executor has run one; return the probes, and how many executors had none."""
    master = str(jvm.context.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        return [], 0
    found: dict[tuple[str, str], Executor] = {}
    expected = _await_executors(jvm)
    tasks = max(int(jvm.context.defaultParallelism), expected, 1)
    for _ in range(_ROUNDS):
        for line in jvm.pipe([json.dumps(dict(properties))] * tasks, _words(command), {_PATHS: paths}):
            each = read_executor(command, line)
            found.setdefault((each.host, each.number), each)
        if len(found) >= expected:
            break
    return [found[key] for key in sorted(found)], max(0, expected - len(found))


def _await_executors(jvm: Jvm) -> int:
    """Return the number of executors, as soon as those that are requested at the start are there."""
    requested = int(jvm.context.getConf().get("spark.executor.instances", "1") or 1)
    end = time.monotonic() + EXECUTORS_DEADLINE_S
    while True:
        count = jvm.executors()
        if count >= requested or time.monotonic() > end:
            return count
        time.sleep(0.1)


def _discovery(spark: SparkSession) -> str | None:
    """Let Spark look for the source; return its error, or None if it has found the source."""
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "check"}
    try:
        # Its schema is fixed: no broker is asked.
        spark.read.format("kafkalog").options(**options).load()
    except Exception as error:  # noqa: BLE001  whatever it is, it is reported
        return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return None
