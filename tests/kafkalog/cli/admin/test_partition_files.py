"""Test that files of partitions are read in the forms of Kafka's tools, and refused with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.admin.partition_files import (
    Placed,
    parse_partitions,
    parse_reassignment,
    parse_topics,
    read_file,
    reassignment_json,
)
from kafkalog.cli.shared.client_options import UsageError
from kafkalog.client.types import TopicPartition

HERE = "--reassignment-json-file moves.json"
ONE = TopicPartition("words", 1)


def entry(**more: Any) -> dict[str, Any]:
    return {"topic": "words", "partition": 1, "replicas": [2, 3], **more}


def test_a_reassignment_is_written_in_the_form_that_is_read() -> None:
    text = reassignment_json({ONE: (2, 3), TopicPartition("a", 0): (1,)})
    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["any"]},'
        '{"topic":"words","partition":1,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    )
    assert parse_reassignment(json.loads(text), HERE)[ONE] == Placed((2, 3), ("any", "any"))
    without = {"version": 1, "partitions": [entry()]}
    assert parse_reassignment(without, HERE) == {ONE: Placed((2, 3), ("any", "any"))}
    moved = {"partitions": [entry(log_dirs=["any", "/disk2"])]}
    assert parse_reassignment(moved, HERE) == {ONE: Placed((2, 3), ("any", "/disk2"))}


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ([], "the field partitions"),
        ({"version": 1}, "the field partitions"),
        ({"version": 2, "partitions": []}, "version field value 2"),
        ({"partitions": [7]}, "7 is no entry"),
        ({"partitions": [{"topic": "words", "replicas": [1]}]}, "names no topic and partition"),
        ({"partitions": [entry(partition=True)]}, "names no topic and partition"),
        ({"partitions": [entry(replicas=[])]}, "words-1 needs a list of different broker ids"),
        ({"partitions": [entry(replicas=[1, 1])]}, "words-1 needs a list of different broker ids"),
        ({"partitions": [entry(replicas=["1"])]}, "words-1 needs a list of different broker ids"),
        ({"partitions": [entry(partition=1 << 31)]}, "names no topic and partition"),
        ({"partitions": [entry(replicas=[1 << 31])]}, "words-1 needs a list of different broker ids"),
        ({"partitions": [entry(replicas=[-1])]}, "words-1 needs a list of different broker ids"),
        ({"partitions": [entry(log_dirs=["any"])]}, "log_dirs must name as many"),
        ({"partitions": [entry(), entry()]}, "words-1 is named twice"),
    ],
)
def test_another_form_is_refused(document: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what) as refused:
        parse_reassignment(document, HERE)
    assert str(refused.value).startswith(HERE)


def test_lists_of_topics_and_partitions() -> None:
    assert parse_topics({"version": 1, "topics": [{"topic": "a"}, {"topic": "b"}, {"topic": "a"}]}, HERE) == ["a", "b"]
    with pytest.raises(UsageError):
        parse_topics({"topics": [{"name": "a"}]}, HERE)
    assert parse_partitions({"partitions": [{"topic": "words", "partition": 1}]}, HERE) == [ONE]
    many = [{"topic": "words", "partition": number} for number in range(200_000)]
    assert len(parse_partitions({"partitions": many}, HERE)) == 200_000
    with pytest.raises(UsageError, match="duplicate partitions: words-1"):
        parse_partitions({"partitions": [{"topic": "words", "partition": 1}] * 2}, HERE)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent"):
        read_file(str(tmp_path / "absent"), "--path-to-json-file")
    (tmp_path / "broken").write_text("{")
    with pytest.raises(UsageError, match="is not valid JSON"):
        read_file(str(tmp_path / "broken"), "--path-to-json-file")
