"""Run Apache Kafka: a broker with its production defaults, and its Java tools.

The broker runs as the distribution's scripts run it, with the flags of `kafka-run-class.sh`, the heap of
`kafka-server-start.sh` and the settings of `config/server.properties`. One KRaft node is broker and controller.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from peers.brokers import class_data, probe, storage
from peers.cache import cached, why_missing
from peers.process import PeerFailedError, Process, free_port
from peers.server import Server
from peers.toolchains import java, maven

# The newest release of each line that is complete on Maven Central (4.4.0 lacks kafka-tools there).
KAFKA_4 = "4.3.1"
KAFKA_3 = "3.9.2"
VERSIONS = (KAFKA_4, KAFKA_3)
# The last line whose broker writes every message format; it runs with ZooKeeper.
KAFKA_2 = "2.8.2"
# The first line with record batches, transactions and headers, which is the oldest one for our clients.
KAFKA_0 = "0.11.0.3"

START_DEADLINE_S = 120.0
_START_TRIES = 3

# The logging back end that each distribution ships, so that a broker's last messages are in its log.
_LOGGING = {
    # It brings its own, but lacks a package that Java had up to version 8.
    "0": ("javax.xml.bind:jaxb-api:2.3.1",),
    "2": ("org.slf4j:slf4j-reload4j:1.7.36",),
    "3": ("org.slf4j:slf4j-reload4j:1.7.36",),
    "4": ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4", "org.apache.logging.log4j:log4j-core:2.25.4"),
}
_RELOAD4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""
_LOG4J2 = """status=error
appender.out.type=Console
appender.out.name=out
appender.out.target=SYSTEM_ERR
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
"""

# kafka-run-class.sh, KAFKA_JVM_PERFORMANCE_OPTS and KAFKA_JMX_OPTS
JVM_DEFAULTS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
# Further options of all JVMs. Tests add options for less compilation; benchmarks add none.
JVM_EXTRA: list[str] = []
# The releases whose brokers start from an archive of `class_data`. Tests add some; benchmarks add none.
WITH_CLASS_DATA: set[str] = set()
# Further settings of all brokers, which those of a single broker override. Tests add some; benchmarks add none.
SETTINGS_EXTRA: dict[str, str] = {}
# kafka-server-start.sh, KAFKA_HEAP_OPTS
SERVER_HEAP = ("-Xmx1G", "-Xms1G")
# kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh
TOOL_HEAP = ("-Xmx512M",)
# config/server.properties, apart from names, ports and directories
SERVER_DEFAULTS = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
    # Records of tests have timestamps of years ago: a broker that lives for minutes would delete them.
    "log.retention.ms": "-1",
}
_SHARE_DEFAULTS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def coordinates(version: str) -> list[str]:
    """Return the Maven coordinates of the broker and the tools of `version`."""
    line = version.split(".")[0]
    # The tools are in the broker's jar before 3.0.
    tools = [f"org.apache.kafka:kafka-tools:{version}"] if int(line) >= 3 else []
    scala = "2.11" if version == KAFKA_0 else "2.13"
    return [f"org.apache.kafka:kafka_{scala}:{version}", *tools, *_LOGGING[line]]


def kafka_classpath(version: str) -> list[Path]:
    """Return the jars of the broker, clients and tools.

    Raises:
        MissingPeerError: They cannot be fetched.
    """
    return maven.classpath(coordinates(version))


def missing(version: str = KAFKA_4) -> str | None:
    """Return why Apache Kafka `version` cannot run here, or None. The first call fetches it."""
    return java.missing() or why_missing(lambda: kafka_classpath(version))


def streams_classpath() -> list[Path]:
    """Return the jars of Kafka Streams.

    Raises:
        MissingPeerError: They cannot be fetched.
    """
    return maven.classpath([f"org.apache.kafka:kafka-streams:{KAFKA_3}", *_LOGGING["3"]])


def streams_missing() -> str | None:
    """Return why Kafka Streams cannot run here, or None. The first call fetches it."""
    return java.missing() or why_missing(streams_classpath)


def mirror_classpath() -> list[Path]:
    """Return the jars of MirrorMaker 2 and its client.

    Raises:
        MissingPeerError: They cannot be fetched.
    """
    return maven.classpath([f"org.apache.kafka:connect-mirror:{KAFKA_3}", *_LOGGING["3"]])


def mirror_missing() -> str | None:
    """Return why the classes of MirrorMaker 2 cannot run here, or None. The first call fetches them."""
    return java.missing() or why_missing(mirror_classpath)


def mirror_line(properties: Path) -> list[str]:
    """Return the command of MirrorMaker 2 as a process of its own; the caller starts it.

    It has the heap of `connect-mirror-maker.sh`.
    """
    options = ["-Xms256M", "-Xmx2G", *JVM_DEFAULTS, *JVM_EXTRA, *logging_options(KAFKA_3, tool_directory(KAFKA_3))]
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return java.java_line(mirror_classpath(), main, [str(properties)], options)


def logging_options(version: str, directory: Path) -> list[str]:
    """Return JVM options that log warnings to standard error; write their file into `directory`."""
    if not version.startswith("4"):
        file = directory / "log4j.properties"
        file.write_text(_RELOAD4J)
        return [f"-Dlog4j.configuration=file:{file}"]
    file = directory / "log4j2.properties"
    file.write_text(_LOG4J2)
    return [f"-Dlog4j2.configurationFile={file}"]


def tool_directory(version: str) -> Path:
    """Return the directory with the logging configuration of the Java tools of `version`."""
    directory = cached("logging", lambda directory: None) / version
    directory.mkdir(exist_ok=True)
    return directory


def tool_line(
    main: str,
    args: Sequence[str],
    version: str = KAFKA_4,
    *,
    heap: Sequence[str] = TOOL_HEAP,
    classes: Sequence[Path] = (),
) -> list[str]:
    """Return the command of a Java tool; the caller starts the process.

    `classes` are directories with classes beside those of Kafka.
    """
    options = [*heap, *JVM_DEFAULTS, *JVM_EXTRA, *logging_options(version, tool_directory(version))]
    return java.java_line([*kafka_classpath(version), *classes], main, args, options)


def run_java_tool(
    main: str,
    args: Sequence[str],
    version: str = KAFKA_4,
    *,
    stdin: str | None = None,
    timeout_s: float = 600.0,
) -> str:
    """Run a tool, such as `kafka.tools.DumpLogSegments`; return its output.

    Raises:
        RuntimeError: The exit code is not 0. The text has the output.
    """
    command = tool_line(main, args, version)
    at = command.index("-cp")
    jars = [Path(jar) for jar in command[at + 1].split(":")]
    return java.run_java(jars, main, args, jvm=command[1:at], stdin=stdin, timeout_s=timeout_s)


class ApacheKafka(Server):
    """One Apache Kafka broker, as a context manager.

    Args:
        version: The release to run.
        directory: Where its data goes; by default a temporary directory that is removed at the end.
        config: Overrides single settings.
        heap: The JVM's options for its heap.
        defaults: The settings that `config` overrides.
        listeners: Listeners beside PLAINTEXT, by name, each with its security protocol.
        format_options: Further options of `kafka-storage format`, such as `--add-scram`.
        jvm: Further options of the broker's JVM.

    Attributes:
        bootstrap: The address of the plaintext listener, "127.0.0.1:port", from `prepare` on.
        addresses: The addresses of `listeners`, by name, from `prepare` on.
        log_dir: The directory with the segments.
    """

    def __init__(
        self,
        version: str = KAFKA_4,
        *,
        directory: Path | None = None,
        config: Mapping[str, str] | None = None,
        heap: Sequence[str] = SERVER_HEAP,
        defaults: Mapping[str, str] = SERVER_DEFAULTS,
        listeners: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
        jvm: Sequence[str] = (),
    ) -> None:
        super().__init__(directory, "apache-kafka-")
        self.version = version
        self.config = dict(config or {})
        self.defaults = dict(defaults)
        self.heap = tuple(heap)
        self.bootstrap = ""
        self.addresses: dict[str, str] = {}
        self._listeners = dict(listeners or {})
        self._format_options = tuple(format_options)
        self._jvm = tuple(jvm)
        self.log_dir = self.directory / "data"
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process.pid

    @property
    def log(self) -> Path:
        """Return the broker's warnings and errors."""
        return self.directory / "broker.log"

    def start(self, *, wait: bool = True) -> None:
        """Format the directory if it is new, and start the broker; return when it responds (at once with wait=False).

        If another process takes the chosen port first, choose another port.
        """
        for attempt in range(1, _START_TRIES + 1):
            self.launch()
            if not wait:
                return
            try:
                self.process.wait_until(lambda: probe.answers(self.bootstrap), START_DEADLINE_S)
                return
            except PeerFailedError as error:
                self.stop()
                if attempt == _START_TRIES or "Address already in use" not in str(error):
                    raise

    @property
    def process(self) -> Process:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process

    def prepare(self) -> None:
        """Write the properties and format the storage, without starting."""
        self.directory.mkdir(parents=True, exist_ok=True)
        port, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        self.addresses = {name: f"127.0.0.1:{free_port()}" for name in self._listeners}
        open_to_clients = [f"{name}://{at}" for name, at in {"PLAINTEXT": self.bootstrap, **self.addresses}.items()]
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **self._listeners}
        properties = {
            **self.defaults,
            **SETTINGS_EXTRA,
            **({} if self.version.startswith("3") else _SHARE_DEFAULTS),
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": ",".join([*open_to_clients, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(open_to_clients),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{name}:{of}" for name, of in protocols.items()),
            "log.dirs": str(self.log_dir),
            **self.config,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        storage.fill(self.log_dir, self.version, self._format_options, run_java_tool)

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    def launch(self) -> None:
        """Prepare and start the process, without waiting for a response."""
        self.prepare()
        self.exec()

    def exec(self) -> None:
        """Start the prepared broker, without waiting."""
        gc_log = f"-Xlog:gc*:file={self.directory}/gc.log:time,tags:filecount=10,filesize=100M"
        logs = [gc_log, *logging_options(self.version, self.directory)]
        jars = kafka_classpath(self.version)
        archived = class_data.options(jars) if self.version in WITH_CLASS_DATA else []
        options = [*self.heap, *JVM_DEFAULTS, *JVM_EXTRA, *archived, *self._jvm, *logs]
        command = java.java_line(jars, "kafka.Kafka", [str(self.properties)], options)
        self._process = Process(command, self.log)

    def restart(self) -> None:
        """Start again after `stop` or `kill`, with the same ports; return when the broker responds."""
        self.exec()
        self.process.wait_until(lambda: probe.answers(self.bootstrap), START_DEADLINE_S)

    def stop(self) -> None:
        """Send SIGTERM for a clean shutdown; send SIGKILL if that takes too long."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """Send SIGKILL if it runs; the log directory stays as a crash leaves it."""
        if self._process is not None:
            self._process.kill()
            self._process = None


class ZooKeeperKafka(ApacheKafka):
    """A broker of 2.x or 3.x with a ZooKeeper at `address`. Its `broker.id` is 0 unless `config` sets another."""

    def __init__(
        self,
        version: str,
        address: str,
        *,
        directory: Path,
        config: Mapping[str, str] | None = None,
        heap: Sequence[str] = SERVER_HEAP,
        jvm: Sequence[str] = (),
    ) -> None:
        super().__init__(version, directory=directory, config=config, heap=heap, jvm=jvm)
        self._zookeeper = address

    def prepare(self) -> None:
        """Write the properties; the broker makes the directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        properties = {
            **self.defaults,
            **SETTINGS_EXTRA,
            "broker.id": "0",
            "zookeeper.connect": self._zookeeper,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(self.log_dir),
            **self.config,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend the process; its files are as SIGKILL would leave them at this moment."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)
