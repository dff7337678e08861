"""`kafkalog zookeeper start`: run a ZooKeeper server in the foreground."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from broker.cli.settings import add_action, read_settings
from broker.cli.zookeeper.jars import MissingZooKeeperError, find_jars, find_java
from broker.cli.zookeeper.server import (
    DEFAULTS,
    JAAS_KEY,
    PORTS,
    PortTakenError,
    ZooKeeperServer,
    addresses,
    check_ports,
    with_ports,
)
from broker.system.announcing import announce
from kafkalog.cli.shared.actions import add_command
from kafkalog.java_properties import PropertiesError

EXAMPLES = """\
examples:
  kafkalog zookeeper start
  kafkalog zookeeper start --config conf/zookeeper.properties
  kafkalog zookeeper start --override clientPort=2182 --override dataDir=/var/lib/zookeeper

This is Apache ZooKeeper's own server. Its classes come with PySpark, or from ZOOKEEPER_HOME. Keys are ZooKeeper's;
without dataDir and clientPort it keeps its data in /tmp/zookeeper and listens on port 2181. docs/how-to/clusters.md
tells how it serves TLS (secureClientPort) and logins (java.security.auth.login.config). Java gets the options of
SERVER_JVMFLAGS and JVMFLAGS.
It prints one line when it accepts sessions and stops cleanly on SIGTERM or Ctrl-C.
"""


ENDING = (signal.SIGTERM, signal.SIGINT)
"""The signals that end the server."""


class _StopRequestedError(Exception):
    """A signal asks the command to end."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `zookeeper` and its commands."""
    actions = add_command(subparsers, "zookeeper", "run a ZooKeeper server")
    start = add_action(actions, "start", "start a ZooKeeper server in the foreground", "zookeeper.properties", EXAMPLES)
    start.set_defaults(run=run_start)


def run_start(arguments: argparse.Namespace) -> int:
    """Run the server; 1 when it cannot start or ends by itself, 2 when the settings cannot be used."""
    try:
        properties = _properties(arguments)
        places = addresses(properties)
    except (OSError, PropertiesError, ValueError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 2
    try:
        java, jars = find_java(), find_jars()
        check_ports(properties)
    except (MissingZooKeeperError, PortTakenError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    for number in ENDING:
        signal.signal(number, _stop)
    server = None
    try:
        server = ZooKeeperServer(java, jars, properties)
        if server.wait_until_it_serves():
            told = ", ".join(f"{host}:{port}" for host, port in places)
            announce(f"ZooKeeper is accepting connections on {told}")
        code = server.process.wait()
    except _StopRequestedError:
        return 0
    finally:
        # Another signal would leave the server half-way to its end.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        if server is not None:
            server.stop()
    print(f"kafkalog: ZooKeeper ended with exit code {code}; its messages above say why", file=sys.stderr)
    return 1


def _properties(arguments: argparse.Namespace) -> dict[str, str]:
    given = read_settings(arguments)
    properties = DEFAULTS | given
    if "secureClientPort" in given and "clientPort" not in given:
        # Only TLS is wanted.
        del properties["clientPort"]
    for name in PORTS:
        if not properties.get(name, "0").isdigit():
            raise PropertiesError(f"{name}={properties[name]}: expected the number of a port")
    jaas = properties.get(JAAS_KEY)
    if jaas is not None and not Path(jaas).is_file():
        raise PropertiesError(f"{JAAS_KEY}={jaas}: there is no such file")
    return with_ports(properties)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _StopRequestedError
