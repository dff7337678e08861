"""Test commands that name a broker which is not there, and how `kafkalog elect` names its properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, metadata


@pytest.mark.parametrize("words", [(), ("--topic", "words")])
def test_hanging_transactions_of_an_absent_broker(words: tuple[str, ...]) -> None:
    broker = ScriptedBroker({MetadataRequest: lambda request: metadata({1: broker}, {("words", 0): 1})})
    with broker:
        where = ("transactions", "find-hanging", "--bootstrap-server", broker.address, "--broker-id")
        ended = call(*where, "7", *words, check=1)
    assert ended.out == []
    assert ended.err == "kafkalog: broker 7 cannot be asked: the brokers of the cluster are 1\n"


def test_leaders_are_elected_with_the_properties_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "admin.properties"
    file.write_text("retry.backoff.ms=many\n")
    broker = ScriptedBroker(
        {
            MetadataRequest: lambda request: metadata({1: broker}, {("words", 0): 1}, controller=1),
            ElectLeadersRequest: lambda request: ElectLeadersResponse(),
        }
    )
    with broker:
        words = ("elect", "--bootstrap-server", broker.address, "--election-type", "preferred")
        ended = call(*words, "--all-topic-partitions", "--admin.config", str(file), check=2)
        assert "retry.backoff.ms" in ended.err
        file.write_text("retry.backoff.ms=10\n")
        call(*words, "--all-topic-partitions", "--admin.config", str(file))
