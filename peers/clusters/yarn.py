"""Run YARN: a ResourceManager and NodeManagers in one JVM, from Hadoop's minicluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from peers.clusters import hadoop
from peers.clusters.hadoop import HADOOP, START_DEADLINE_S
from peers.process import Process, tail
from peers.server import Server
from peers.toolchains import java, maven

SOURCE = Path(__file__).with_name("MiniYarn.java")
COORDINATES = (
    f"org.apache.hadoop:hadoop-minicluster:{HADOOP}",
    # The minicluster is made of Hadoop's tests, which find their directories by JUnit's assertions.
    "org.junit.jupiter:junit-jupiter-api:5.11.4",
)
# Hadoop's own JVM looks into classes of Java that are closed since Java 17.
_OPENS = ("java.base/java.lang", "java.base/java.util", "java.base/java.net", "java.base/java.io")


def missing() -> str | None:
    """Return why YARN cannot run here, or None. The first call fetches it."""
    return hadoop.missing(_classes)


def _classes() -> Path:
    """Compile the starter; return its directory."""
    return hadoop.compiled("yarn", SOURCE, COORDINATES)


class Yarn(Server):
    """One YARN cluster, as a context manager.

    Args:
        directory: Where logs and containers go; by default a temporary directory.
        nodes: The number of NodeManagers.
        settings: Keys of `yarn-site.xml`.
    """

    def __init__(
        self, directory: Path | None = None, nodes: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory, "yarn-")
        self._nodes = nodes
        self._settings = dict(settings or {})
        self.log = self.directory / "yarn.log"
        self._process: Process | None = None

    @property
    def configuration(self) -> Path:
        """Return the directory for HADOOP_CONF_DIR."""
        return self.directory / "conf"

    def start(self) -> None:
        """Start; return when the NodeManagers have registered."""
        classpath = [_classes(), *maven.classpath(COORDINATES)]
        arguments = [
            str(self.directory),
            str(self._nodes),
            *(f"{key}={value}" for key, value in self._settings.items()),
        ]
        opens = [word for each in _OPENS for word in ("--add-opens", f"{each}=ALL-UNNAMED")]
        options = ["-Xmx512m", *hadoop.JVM, *opens]
        command = java.java_line(classpath, "MiniYarn", arguments, options)
        # Containers find Java by this variable.
        home = Path(command[0]).resolve().parents[1]
        self._process = Process(command, self.log, env={"JAVA_HOME": str(home)}, cwd=self.directory)
        self._process.wait_until(self.configuration.is_dir, START_DEADLINE_S)

    def container_logs(self) -> str:
        """Return the last lines of what containers have written, for the message of a test that failed."""
        found = [
            *self.directory.rglob("stderr"),
            *self.directory.rglob("stdout"),
            *self.directory.rglob("prelaunch.err"),
        ]
        return "\n".join(f"{path}:\n{tail(path)}" for path in sorted(found, key=os.path.getmtime))

    def stop(self) -> None:
        """End the cluster and its containers."""
        if self._process is not None:
            # NodeManagers end their containers when they shut down in good order.
            self._process.stop()
            self._process = None
