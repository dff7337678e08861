"""`kafkalog mirror start`: mirror until it is interrupted."""

from __future__ import annotations

import argparse
import logging
from contextlib import ExitStack

from kafkalog.cli.shared.actions import action_parser
from kafkalog.cli.shared.client_options import natural, reporting
from kafkalog.cli.shared.interruptible import ended_soon, set_by_signals
from kafkalog.mirror.actions.options import add_clusters, settings_of

MIRROR = "kafkalog.mirror"
"""The name of the logger above those of the mirror's modules."""

EPILOG = """\
Each record comes once into the target, in its partition and order, with its key, value, headers and timestamp. Start
the command again after a crash, or on further machines: processes of the same mirror share its partitions.

A file of MirrorMaker 2 (--config) may name both clusters, their clients and what is mirrored.

examples:
  kafkalog mirror start --source old:9092 --target new:9092 --topics 'orders|clicks.*' --source-alias old
  kafkalog mirror start --source old:9092 --target new:9092 --topics '.*' --naming identity --sync-groups '.*'
  kafkalog mirror start --config connect-mirror-maker.properties --source-alias A --target-alias B

exit codes: 0 stopped by SIGINT or SIGTERM, 1 failed, 2 wrong usage
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `start`."""
    parser = action_parser(commands, "start", "mirror topics until it is interrupted", EPILOG)
    add_clusters(parser)
    parser.add_argument(
        "--topics", metavar="REGEX[,…]", help="the topics to mirror, by their whole names (default: all of the file's)"
    )
    parser.add_argument(
        "--exclude", metavar="REGEX[,…]", help="topics to leave out (default: those of Kafka, Connect and mirrors)"
    )
    parser.add_argument(
        "--from", dest="start_at", choices=("earliest", "latest"), help="where topics begin (default: earliest)"
    )
    parser.add_argument(
        "--sync-groups",
        metavar="REGEX[,…]",
        help="commit the translated offsets of these groups in the target, while they have no members there, and bring "
        "back into the source what they reach in the target",
    )
    parser.add_argument("--max-bytes-per-second", type=natural, metavar="N", help="mirror no more than this")
    parser.add_argument("--metrics-listener", metavar="HOST:PORT", help="serve metrics for Prometheus there")
    parser.add_argument(
        "--verbose", action="store_true", help="also print progress; otherwise only problems are printed"
    )
    parser.set_defaults(run=run)


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Mirror."""
    from kafkalog.mirror.copying.progress import Progress
    from kafkalog.mirror.supervisor import run as supervise

    limit = arguments.max_bytes_per_second
    settings = settings_of(
        arguments,
        {
            "topics": arguments.topics,
            "topics.exclude": arguments.exclude,
            "auto.offset.reset": arguments.start_at,
            "sync.group.offsets.enabled": None if arguments.sync_groups is None else "true",
            "sync.group.offsets.groups": arguments.sync_groups,
            "max.bytes.per.second": None if limit is None else str(limit),
        },
    )
    if arguments.verbose:
        logging.getLogger(MIRROR).setLevel(logging.INFO)
    stop = set_by_signals()
    progress = Progress()
    with ExitStack() as stack:
        stack.enter_context(ended_soon(stop))
        if arguments.metrics_listener is not None:
            from kafkalog.mirror.metrics import MetricsEndpoint

            stack.enter_context(MetricsEndpoint(arguments.metrics_listener, progress))
        supervise(settings, progress, stop)
    return 0
