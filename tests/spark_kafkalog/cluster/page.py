"""Run the commands of docs/how-to/on-a-cluster.md as they stand there, with the names of this cluster in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from peers.clusters.spark_cluster import clean_environment, spark_home
from tests.spark_kafkalog.cluster.environments import site_packages
from tests.spark_kafkalog.cluster.submitting import SETTINGS, with_path
from tests.support.sources.pages import DOCS, Shown, commands

PAGE = "how-to/on-a-cluster.md"
DEADLINE_S = 400.0
_REGISTERS = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COUNT = """
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
{register}
options = {{"kafka.bootstrap.servers": "{bootstrap}", "subscribe": "{topic}"}}
rows = spark.read.format("kafkalog").options(**options).load().count()
Path("{result}").write_text(str(rows))
"""


class Page:
    """The page's commands, run in one working directory that has the page's applications.

    Args:
        directory: The working directory.
        environments: Interpreters by name.
        master: The cluster.
        bootstrap: The broker.
        topic: What the applications count.
        settings: Spark's settings, beside those of all tests.
    """

    def __init__(
        self,
        directory: Path,
        environments: dict[str, Path],
        master: str,
        bootstrap: str,
        topic: str,
        settings: dict[str, str],
    ) -> None:
        self._directory = directory
        self._result = directory / "result"
        right = environments["with"]
        self._replaced = {
            "/opt/kafkalog/lib/python3.11/site-packages": str(site_packages(right.parents[1])),
            "/opt/kafkalog/bin/python": str(right),
            "/opt/python/bin/python": str(environments["without"]),
            "spark://master:7077": master,
            "broker:9092": bootstrap,
            # Good compression would take most of the test's time, and none much memory.
            "spark pack -o kafkalog-env": "spark pack --compression-level 1 -o kafkalog-env",
        }
        configuration, programs = directory / "spark-conf", directory / "programs"
        for each in (configuration, programs):
            each.mkdir(parents=True)
        lines = [f"{key} {value}\n" for key, value in (SETTINGS | settings).items()]
        (configuration / "spark-defaults.conf").write_text("".join(lines))
        self._program(programs / "kafkalog", f'exec {environments["spark"]} -m kafkalog.cli.main "$@"')
        self._program(programs / "spark-submit", f'exec {spark_home()}/bin/spark-submit "$@"')
        self.environment = clean_environment(PATH=with_path(programs), SPARK_CONF_DIR=str(configuration))
        [registering] = _REGISTERS.findall((DOCS / PAGE).read_text())
        for name, register in (("app.py", ""), ("registers.py", registering)):
            text = _COUNT.format(register=register, bootstrap=bootstrap, topic=topic, result=self._result)
            (directory / name).write_text(text)

    @staticmethod
    def _program(path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def commands(self, *, without: str) -> list[Shown]:
        """Return the page's commands, but for those that have a text in them."""
        return [each for each in commands(PAGE, "") if without not in each.command]

    def run(self, command: str, **variables: str) -> tuple[str, str | None]:
        """Run a command; return what it printed, and the rows that an application has counted, if one did."""
        for old, new in self._replaced.items():
            command = command.replace(old, new)
        self._result.unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._directory,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return done.stdout, self._result.read_text() if self._result.exists() else None
