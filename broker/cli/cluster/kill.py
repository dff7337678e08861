"""`kafkalog cluster kill`: stop one broker of a local cluster, or kill it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from broker.cli.cluster.description import NOT_RUNNING, NoClusterError, is_alive, load

STOP_S = 60.0
POLL_S = 0.05

EXAMPLES = """\
examples:
  kafkalog cluster kill 2
  kafkalog cluster kill 2 --hard

Without --hard the broker stops as at SIGTERM: others take its partitions over first. With --hard it is killed by
SIGKILL, as if the process had crashed. `kafkalog cluster start 2` starts it again.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `kill`."""
    from broker.cli.cluster import DIRECTORY

    parser = commands.add_parser(
        "kill", help="stop a broker, or kill it", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("id", type=int, metavar="ID", help="the broker")
    parser.add_argument("--hard", action="store_true", help="kill it by SIGKILL")
    parser.add_argument("--dir", type=Path, default=Path(DIRECTORY), help=f"the directory (default: {DIRECTORY})")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Stop the broker and wait for its end; 1 when it does not run or does not end."""
    try:
        entry = load(arguments.dir).broker(arguments.id)
    except (NoClusterError, OSError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    if entry.pid == NOT_RUNNING or not is_alive(entry.pid):
        print(f"kafkalog: broker {arguments.id} is not running", file=sys.stderr)
        return 1
    os.kill(entry.pid, signal.SIGKILL if arguments.hard else signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        try:
            # The supervisor has seen its end; the process itself may stay as a zombie for a moment.
            if load(arguments.dir).broker(arguments.id).pid != entry.pid:
                print(f"broker {arguments.id} {'was killed' if arguments.hard else 'has stopped'}")
                return 0
        except (NoClusterError, OSError) as error:
            print(f"kafkalog: {error}", file=sys.stderr)
            return 1
        time.sleep(POLL_S)
    print(f"kafkalog: broker {arguments.id} has not ended within {STOP_S:.0f} s", file=sys.stderr)
    return 1
