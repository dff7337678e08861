"""A Spark in a process of its own, kept warm, that runs jobs on demand: PySpark 4.2, for which the connector fits."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.processes import cpu_seconds

GIVEN = "KAFKALOG_BENCHMARK"
"""A variable with JSON of `settings` of Spark, and of the program that it runs as Python (`python`)."""
ROOT = Path(__file__).parents[2]


class SparkProcess:
    """Runs `python -m module directory jars`, which answers lines of JSON on its input with lines of JSON."""

    def __init__(
        self,
        name: str,
        module: str,
        directory: Path,
        python: Path,
        jars: Sequence[Path],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        environment = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYTHONPATH")}
        environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
        environment |= variables or {}
        self._errors = directory / f"{name}.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", module, str(directory), ",".join(map(str, jars))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=environment,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, order: Mapping[str, Any]) -> Any:
        """Return the answer to an order.

        Raises:
            RuntimeError: The process has ended instead. The text has its last words.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            raise RuntimeError(f"the Spark of {self.name} ended with {code}: {self._errors.read_text()[-3000:]}")
        return json.loads(answer)

    def cpu_seconds(self) -> float:
        """Return the user and system CPU time so far of driver, JVM and Python workers, ended ones included."""
        return cpu_seconds(self._process.pid)

    def close(self) -> None:
        """Ask the process to end; kill it if it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
