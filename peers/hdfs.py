"""Run HDFS: a NameNode and a DataNode in one JVM, from Hadoop's artifacts, in the version that PySpark ships."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from peers import java, maven
from peers.cache import MissingPeerError, cached
from peers.process import Process

HADOOP = "3.5.0"
SOURCE = Path(__file__).with_name("MiniHdfs.java")
COORDINATES = (
    f"org.apache.hadoop:hadoop-hdfs:{HADOOP}",
    f"org.apache.hadoop:hadoop-hdfs-client:{HADOOP}",
    f"org.apache.hadoop:hadoop-common:{HADOOP}",
)
START_DEADLINE_S = 120.0
_WEBAPPS = ("hdfs", "datanode", "static")
_LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


def missing() -> str | None:
    """Return why HDFS cannot run here, or None. The first call fetches it."""
    if reason := java.missing() or java.compiler_missing():
        return reason
    try:
        _classes()
    except MissingPeerError as error:
        return str(error)
    return None


def _classes() -> Path:
    """Compile the starter; return its directory, with the files that the servers need beside their jars."""

    def compile_into(directory: Path) -> None:
        java.compile_java(maven.classpath(COORDINATES), SOURCE, directory)
        for name in _WEBAPPS:
            (directory / "webapps" / name).mkdir(parents=True)
        (directory / "log4j.properties").write_text(_LOG4J)

    return cached(f"hdfs/{HADOOP}-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]}", compile_into)


class Hdfs:
    """One HDFS, as a context manager. `settings` are keys of `hdfs-site.xml`."""

    def __init__(self, directory: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="hdfs-"))
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
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._process = Process(java.java_line(classpath, "MiniHdfs", arguments, options), self.log)
        self._process.wait_until(ready.exists, START_DEADLINE_S)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
