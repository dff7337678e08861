"""Run HDFS: a NameNode and a DataNode in one JVM, from Hadoop's artifacts, in the version that PySpark ships."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from peers.clusters import hadoop
from peers.clusters.hadoop import HADOOP, START_DEADLINE_S
from peers.process import Process
from peers.server import Server
from peers.toolchains import java, maven

SOURCE = Path(__file__).with_name("MiniHdfs.java")
COORDINATES = (
    f"org.apache.hadoop:hadoop-hdfs:{HADOOP}",
    f"org.apache.hadoop:hadoop-hdfs-client:{HADOOP}",
    f"org.apache.hadoop:hadoop-common:{HADOOP}",
)
_WEBAPPS = tuple(f"webapps/{name}" for name in ("hdfs", "datanode", "static"))


def missing() -> str | None:
    """Return why HDFS cannot run here, or None. The first call fetches it."""
    return hadoop.missing(_classes)


def _classes() -> Path:
    """Compile the starter; return its directory, with the folders that the servers need beside their jars."""
    return hadoop.compiled("hdfs", SOURCE, COORDINATES, _WEBAPPS)


class Hdfs(Server):
    """One HDFS, as a context manager. `settings` are keys of `hdfs-site.xml`."""

    def __init__(self, directory: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, "hdfs-")
        self.settings = dict(settings or {})
        self.log = self.directory / "hdfs.log"
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """Return host:port of the NameNode."""
        return (self.directory / "address").read_text()

    @property
    def url(self) -> str:
        return f"hdfs://{self.address}"

    def start(self) -> None:
        """Start; return when the DataNode has registered."""
        ready = self.directory / "address"
        ready.unlink(missing_ok=True)
        classpath = [_classes(), *maven.classpath(COORDINATES)]
        arguments = [str(self.directory), *(f"{key}={value}" for key, value in self.settings.items())]
        options = ["-Xmx384m", *hadoop.JVM]
        self._process = Process(java.java_line(classpath, "MiniHdfs", arguments, options), self.log)
        self._process.wait_until(ready.exists, START_DEADLINE_S)

    def stop(self) -> None:
        """End the JVM; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process = None
