"""Run Spark's standalone cluster: a master, and workers on addresses of their own, from the installed PySpark."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from peers.process import Process, tail
from peers.server import Server

START_DEADLINE_S = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_DAEMON_MEMORY = "192m"
_OF_PYTHON = (
    "PYTHONPATH",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "VIRTUAL_ENV",
    "SPARK_CONF_DIR",
    "NUMBA_CACHE_DIR",
)
"""Variables that would lend this process's Python environment to the cluster."""


def spark_home() -> Path:
    """Return the directory of the installed PySpark, which is a whole installation of Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def clean_environment(**variables: str) -> dict[str, str]:
    """Return this process's environment without its Python settings, with SPARK_HOME and `variables`."""
    environment = {key: value for key, value in os.environ.items() if key not in _OF_PYTHON}
    return {**environment, "SPARK_HOME": str(spark_home()), **variables}


def _local_addresses(count: int) -> list[str]:
    """Return addresses of this machine, a different one for each worker where the system has several (Linux)."""
    found = []
    for number in range(count):
        address = f"127.0.0.{number + 2}"
        try:
            with socket.socket() as probe:
                probe.bind((address, 0))
        except OSError:
            address = "127.0.0.1"
        found.append(address)
    return found


class StandaloneCluster(Server):
    """A master and workers with one core each, as a context manager.

    Args:
        directory: Where logs and the applications' files go; by default a temporary directory.
        environments: For each worker, variables that its executors have in their environment.
        memory: What a worker lends to executors.
        jvm_options: Options for the JVMs of master and workers, separated by blanks.
    """

    def __init__(
        self,
        directory: Path | None = None,
        environments: Sequence[Mapping[str, str]] | None = None,
        memory: str = "1g",
        jvm_options: str = _JVM,
    ) -> None:
        super().__init__(directory, "spark-cluster-")
        self._environments = list(environments if environments is not None else [{}, {}])
        self._memory = memory
        self._of_daemons = {"SPARK_DAEMON_JAVA_OPTS": jvm_options, "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY}
        self._stack = ExitStack()
        self.master = ""
        self.hosts = _local_addresses(len(self._environments))

    def start(self) -> None:
        """Start; return when all workers have registered.

        Raises:
            PeerFailedError: A process ends, or is not ready in time.
        """
        log = self.directory / "master.log"
        words = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        process = self._run(_MASTER, words, log, {})
        process.wait_until(lambda: _ADDRESS.search(tail(log, 1 << 20)) is not None, START_DEADLINE_S)
        found = _ADDRESS.search(tail(log, 1 << 20))
        assert found is not None
        self.master = found[1]
        started = []
        for number, (host, environment) in enumerate(zip(self.hosts, self._environments, strict=True)):
            log = self.directory / f"worker{number}.log"
            words = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", self._memory]
            work = str(self.directory / f"work{number}")
            started.append((self._run(_WORKER, [*words, "--work-dir", work, self.master], log, environment), log))
        for process, log in started:
            process.wait_until(lambda log=log: _REGISTERED in tail(log, 1 << 20), START_DEADLINE_S)  # type: ignore[misc]

    def _run(self, main: str, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
        unset = [word for name in _OF_PYTHON for word in ("-u", name)]
        command = ["env", *unset, str(spark_home() / "bin" / "spark-class"), main, *words]
        process = Process(
            command,
            log,
            env={**self._of_daemons, "SPARK_HOME": str(spark_home()), **environment},
        )
        self._stack.callback(process.kill)
        return process

    def stop(self) -> None:
        """End all processes, executors too: they are in the workers' process groups."""
        self._stack.close()

    def remove_applications(self) -> None:
        """Remove what the executors of ended applications have left, such as archives that they unpacked."""
        for path in self.directory.glob("work*/*"):
            shutil.rmtree(path, ignore_errors=True)
