"""`kafkalog mirror legacy`: mirror with the options and the guarantees of MirrorMaker 1."""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import action_parser
from kafkalog.cli.shared.client_options import UsageError, add_repeated, complain, file_properties, positive, reporting
from kafkalog.cli.shared.interruptible import ended_soon, set_by_signals

EPILOG = """\
Topics keep their names; a record's key decides about its partition. After a crash some records may come twice.
`kafkalog mirror start` keeps partitions, and mirrors each record exactly once.

The files may have the properties of Kafka 0.8: zookeeper.connect for a group in ZooKeeper, metadata.broker.list for the
target. bootstrap.servers goes before both.

examples:
  kafkalog mirror legacy --consumer.config source.properties --producer.config target.properties --whitelist '.*'

exit codes: 0 stopped by SIGINT or SIGTERM, 1 failed, 2 wrong usage
"""
_UNSUPPORTED = (
    "message.handler",
    "message.handler.args",
    "consumer.rebalance.listener",
    "rebalance.listener.args",
)
_IGNORED = ("new.consumer", "new.producer")
_IGNORED_NUMBERS = ("num.producers", "queue.size")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `legacy`."""
    parser = action_parser(commands, "legacy", "mirror with the options of MirrorMaker 1", EPILOG)
    add_repeated(
        parser, "--consumer.config", required=True, metavar="FILE", purpose="consumer properties, for a source"
    )
    parser.add_argument("--producer.config", required=True, metavar="FILE", help="producer properties, for the target")
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--whitelist", "--include", metavar="REGEX", help="the topics to mirror")
    topics.add_argument("--blacklist", metavar="REGEX", help="mirror all topics but these")
    parser.add_argument(
        "--num.streams", type=positive, default=1, metavar="N", help="consumers for each source (default: 1)"
    )
    parser.add_argument(
        "--offset.commit.interval.ms", type=positive, default=60000, metavar="MS", help="default: 60000"
    )
    parser.add_argument(
        "--abort.on.send.failure",
        choices=("true", "false"),
        default="true",
        help="whether to end where a record cannot be delivered, or to leave it out (default: true)",
    )
    for name in _IGNORED:
        parser.add_argument(f"--{name}", action="store_true", help="without effect: there is only one kind")
    for name in _IGNORED_NUMBERS:
        parser.add_argument(f"--{name}", metavar="N", help="without effect: all streams share one producer")
    for name in _UNSUPPORTED:
        parser.add_argument(f"--{name}", metavar="…", help="not supported: it names a class of Java's")
    parser.set_defaults(run=run)


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Mirror."""
    from kafkalog.client.consumer import Blacklist, Whitelist
    from kafkalog.mirror.legacy.running import run as mirror

    given = vars(arguments)
    for name in _UNSUPPORTED:
        if given[name] is not None:
            raise UsageError(f"--{name} is not supported: it names a class of Java's, and there is no JVM here")
    for name in (*_IGNORED, *_IGNORED_NUMBERS):
        if given[name]:
            complain(f"--{name} has no effect")
    consumers = [_consumer(file) for file in given["consumer.config"]]
    producer = _producer(given["producer.config"])
    topics = Blacklist(arguments.blacklist) if arguments.whitelist is None else Whitelist(arguments.whitelist)
    stop = set_by_signals()
    # What the target has not acknowledged is not committed, and the next process mirrors it.
    with ended_soon(stop):
        mirror(
            consumers,
            producer,
            topics,
            streams=given["num.streams"],
            commit_interval=given["offset.commit.interval.ms"] / 1000,
            abort=given["abort.on.send.failure"] == "true",
            stop=stop,
        )
    return 0


def _consumer(file: str) -> dict[str, str]:
    """Return the properties of a consumer's file.

    Raises:
        UsageError: The file cannot be read, or names no cluster or no group.
    """
    from kafkalog.mirror.legacy.connected import OLD_CONSUMER

    found = file_properties(file)
    where = f"--consumer.config {file}"
    old = sorted(OLD_CONSUMER & found.keys())
    if "bootstrap.servers" in found:
        if old:
            complain(f"{where}: bootstrap.servers goes before {old[0]}: the group is one of the brokers")
            found = {key: text for key, text in found.items() if key not in OLD_CONSUMER}
    elif not old:
        raise UsageError(
            f"{where}: bootstrap.servers is missing, or zookeeper.connect for a group in ZooKeeper as in Kafka 0.8"
        )
    if "group.id" not in found and not (old and "groupid" in found):
        raise UsageError(f"{where}: group.id is missing: name the group that commits how far the mirror has read")
    return found


def _producer(file: str) -> dict[str, str]:
    """Return the properties of the producer's file.

    Raises:
        UsageError: The file cannot be read, or names no cluster.
    """
    from kafkalog.mirror.legacy.old_properties import OLD_PRODUCER

    found = file_properties(file)
    where = f"--producer.config {file}"
    old = sorted(OLD_PRODUCER & found.keys())
    if "bootstrap.servers" in found and old:
        complain(f"{where}: bootstrap.servers goes before {old[0]}")
        return {key: text for key, text in found.items() if key not in OLD_PRODUCER}
    if "bootstrap.servers" not in found and not old:
        raise UsageError(f"{where}: bootstrap.servers is missing, or metadata.broker.list of a producer of Kafka 0.8")
    return found
