"""`kafkalog cluster partition`: cut one broker of a local cluster off; `kafkalog cluster heal`: connect it again."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

from broker.cli.cluster.description import KINDS, BrokerEntry, NoClusterError, load, write_cut_request

DONE_S = 30.0
"""For so many seconds the command waits for the supervisor."""
POLL_S = 0.05

EXAMPLES = """\
examples:
  kafkalog cluster partition 3
  kafkalog cluster partition 3 --from zookeeper --for 20
  kafkalog cluster heal 3

Nothing passes between the broker and what it is cut off from, but no connection ends and none is refused, as if the
network dropped packets. What was sent meanwhile is delivered when it is connected again. Clients still reach the
broker. If it is cut off from ZooKeeper for longer than its session (6 s), it gives up its leaderships, and others lead.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `partition` and `heal`."""
    partition = _add(commands, "partition", "cut a broker off from ZooKeeper, from the other brokers, or both")
    partition.add_argument(
        "--from",
        dest="kind",
        choices=tuple(filter(None, KINDS)),
        default="all",
        help="what it is cut off from (default: all)",
    )
    partition.add_argument(
        "--for",
        dest="seconds",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="connect it again after so long (default: when `heal` says so)",
    )
    _add(commands, "heal", "connect a broker again").set_defaults(kind="", seconds=0.0)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str
) -> argparse.ArgumentParser:
    from broker.cli.cluster import DIRECTORY

    parser = commands.add_parser(
        name, help=purpose, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("id", type=int, metavar="ID", help="the broker")
    parser.add_argument("--dir", type=Path, default=Path(DIRECTORY), help=f"the directory (default: {DIRECTORY})")
    parser.set_defaults(run=run)
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Ask the supervisor, and wait until it has done it. Return 1 if it does not."""
    try:
        before = load(arguments.dir).broker(arguments.id)
        if not arguments.kind and not before.cut:
            print(f"kafkalog: broker {arguments.id} is not cut off", file=sys.stderr)
            return 1
        write_cut_request(arguments.dir, arguments.id, arguments.kind, arguments.seconds)
        deadline = time.monotonic() + DONE_S
        while time.monotonic() < deadline:
            entry = load(arguments.dir).broker(arguments.id)
            if entry.cuts != before.cuts:
                print(_told(entry, arguments.seconds))
                return 0
            time.sleep(POLL_S)
    except (NoClusterError, OSError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    print(f"kafkalog: `kafkalog cluster start` has not answered within {DONE_S:.0f} s", file=sys.stderr)
    return 1


def _told(entry: BrokerEntry, seconds: float) -> str:
    if not entry.cut:
        return f"broker {entry.broker_id} is connected again"
    return f"broker {entry.broker_id} is {entry.connection}{f' for {seconds:g} s' if seconds else ''}"
