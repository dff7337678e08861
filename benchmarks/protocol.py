"""Costs of the wire protocol: what a broker and a client pay for the messages that they exchange all the time.

Run: `python -m benchmarks.protocol [--rounds N]`. Each figure is the best of several rounds, of one thread. Ours are
whole frames, header included, as a connection reads and writes them; those of kio, where it is installed
(`pip install kio`), are bodies alone, and both must write the same bytes. Records are not looked into: 16 KiB of them
stand for a batch.
"""

from __future__ import annotations

import argparse
import importlib
import io
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from benchmarks.recording.findings import LOWER, Finding, compared
from kafkalog.protocol.codec import (
    decode_message,
    decode_request_header,
    decode_response,
    encode_message,
    encode_request_chunks,
    encode_response,
)
from kafkalog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkalog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkalog.protocol.schema import Message, Request, Response

BATCH = bytes(16 << 10)
TOPIC_ID = UUID(int=7)
BROKERS = 3
ROUND_S = 0.02


class Case(NamedTuple):
    """A message that is measured; a response has the class of its request, which says how to read it."""

    what: str
    msg: Message
    version: int
    request: type[Request]


class Costs(NamedTuple):
    """Seconds; None where nobody measured."""

    encode: float | None
    decode: float | None


def metadata(partitions: int) -> MetadataResponse:
    """Make the response for a topic of three replicas on three brokers."""
    replicas = list(range(BROKERS))
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=i, host=f"broker{i}", port=9092) for i in range(BROKERS)],
        cluster_id="cluster",
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                name="topic",
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=i, leader_id=i % BROKERS, replica_nodes=replicas, isr_nodes=replicas
                    )
                    for i in range(partitions)
                ],
            )
        ],
    )


def cases() -> Iterator[Case]:
    produce = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="topic", partition_data=[PartitionProduceData(index=0, records=BATCH)])],
    )
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="topic",
                partition_responses=[PartitionProduceResponse(index=0, base_offset=1_000_000, log_start_offset=0)],
            )
        ]
    )
    fetch = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic_id=TOPIC_ID,
                partitions=[FetchPartition(partition=0, fetch_offset=1_000_000, partition_max_bytes=1 << 20)],
            )
        ],
    )
    fetched = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic_id=TOPIC_ID,
                partitions=[
                    PartitionData(high_watermark=1_000_000, last_stable_offset=1_000_000, aborted_transactions=None)
                ],
            )
        ]
    )
    fetched.responses[0].partitions[0].records = memoryview(BATCH)
    yield Case("Produce v11 request, 16 KiB", produce, 11, ProduceRequest)
    yield Case("Produce v11 response", produced, 11, ProduceRequest)
    yield Case("Fetch v17 request", fetch, 17, FetchRequest)
    yield Case("Fetch v17 response, 16 KiB", fetched, 17, FetchRequest)
    yield Case(
        "Metadata v12 request", MetadataRequest(topics=[MetadataRequestTopic(name="topic")]), 12, MetadataRequest
    )
    yield Case("Metadata v12 response, 1 partition", metadata(1), 12, MetadataRequest)
    yield Case("Metadata v12 response, 1,000 partitions", metadata(1000), 12, MetadataRequest)


def best(rounds: int, act: Callable[[], object]) -> float:
    """Return the seconds of one call: the best of several rounds of as many calls as fill a moment."""
    timer = timeit.Timer(act)
    timer.timeit(2)
    calls = max(1, int(ROUND_S / max(timer.timeit(5) / 5, 1e-7)))
    return min(timer.repeat(rounds, calls)) / calls


def our_costs(case: Case, rounds: int) -> Costs:
    """Measure whole frames of ours."""
    msg, version, request = case.msg, case.version, case.request
    if isinstance(msg, Response):
        frame = memoryview(b"".join(encode_response(msg, version, 1)))[4:]  # type: ignore[arg-type]
        # Not compared as messages: that would build the structures inside that a broker leaves out.
        assert encode_message(decode_response(request, version, frame)[1], version) == encode_message(msg, version)
        return Costs(
            best(rounds, lambda: encode_response(msg, version, 1)),
            best(rounds, lambda: decode_response(request, version, frame)),
        )
    assert isinstance(msg, Request)
    frame = memoryview(b"".join(encode_request_chunks(msg, version, 1, "client")))[4:]  # type: ignore[arg-type]

    def decode() -> object:
        header, start = decode_request_header(frame)
        return decode_message(request, header.api_version, frame, start)

    return Costs(best(rounds, lambda: encode_request_chunks(msg, version, 1, "client")), best(rounds, decode))


def kio_costs(case: Case, rounds: int) -> Costs:
    """Measure the body alone with kio; nothing where it is missing."""
    name = type(case.msg).__name__
    api, part = (name[:-7], "request") if isinstance(case.msg, Request) else (name[:-8], "response")
    try:
        serial: Any = importlib.import_module("kio.serial")
        schema: Any = importlib.import_module(f"kio.schema.{api.lower()}.v{case.version}.{part}")
    except ImportError:
        return Costs(None, None)
    read, write = serial.entity_reader(getattr(schema, name)), serial.entity_writer(getattr(schema, name))
    body = encode_message(case.msg, case.version)
    entity, _ = read(body, 0)

    def encode() -> bytes:
        buffer = io.BytesIO()
        write(buffer, entity)
        return buffer.getvalue()

    assert encode() == body, f"kio writes {case.what} in another way"
    return Costs(best(rounds, encode), best(rounds, lambda: read(body, 0)))


def shown(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:,.1f} us"


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table; return the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two rounds: a look, not a measurement")
    options = parser.parse_args(words)
    rounds = 2 if options.quick else options.rounds
    columns = ("encode", "decode", "kio encode", "kio decode")
    print(f"{'what':42}" + "".join(f"{column:>14}" for column in columns))
    measured: dict[str, tuple[Costs, Costs]] = {}
    for case in cases():
        ours, kio = measured[case.what] = our_costs(case, rounds), kio_costs(case, rounds)
        print(f"{case.what:42}" + "".join(f"{shown(cost):>14}" for cost in (*ours, *kio)), flush=True)
    return findings(measured)


def findings(measured: Mapping[str, tuple[Costs, Costs]]) -> list[Finding]:
    """Turn the costs of each message, ours and kio's, into results."""
    found: list[Finding] = []
    for what, (ours, kio) in measured.items():
        for way in Costs._fields:
            costs = {"kafkalog": getattr(ours, way), "kio": getattr(kio, way)}
            least = {name: [cost] for name, cost in costs.items() if cost is not None}
            # Of one round, the best: no median of runs.
            each = compared(f"{way} {what}", "µs", least, {"kio": "kio"}, better=LOWER, scale=1e6)
            found += [replace(one, runs=None) for one in each]
    return found


if __name__ == "__main__":
    main()
