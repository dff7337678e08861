"""Test of a load whose leader answers and has no records."""

from __future__ import annotations

import time
from pathlib import Path

from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tests.spark_kafkalog.load.scripted import broker_of_topic
from tests.support.command import call


def nothing(request: FetchRequest) -> FetchResponse:
    """Answer as a leader without records beyond the offset does, soon."""
    time.sleep(0.05)
    data = PartitionData(partition_index=0, high_watermark=9)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def test_the_error_names_an_option_of_the_load(tmp_path: Path) -> None:
    with broker_of_topic(nothing) as broker:
        given = ["--bootstrap-server", broker.address, "--topic", "t", "--to", str(tmp_path), "--without-spark"]
        done = call("load", *given, "--min-splits", "1", "--poll-timeout", "1", check=1)
    assert "Cannot fetch record for offset 0 of t-0 in 1000 milliseconds" in done.err
    assert done.err.endswith("--poll-timeout sets how long to wait.\n")
