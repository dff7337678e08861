"""`kafkalog mirror status`: print how far a mirror is."""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import action_parser
from kafkalog.cli.shared.client_options import aligned, print_json, reporting
from kafkalog.mirror.actions.options import add_clusters, settings_of

EPILOG = """\
LAG counts offsets of the source: of a partition those that are not in the target yet, of a group those that it has
read since its position was last translated. AHEAD counts offsets of the target that a group has read there since its
position was last brought back into the source. "-" means that there is no value.

examples:
  kafkalog mirror status --source old:9092 --target new:9092 --topics 'orders|clicks.*' --source-alias old
  kafkalog mirror status --config connect-mirror-maker.properties --json

exit codes: 0 printed, 1 failed, 2 wrong usage
"""
_PARTITIONS = ("TOPIC", "PARTITION", "MIRRORED", "END", "LAG")
_GROUPS = ("GROUP", "TARGET-TOPIC", "PARTITION", "OFFSET", "TRANSLATED", "TARGET-OFFSET", "IN-TARGET", "AHEAD", "LAG")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `status`."""
    parser = action_parser(commands, "status", "print how far a mirror is, for each partition and each group", EPILOG)
    add_clusters(parser)
    parser.add_argument("--topics", metavar="REGEX[,…]", help="the topics that are mirrored (default: all)")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each partition and each group")
    parser.set_defaults(run=run)


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Print the state of each partition, and then of each group."""
    from kafkalog.mirror import clients
    from kafkalog.mirror.status import group_status, partition_status

    settings = settings_of(arguments, {"topics": arguments.topics})
    with clients.admin(settings.source_client) as source, clients.admin(settings.target_client) as target:
        partitions = partition_status(settings, source, target)
        groups = group_status(settings, source, target)
    partition_rows = [(*each.partition, each.next_offset, each.end, each.lag) for each in partitions]
    group_rows = [
        (each.group, *each.partition, each.offset, each.upstream, each.downstream, each.in_target, each.ahead, each.lag)
        for each in groups
    ]
    for header, rows in ((_PARTITIONS, partition_rows), (_GROUPS, group_rows)):
        if arguments.json:
            for row in rows:
                print_json(dict(zip((name.lower().replace("-", "_") for name in header), row, strict=True)))
        elif rows:
            printed = [header, *(tuple("-" if each is None else str(each) for each in row) for row in rows)]
            print("\n".join(aligned(printed, [1] * len(header), "  ")))
    return 0
