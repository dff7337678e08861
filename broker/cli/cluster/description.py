"""The description of a local cluster: a JSON file in its directory, which the commands of `kafkalog cluster` read.

The supervisor writes the file anew, in one step, whenever a process has started or ended. To have a broker started
again another command makes an empty file `start-ID`, which the supervisor removes. As long as it runs, the supervisor
holds a lock on the file `.lock`: two of them would give the same data to two servers. A file `cut-ID` asks it to cut a
broker off, or to connect it again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = "cluster.json"
LOCK = ".lock"
KINDS = {"zookeeper": ("zookeeper",), "brokers": ("brokers",), "all": ("zookeeper", "brokers"), "": ()}
"""What a broker can be cut off from, by the words of the command line, and the kinds of proxies that this takes."""
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
    """The port at which other brokers reach it, which is a proxy's."""
    cut: str = ""
    """What the broker is cut off from, one of `KINDS`."""
    cuts: int = 0
    """How often that has been set."""

    @property
    def connection(self) -> str:
        """What the broker is cut off from, in words."""
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
        return ",".join(f"127.0.0.1:{each.port}" for each in self.brokers)

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


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold the lock on a cluster's directory, which ends with this process if not before.

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


def start_request(directory: Path, broker_id: int) -> Path:
    """Return the file that asks the supervisor to start a broker again."""
    return directory / f"start-{broker_id}"


def remembered_ports(directory: Path) -> dict[int, int]:
    """Return the ports of the last time at which other brokers reached each broker; none where they are not known."""
    try:
        found = json.loads((directory / FILE).read_text())
        return {int(each["broker_id"]): int(each["link_port"]) for each in found["brokers"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def cut_request(directory: Path, broker_id: int) -> Path:
    """Return the file that asks the supervisor to cut a broker off, or to connect it again."""
    return directory / f"cut-{broker_id}"


def write_cut_request(directory: Path, broker_id: int, kind: str, seconds: float) -> None:
    """Ask the supervisor to cut a broker off from what `kind` names (`KINDS`), or (empty) to connect it again.

    Args:
        directory: The cluster's directory.
        broker_id: The broker.
        kind: What it is cut off from.
        seconds: How long; 0 for until it is told otherwise.

    Raises:
        OSError: the file cannot be written.
    """
    part = directory / f".cut-{broker_id}"
    part.write_text(json.dumps([kind, seconds]))
    part.replace(cut_request(directory, broker_id))


def read_cut_request(directory: Path, broker_id: int) -> tuple[str, float] | None:
    """Take the request to cut a broker off, if there is one that can be read.

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
