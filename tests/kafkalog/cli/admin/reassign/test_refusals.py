"""Test that `kafkalog reassign` ends when a broker refuses what it asks for."""

from __future__ import annotations

import json
from pathlib import Path

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, metadata


def test_a_move_that_may_not_be_seen_is_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    partitions = [{"topic": "words", "partition": 0, "replicas": [1]}]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    refused = ListPartitionReassignmentsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="The client may not describe the cluster."
    )
    with ScriptedBroker({ListPartitionReassignmentsRequest: lambda request: refused}) as broker:
        broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("words", 0): 1}, controller=1)
        words = ("--follow", "--bootstrap-server", broker.address, "--reassignment-json-file", str(file))
        ended = call("reassign", "verify", *words, check=1)
        assert broker.seen[ListPartitionReassignmentsRequest] == 1
    assert ended.err == "kafkalog: The client may not describe the cluster.\n"
