"""Run jobs as users do: through PySpark's own `spark-submit`, in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]
import pyspark

import spark_kafkalog.jobs
from peers.process import Process, tail
from tests.spark_kafkalog.session import session_options

DEADLINE_S = 240.0
JOBS = Path(spark_kafkalog.jobs.__file__).parent
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


class Done(NamedTuple):
    """A job that has ended."""

    code: int
    output: str
    """Standard output; spark-submit also writes its application's standard error to it."""
    errors: str

    @property
    def figures(self) -> dict[str, Any]:
        """Return the output of `--json`."""
        found: dict[str, Any] = json.loads(self.output.splitlines()[-1])
        return found


def command(job: str, directory: Path, *options: str, settings: Mapping[str, str] | None = None) -> list[str]:
    """Return the command line of a job; Spark's own files go to `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    given = session_options(directory) | dict(settings or {})
    words = [word for item in given.items() for word in ("--conf", "=".join(item))]
    return [str(SPARK_SUBMIT), "--master", "local[2]", *words, str(JOBS / f"{job}.py"), *options]


def environment() -> dict[str, str]:
    """Return an environment in which spark-submit runs this Python and finds its PySpark."""
    home = str(Path(pyspark.__file__).parent)
    return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": home}


def submit(job: str, directory: Path, *options: str, settings: Mapping[str, str] | None = None) -> Done:
    """Run a job to its end, with further settings of Spark."""
    done = subprocess.run(
        command(job, directory, *options, settings=settings),
        env=os.environ | environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def submit_and_kill(job: str, directory: Path, middle: Callable[[], bool], *options: str) -> None:
    """Start a job, and SIGKILL all of its processes (JVM, driver, planner, workers) as soon as `middle()`."""
    words = command(job, directory, *options)
    with Process(words, directory / "killed.out", env=environment()) as process:
        process.wait_until(middle, DEADLINE_S, poll_s=0.005)
        assert process.running, f"it ended before it could be killed:\n{tail(process.log)}"
        end = time.monotonic() + DEADLINE_S
        while alive := _of_session(process.pid):
            assert time.monotonic() < end, f"still alive: {alive}"
            for each in alive:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            psutil.wait_procs(alive, timeout=0.2)
        process.wait(DEADLINE_S)


def _of_session(leader: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def committed(checkpoint: Path) -> int:
    """Return the micro-batches that a query has committed."""
    commits = checkpoint / "commits"
    return sum(1 for each in commits.iterdir() if each.name.isdigit()) if commits.is_dir() else 0
