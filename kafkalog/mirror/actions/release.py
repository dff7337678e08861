"""`kafkalog mirror release`: give topics up, so that the mirror of the other direction may take them."""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import action_parser
from kafkalog.cli.shared.client_options import UsageError, reporting
from kafkalog.mirror.actions.options import add_clusters, settings_of

EPILOG = """\
With --naming identity a mirror claims a topic by its positions in the target, and the mirror of the other direction
leaves the topic out. This deletes the positions, also those of a mirror that has died before it created the topic.
With --offsets keep the claim is the configuration kafkalog.mirror.source of the target's topic, which is deleted: from
then on the topic takes records of producers.
Stop the mirror first, and leave the topics out (--exclude) before you start it again: it would begin with them anew.

examples:
  kafkalog mirror release --source old:9092 --target new:9092 --source-alias old --topics orders

exit codes: 0 done, 1 failed, 2 wrong usage
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `release`."""
    parser = action_parser(commands, "release", "give topics up, so that the other direction may mirror them", EPILOG)
    add_clusters(parser)
    parser.add_argument("--topics", metavar="REGEX[,…]", required=True, help="the topics, by their whole names")
    parser.set_defaults(run=run)


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Delete the claims, and print each topic."""
    from kafkalog.mirror import clients
    from kafkalog.mirror.claims.releasing import MirrorRunsError, release

    settings = settings_of(arguments, {"topics": arguments.topics, "topics.exclude": ""})
    with clients.admin(settings.source_client) as source, clients.admin(settings.target_client) as target:
        try:
            released = release(settings, source, target)
        except MirrorRunsError as error:
            raise UsageError(str(error)) from None
    for topic in released:
        print(f"Released topic {topic}.")
    return 0
