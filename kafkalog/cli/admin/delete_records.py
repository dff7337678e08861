"""`kafkalog delete-records`: delete the oldest records of partitions, as kafka-delete-records.sh does."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kafkalog.cli.admin.partition_files import read_file
from kafkalog.cli.shared.client_options import UsageError, add_action, admin_config, reporting
from kafkalog.client.types import TopicPartition

EXAMPLES = """\
the file:
  {"partitions": [{"topic": "words", "partition": 0, "offset": 1000}], "version": 1}

All records before the offset are deleted; -1 deletes all records.

examples:
  kafkalog delete-records --bootstrap-server localhost:9092 --offset-json-file offsets.json

exit codes: 0 done, 1 failed for some partition, 2 wrong usage
"""
_VERSION = 1
_FORM = '{"partitions": [{"topic": "words", "partition": 0, "offset": 1000}], "version": 1}'


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `delete-records`."""
    parser = add_action(subparsers, "delete-records", "delete the records of partitions before given offsets", EXAMPLES)
    parser.add_argument(
        "--offset-json-file", required=True, metavar="FILE", help="a JSON file with an offset for each partition"
    )
    parser.set_defaults(run=run)


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Delete the records, and print each partition's new first offset, or its error."""
    from kafkalog.client.admin import Admin

    option, file = "--offset-json-file", arguments.offset_json_file
    before = parse_offsets(read_file(file, option), f"{option} {file}")
    with Admin(admin_config(arguments)) as admin:
        print("Executing records delete operation", flush=True)
        found = admin.topics.delete_records_each(before)
    print("Records delete operation completed:")
    failed = False
    for tp, result in found.items():
        if isinstance(result, int):
            print(f"partition: {tp}\tlow_watermark: {result}")
        else:
            failed = True
            print(f"partition: {tp}\terror: {getattr(result, 'message', result)}")
    return 1 if failed else 0


def parse_offsets(document: Any, where: str) -> dict[TopicPartition, int]:
    """Return the offsets of the document of kafka-delete-records.sh.

    Raises:
        UsageError: It is something else, or names a partition twice.
    """
    if not isinstance(document, dict) or "partitions" not in document:
        raise UsageError(f"{where}: Missing partitions field; expected {_FORM}")
    version = document.get("version", _VERSION)
    if version != _VERSION:
        raise UsageError(f"{where}: Not supported version field value {version}; expected {_VERSION}")
    found: dict[TopicPartition, int] = {}
    twice: list[str] = []
    listed = document["partitions"]
    for each in listed if isinstance(listed, list) else [listed]:
        tp, offset = _entry(each, where)
        if tp in found:
            twice.append(str(tp))
        found[tp] = offset
    if twice:
        raise UsageError(f"{where}: Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return found


def _entry(each: Any, where: str) -> tuple[TopicPartition, int]:
    if isinstance(each, dict):
        topic = each.get("topic")
        partition, offset = _integer(each.get("partition"), 0, 31), _integer(each.get("offset"), -1, 63)
        if isinstance(topic, str) and partition is not None and offset is not None:
            return TopicPartition(topic, partition), offset
    raise UsageError(f"{where}: {json.dumps(each)} is no partition with an offset; expected {_FORM}")


def _integer(value: Any, least: int, bits: int) -> int | None:
    """Return a JSON number; None for another value, `true` and `false` included, or one that is out of range."""
    return value if type(value) is int and least <= value < 1 << bits else None
