"""`kafkalog cluster start`: run a cluster in the foreground, or start one of its brokers again."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from broker.cli.cluster.description import (
    NOT_RUNNING,
    ClusterRunsError,
    NoClusterError,
    held,
    is_alive,
    is_ready,
    load,
    log_file,
    start_request,
)
from broker.cli.settings import read_overrides
from broker.system.announcing import announce
from kafkalog.cli.shared.client_options import add_repeated

READY_S = 120.0
"""The longest time in seconds that a restarted broker may take until it accepts connections."""
POLL_S = 0.1
MOST_BROKERS = 20

EXAMPLES = """\
examples:
  kafkalog cluster start
  kafkalog cluster start --brokers 5 --base-port 19092 --dir /tmp/five
  kafkalog cluster start --override min.insync.replicas=1
  kafkalog cluster start 2

Without an id it runs ZooKeeper and the brokers 1, 2, 3, … until Ctrl-C, and keeps their data in the directory. With an
id it has that broker of a running cluster started again. Topics get three replicas, where there are three brokers.
"""


class _StopRequestedError(Exception):
    """A signal asks the command to end."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `start`."""
    from broker.cli.cluster import DIRECTORY

    parser = commands.add_parser(
        "start",
        help="start a cluster in the foreground, or one broker of it again",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("id", type=int, nargs="?", metavar="ID", help="the broker to start again")
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="how many brokers (default: 3)")
    parser.add_argument("--dir", type=Path, default=Path(DIRECTORY), help=f"the directory (default: {DIRECTORY})")
    parser.add_argument(
        "--base-port", type=int, default=9092, metavar="PORT",
        help="the port of the first broker; the others follow (default: 9092; 0 takes free ports)",
    )  # fmt: skip
    add_repeated(parser, "--override", metavar="KEY=VALUE", purpose="a setting of all brokers")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the cluster until a signal; 1 when it cannot start or ZooKeeper ends, 2 for wrong usage."""
    return _run_cluster(arguments) if arguments.id is None else _start_again(arguments.dir, arguments.id)


def _run_cluster(arguments: argparse.Namespace) -> int:
    from broker.cli.zookeeper.jars import MissingZooKeeperError, find_jars, find_java
    from kafkalog.java_properties import PropertiesError

    if not 1 <= arguments.brokers <= MOST_BROKERS:
        return _complain(f"--brokers {arguments.brokers}: expected 1 to {MOST_BROKERS}", 2)
    if not 0 <= arguments.base_port <= 65535 - arguments.brokers:
        return _complain(f"--base-port {arguments.base_port}: expected a port that leaves room for the brokers", 2)
    directory = arguments.dir.absolute()
    try:
        overrides = read_overrides(arguments.override)
        directory.mkdir(parents=True, exist_ok=True)
        with held(directory):
            return _supervise(directory, arguments, overrides, find_java(), find_jars())
    except PropertiesError as error:
        return _complain(str(error), 2)
    except (MissingZooKeeperError, ClusterRunsError) as error:
        return _complain(str(error), 1)
    except OSError as error:
        return _complain(f"{error.filename or directory}: {error.strerror or error}", 1)


def _supervise(
    directory: Path, arguments: argparse.Namespace, overrides: dict[str, str], java: str, jars: list[Path]
) -> int:
    """Run the processes until a signal; the directory is held."""
    from broker.cli.cluster.supervisor import ClusterFailedError, Supervisor, choose_ports
    from broker.cli.zookeeper.server import with_ports

    zookeeper = with_ports(
        {
            "dataDir": str(directory / "zookeeper"),
            "clientPort": "0",
            "clientPortAddress": "127.0.0.1",
            "tickTime": "500",
            "admin.enableServer": "false",
        }
    )
    supervisor = None
    ending = ending_signals()
    try:
        for number in ending:
            signal.signal(number, _stop)
        ports = choose_ports(arguments.base_port, arguments.brokers)
        supervisor = Supervisor(directory, ports, java, jars, zookeeper, overrides, announce)
        supervisor.start(os.getpid())
        announce(f"the cluster is accepting connections on {supervisor.description.bootstrap}")
        supervisor.watch()
    except _StopRequestedError:
        return 0
    except ClusterFailedError as error:
        return _complain(str(error), 1)
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_IGN)
        if supervisor is not None:
            supervisor.stop()
    return 1


def _start_again(directory: Path, broker_id: int) -> int:
    try:
        before = load(directory).broker(broker_id)
        if before.pid != NOT_RUNNING and is_alive(before.pid):
            return _complain(f"broker {broker_id} is running (process {before.pid})", 1)
        log = log_file(directory, f"broker {broker_id}")
        said_before = log.stat().st_size if log.exists() else 0
        start_request(directory, broker_id).touch()
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            entry = load(directory).broker(broker_id)
            if entry.starts > before.starts:
                if entry.pid == NOT_RUNNING:
                    return _complain(f"broker {broker_id} has ended again; {log} says why", 1)
                if is_ready(directory, broker_id, said_before):
                    print(f"broker {broker_id} is started (process {entry.pid})")
                    return 0
            time.sleep(POLL_S)
    except NoClusterError as error:
        return _complain(str(error), 1)
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}", 1)
    return _complain(f"broker {broker_id} accepts no connections within {READY_S:.0f} s; {log} may say why", 1)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end the cluster: also the one that comes when its terminal is closed, without `nohup`."""
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hangs_up else [])]


def _complain(message: str, code: int) -> int:
    print(f"kafkalog: {message}", file=sys.stderr)
    return code


def _stop(number: int, frame: FrameType | None) -> None:
    raise _StopRequestedError
