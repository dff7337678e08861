"""The description of a local cluster: a JSON file in its directory, which the commands of `kafkalog cluster` read.

The supervisor replaces the file whenever a process has started or ended. Other commands make files to ask it for
something, and it removes them. An empty file `start-ID` asks it to start a broker again. A file `cut-ID` asks it to cut
a broker off, or to connect it again.

As long as the supervisor runs, it holds a lock on the file `.lock`. Two supervisors would give the same data to two
servers.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from broker.system.announcing import ready_line

FILE = "cluster.json"
LOCK = ".lock"
KINDS = {"zookeeper": ("zookeeper",), "brokers": ("brokers",), "all": ("zookeeper", "brokers"), "": ()}
"""For each value of `cluster partition --from`, the kinds of proxies that are cut. Empty: the broker is connected."""
CUT_OFF = {
    "zookeeper": "cut off from ZooKeeper",
    "brokers": "cut off from the other brokers",
    "all": "cut off from ZooKeeper and the other brokers",
    "": "connected",
}
NOT_RUNNING = 0
"""The process id of a broker that does not run."""


class NoClusterError(Exception):
    """There is no cluster in the directory, or it is not running; the message names the remedy."""


class ClusterRunsError(Exception):
    """A cluster is running in the directory; the message names its process."""


@dataclass(slots=True)
class BrokerEntry:
    """One broker of the cluster."""

    broker_id: int
    port: int
    pid: int = NOT_RUNNING
    link_port: int = 0
    """The port of the proxy through which other brokers reach it."""
    cut: str = ""
    """A key of `KINDS`, which says from what the broker is cut off."""
    cuts: int = 0
    """The number of times that `cut` was set. It tells a command that its request was carried out."""
    starts: int = 0
    """The number of its processes so far. It tells a command the same, also if the process has ended again."""

    @property
    def connection(self) -> str:
        """The broker's connection in words, such as `cut off from ZooKeeper`."""
        return CUT_OFF[self.cut]


@dataclass(slots=True)
class Description:
    """A cluster that is running, or was."""

    supervisor: int
    """The process id of `kafkalog cluster start`."""
    zookeeper: str
    """host:port of ZooKeeper."""
    brokers: list[BrokerEntry] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap.servers`."""
        return _addresses(self.brokers)

    @property
    def informed(self) -> str:
        """The value for `bootstrap.servers` of the brokers that are not cut off. If all are cut off, it has all."""
        return _addresses([each for each in self.brokers if not each.cut] or self.brokers)

    def broker(self, broker_id: int) -> BrokerEntry:
        """Return one broker's entry.

        Raises:
            NoClusterError: the cluster has no broker with this id.
        """
        for each in self.brokers:
            if each.broker_id == broker_id:
                return each
        known = ", ".join(str(each.broker_id) for each in self.brokers)
        raise NoClusterError(f"the cluster has no broker {broker_id}; its brokers are {known}")

    def save(self, directory: Path) -> None:
        """Replace the file in `directory`.

        Raises:
            OSError: it cannot be written.
        """
        part = directory / f".{FILE}"
        part.write_text(json.dumps(asdict(self), indent=1) + "\n")
        part.replace(directory / FILE)


def _addresses(brokers: Iterable[BrokerEntry]) -> str:
    return ",".join(f"127.0.0.1:{each.port}" for each in brokers)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold the lock on a cluster's directory. The system releases it when this process ends.

    Raises:
        ClusterRunsError: another process holds it.
        OSError: the lock's file cannot be written.
    """
    # Without O_TRUNC: the file names the process that holds the lock. Children do not inherit the descriptor.
    fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 20).decode("ascii", "replace").strip()
            raise ClusterRunsError(f"a cluster is running in {directory} (process {holder or 'unknown'})") from None
        os.truncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(fd)


def load(directory: Path) -> Description:
    """Read the description of the cluster in `directory`, which must be running.

    Raises:
        NoClusterError: there is none, or it is not running.
        OSError: the file cannot be read.
    """
    try:
        found = json.loads((directory / FILE).read_text())
        description = Description(
            int(found["supervisor"]),
            str(found["zookeeper"]),
            [
                BrokerEntry(
                    int(each["broker_id"]),
                    int(each["port"]),
                    int(each["pid"]),
                    int(each["link_port"]),
                    str(each["cut"]),
                    int(each["cuts"]),
                    int(each["starts"]),
                )
                for each in found["brokers"]
            ],
        )
    except FileNotFoundError:
        raise NoClusterError(
            f"there is no cluster in {directory}: start one with `kafkalog cluster start --dir {directory}`"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise NoClusterError(f"{directory / FILE} is damaged ({error}): remove it, and start the cluster") from None
    if not is_alive(description.supervisor):
        raise NoClusterError(
            f"the cluster in {directory} is not running: start it with `kafkalog cluster start --dir {directory}`"
        )
    return description


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def log_file(directory: Path, name: str) -> Path:
    """Return the file with the messages of `ZooKeeper`, or of `broker 1`: zookeeper.log, broker-1.log."""
    return directory / f"{name.lower().replace(' ', '-')}.log"


def is_ready(directory: Path, broker_id: int, position: int) -> bool:
    """Return whether a broker says, from a position of its log file on, that it accepts connections.

    A connection to its port would prove less: another program may listen there.

    Raises:
        OSError: the file cannot be read.
    """
    ready = ready_line(broker_id).encode()
    with log_file(directory, f"broker {broker_id}").open("rb") as messages:
        messages.seek(position)
        return any(line.startswith(ready) for line in messages)


def start_request(directory: Path, broker_id: int) -> Path:
    """Return the file that asks the supervisor to start a broker again."""
    return directory / f"start-{broker_id}"


def remembered_ports(directory: Path) -> dict[int, int]:
    """Return the `link_port` of each broker as the file has it; nothing if there is no file that can be read."""
    try:
        found = json.loads((directory / FILE).read_text())
        return {int(each["broker_id"]): int(each["link_port"]) for each in found["brokers"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def cut_request(directory: Path, broker_id: int) -> Path:
    """Return the file that asks the supervisor to cut a broker off, or to connect it again."""
    return directory / f"cut-{broker_id}"


def write_cut_request(directory: Path, broker_id: int, kind: str, seconds: float) -> None:
    """Ask the supervisor to cut a broker off, or to connect it again.

    Args:
        directory: The cluster's directory.
        broker_id: The broker.
        kind: A key of `KINDS`, which says from what it is cut off; empty to connect it again.
        seconds: For how long; 0 for until the next request.

    Raises:
        OSError: the file cannot be written.
    """
    part = directory / f".cut-{broker_id}"
    part.write_text(json.dumps([kind, seconds]))
    part.replace(cut_request(directory, broker_id))


def read_cut_request(directory: Path, broker_id: int) -> tuple[str, float] | None:
    """Read and remove the request to cut a broker off; return `kind` and `seconds` of `write_cut_request`.

    Without a request, or where it cannot be read, return None.

    Raises:
        OSError: the file cannot be read or removed.
    """
    path = cut_request(directory, broker_id)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    try:
        kind, seconds = json.loads(text)
        return (kind, float(seconds)) if kind in KINDS else None
    except (ValueError, TypeError):
        return None
