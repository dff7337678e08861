"""Records for `kafkalog consume --zookeeper`: those of a group in ZooKeeper."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import UsageError, warn_unknown, zookeeper_properties
from kafkalog.cli.transfer.sources import Source

if TYPE_CHECKING:
    from kafkalog.client.connector import ConnectorConfig, MessageStream
    from kafkalog.client.types import ConsumerRecord

_NOT_HERE = ("partition", "offset", "isolation_level")


class Stream:
    """Reads a stream of a consumer connector. What was printed counts as consumed."""

    def __init__(self, stream: MessageStream) -> None:
        self._stream = stream

    def poll(self, timeout: float, limit: int) -> list[ConsumerRecord]:
        return self._stream.poll(timeout, limit)

    def printed(self) -> None:
        self._stream.consumed()


@contextmanager
def stream(arguments: argparse.Namespace, properties: Mapping[str, str]) -> Iterator[Source]:
    """Join a group in ZooKeeper, and leave it at the end.

    A group without a name is one of this process, and its nodes are deleted at the end.

    Raises:
        UsageError: An option does not go with `--zookeeper`, or the group has offsets already.
    """
    from kafkalog.client.connector import Blacklist, ConsumerConnector, Whitelist

    config, is_named = _config(arguments, properties)
    warn_unknown(config.unknown)
    chosen = (
        Whitelist(arguments.topic or arguments.include)
        if arguments.blacklist is None
        else Blacklist(arguments.blacklist)
    )
    _prepare(arguments, config)
    try:
        with ConsumerConnector(config) as connector:
            yield Stream(connector.create_message_streams_by_filter(chosen)[0])
    finally:
        if not is_named:
            _forget(config)


def _config(arguments: argparse.Namespace, properties: Mapping[str, str]) -> tuple[ConnectorConfig, bool]:
    """Return the settings, and whether the group has a name."""
    from kafkalog.client.connector import ConnectorConfig

    for name in _NOT_HERE:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} does not go with --zookeeper")
    given = {**zookeeper_properties(arguments), **properties}
    if arguments.group is not None:
        given["group.id"] = arguments.group
    is_named = "group.id" in given
    given.setdefault("group.id", f"console-consumer-{random.randrange(100_000)}")
    given["auto.offset.reset"] = "smallest" if arguments.from_beginning else "largest"
    given["zookeeper.connect"] = arguments.zookeeper
    return ConnectorConfig.from_dict(given), is_named


def _prepare(arguments: argparse.Namespace, config: ConnectorConfig) -> None:
    """Delete the group's nodes if the options say so; else see that `--from-beginning` can hold."""
    from kafkalog.client.zookeeper import nodes
    from kafkalog.client.zookeeper.steps import Read, delete_tree

    if not arguments.delete_consumer_offsets and not arguments.from_beginning:
        return
    with config.open_session() as session:
        if arguments.delete_consumer_offsets:
            session.run(delete_tree(nodes.group(config.group_id)))
        elif session.perform(Read(nodes.group_offsets(config.group_id))) is not None:
            raise UsageError(
                f"found previous offset information for this group {config.group_id}. Use --delete-consumer-offsets "
                "to delete previous offsets metadata"
            )


def _forget(config: ConnectorConfig) -> None:
    from kafkalog.client.zookeeper import nodes
    from kafkalog.client.zookeeper.steps import delete_tree

    with config.open_session() as session:
        session.run(delete_tree(nodes.group(config.group_id)))
