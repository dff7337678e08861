"""Submit applications to a cluster as users do, in a directory without sources of kafkalog."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from peers.clusters.spark_cluster import clean_environment, spark_home
from tests.spark_kafkalog.class_data import short_lived
from tests.spark_kafkalog.cluster.environments import ROOT

APPLICATION = Path(__file__).with_name("application.py")
CHECK = ROOT / "spark_kafkalog" / "jobs" / "check.py"
DEADLINE_S = 240.0
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": short_lived(),
    "spark.executor.extraJavaOptions": short_lived(),
    "spark.sql.shuffle.partitions": "2",
}


class Submitted(NamedTuple):
    """An application that has ended."""

    code: int
    output: str
    errors: str

    @property
    def told(self) -> Any:
        """The last line of the output, which is JSON."""
        assert self.code == 0, f"{self.output[-3000:]}\n{self.errors[-6000:]}"
        return json.loads(self.output.splitlines()[-1])


def command(
    master: str, file: Path, words: Sequence[str] = (), *, options: Sequence[str] = (), **settings: str
) -> list[str]:
    """Return a command line. `options` are those of spark-submit, `settings` have `_` for the dots of their names."""
    given = (
        SETTINGS
        | {"spark.driver.host": "127.0.0.1"}
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    pairs = [word for item in given.items() for word in ("--conf", "=".join(item))]
    return [str(spark_home() / "bin" / "spark-submit"), "--master", master, *pairs, *options, str(file), *words]


def submit(words: Sequence[str], directory: Path, environment: Mapping[str, str]) -> Submitted:
    """Run a command line of spark-submit with variables of the environment; return when the application has ended."""
    directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        words,
        cwd=directory,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return Submitted(done.returncode, done.stdout, done.stderr)


def with_path(*directories: Path) -> str:
    """Return a PATH that begins with directories."""
    return ":".join([*map(str, directories), os.environ["PATH"]])
