"""Make `tests/golden/records`: partitions that other clients filled, and the records that they were given.

    python -m tests.golden.make_records

Each client produces to Apache Kafka, which keeps batches as they came (but for base offset and leader epoch),
and the segment files are copied. Per client and codec one topic, four parts one after another:

| part | producer |
|--|--|
| 1 | no producer id, acks=1 |
| 2 | idempotent |
| 3 | a transaction, committed: its records, then the COMMIT marker |
| 4 | a transaction, aborted: its records, then the ABORT marker |

`{client}-{codec}.bin` is the partition; `{client}-{codec}.json` says which list of `records.json` each part holds
from which offset, where the markers are, and the fields of each batch header (read here by `struct`, not by the
product). `java-log-append-time` is one gzip batch whose timestamps the broker set.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from peers.brokers import kafka
from peers.clients.base import CODECS, ForeignClient, Record
from peers.clients.confluent import ConfluentClient
from peers.clients.kafka_py import KafkaPythonClient
from peers.clients.lines import JavaClient, to_json
from tests.foreign.records import BASE_TIME, KEEP, NULL_HEADER, NULL_RECORD, RECORDS

HERE = Path(__file__).parent / "records"
WRITERS: dict[str, type[ForeignClient]] = {
    "java": JavaClient,
    "librdkafka": ConfluentClient,
    "kafka-python": KafkaPythonClient,
}

_PLAIN = (
    *RECORDS[:7],
    replace(RECORDS[7], value=b"compressible " * 100),
    *(Record(b"%d" % i, b"value number %d" % i, (), BASE_TIME + 100 - 3 * i) for i in range(25)),
)
LISTS: dict[str, tuple[Record, ...]] = {"plain": _PLAIN, "full": (*_PLAIN, NULL_RECORD, NULL_HEADER)}

# base offset, batch length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp,
# producer id, producer epoch, base sequence, record count: DefaultRecordBatch of Apache Kafka
_HEADER = struct.Struct(">qiibIhiqqqhii")
_FIELDS = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
)


def walk(segment: bytes) -> list[dict[str, int]]:
    """Return the header fields of every batch."""
    batches = []
    at = 0
    while at < len(segment):
        fields = dict(zip(_FIELDS, _HEADER.unpack_from(segment, at), strict=True))
        batches.append(fields)
        at += 12 + fields["batch_length"]
    if at != len(segment):
        raise ValueError("the segment ends inside a batch")
    return batches


def write_parts(client: ForeignClient, topic: str, codec: str, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Produce the four parts; return the offsets of their beginnings and their markers."""
    name = "full" if len(records) == len(LISTS["full"]) else "plain"
    parts: list[dict[str, Any]] = []
    at = 0
    for how in ({"acks": "1"}, {"idempotent": True}, {"transaction": "commit"}, {"transaction": "abort"}):
        told = client.produce(topic, 0, records, codec=codec, **how)
        if told != list(range(at, at + len(records))):
            raise ValueError(f"{client.name} was told {told}, not {at} and on")
        part = {"first_offset": at, "records": name}
        at += len(records)
        if "transaction" in how:
            part |= {"ended": how["transaction"], "marker": at}
            at += 1
        parts.append(part)
    return parts


def segment_of(broker: kafka.ApacheKafka, topic: str) -> bytes:
    """Return the partition's batches. A marker has the current time, years after the records, and begins a segment."""
    files = sorted((broker.log_dir / f"{topic}-0").glob("*.log"))
    return b"".join(file.read_bytes() for file in files)


def lines(facts: dict[str, Any]) -> str:
    """Return JSON with one list member in each line, so that diffs are readable."""
    members = []
    for name, value in facts.items():
        if isinstance(value, list):
            text = "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"
        else:
            text = json.dumps(value)
        members.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def save(name: str, segment: bytes, facts: dict[str, Any]) -> None:
    (HERE / f"{name}.bin").write_bytes(segment)
    (HERE / f"{name}.json").write_text(lines({**facts, "batches": walk(segment)}))
    print(f"{name}: {len(segment)} bytes")


def make(broker: kafka.ApacheKafka, referee: ForeignClient) -> None:
    for writer, kind in WRITERS.items():
        client = kind(broker.bootstrap)
        records = LISTS["full" if {"null_record", "null_header"} <= client.features else "plain"]
        for codec in CODECS:
            topic = f"golden-{writer}-{codec}"
            referee.create_topic(topic, config=KEEP)
            parts = write_parts(client, topic, codec, records)
            end = parts[-1]["marker"] + 1
            # The abort is done when its marker is in the log.
            while referee.list_offset(topic, 0, "latest")[0] < end:
                pass
            save(f"{writer}-{codec}", segment_of(broker, topic), {"codec": codec, "parts": parts})
        client.close()


def make_log_append_time(broker: kafka.ApacheKafka, referee: ForeignClient) -> None:
    topic = "golden-log-append-time"
    referee.create_topic(topic, config={"message.timestamp.type": "LogAppendTime", **KEEP})
    client = JavaClient(broker.bootstrap)
    client.produce(topic, 0, LISTS["full"], codec="gzip", idempotent=True)
    client.close()
    (timestamp,) = {record.timestamp for record in referee.consume(topic, 0, 0, len(LISTS["full"]))}
    part = {"first_offset": 0, "records": "full", "timestamp": timestamp}
    save("java-log-append-time", segment_of(broker, topic), {"codec": "gzip", "parts": [part]})


def main() -> None:
    HERE.mkdir(exist_ok=True)
    lists = {name: [to_json(record) for record in records] for name, records in LISTS.items()}
    (HERE / "records.json").write_text(lines(lists))
    with kafka.ApacheKafka() as broker:
        referee = ConfluentClient(broker.bootstrap)
        make(broker, referee)
        make_log_append_time(broker, referee)


if __name__ == "__main__":
    main()
