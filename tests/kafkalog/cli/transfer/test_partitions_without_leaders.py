"""Test `kafkalog consume` of a topic of which one partition has no leader, and while no broker answers."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from unittest.mock import Mock

import pytest

from kafkalog.cli.transfer.sources import Reader
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.schema import Request
from tests.kafkalog.client.fetch.answers import answer, begins_at_3, records
from tests.support.command import run
from tests.support.scripted import Handler, ScriptedBroker, metadata


@pytest.mark.usefixtures("processes")
def test_the_other_partitions_are_printed() -> None:
    """As by Kafka's tool, whose consumer looks up the position of each partition by itself."""
    handlers: dict[type[Request], Handler] = {
        FetchRequest: lambda request: answer(data=records(request.topics[0].partitions[0].fetch_offset, [b"good"])),
        ListOffsetsRequest: begins_at_3,
    }
    with ScriptedBroker(handlers) as broker:
        broker.handlers[MetadataRequest] = lambda _: metadata({1: broker}, {("t", 0): 1, ("t", 1): -1})
        words = ("--bootstrap-server", broker.address, "--topic", "t", "--from-beginning", "--max-messages", "2")
        ended = run("consume", *words, "--consumer-property", "default.api.timeout.ms=1000")
    assert ended.stdout == b"good\ngood\n"
    assert b"kafkalog: partition t-1 cannot be read at present: " in ended.stderr


def test_an_outage_when_new_partitions_are_looked_for_does_not_end_the_command() -> None:
    cluster, consumer = Mock(), Mock()
    cluster.config.metadata_max_age = 0.0
    cluster.partitions.side_effect = ClientTimeoutError("gave up after 9 tries: cannot connect")
    consumer.poll.return_value = []
    reader: Any = Reader(cluster, consumer, Namespace(topic="t", partition=None))
    assert reader.poll(0.0, 1) == []
    cluster.partitions.side_effect = None
    cluster.partitions.return_value = [0, 1]
    reader.poll(0.0, 1)
    consumer.assign.assert_called_once_with([("t", 0), ("t", 1)])
