"""Send requests over a plain socket, without what a client library would hide."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any

from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec


def receive_frame(sock: socket.socket) -> bytes:
    """Return one response without its size, or b"" if the peer has closed the connection."""
    header = _receive(sock, 4)
    if not header:
        return b""
    (size,) = struct.unpack(">i", header)
    return _receive(sock, size)


def _receive(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        try:
            piece = sock.recv(count - len(data))
        except ConnectionResetError:
            return b""
        if not piece:
            return b""
        data += piece
    return bytes(data)


def is_closed(sock: socket.socket) -> bool:
    """Tell whether the peer closes the connection (within the socket's time-out) without another byte."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def exchange(sock: socket.socket, message: Any, version: int, correlation_id: int = 1) -> Any:
    """Send a request and decode its response.

    Raises:
        EOFError: The peer has closed the connection instead.
    """
    sock.sendall(encode_request(message, version, correlation_id, "wire-test"))
    frame = receive_frame(sock)
    if not frame:
        raise EOFError("the connection was closed instead of answered")
    answered, response = decode_response(type(message), version, frame)
    assert answered == correlation_id
    return response


def batch(
    values: Sequence[bytes | None],
    *,
    codec: Codec = Codec.NONE,
    timestamp: int = 1_700_000_000_000,
    **fields: Any,
) -> bytearray:
    """Return a record batch with these values."""
    records = [Record(index, timestamp + index, None, value, ()) for index, value in enumerate(values)]
    return encode_batch(records, codec=codec, **fields)


def produce_request(topic: str, data: dict[int, Any], acks: int = 1, timeout_ms: int = 10_000) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=index, records=records) for index, records in data.items()],
            )
        ],
    )


def produce(sock: socket.socket, topic: str, records: Any, partition: int = 0, acks: int = 1, version: int = 9) -> Any:
    """Produce one batch; return the partition's response."""
    response: ProduceResponse = exchange(sock, produce_request(topic, {partition: records}, acks), version)
    return response.responses[0].partition_responses[0]


def create_topic(sock: socket.socket, name: str, partitions: int = 2, **config: str) -> None:
    """Create a topic; configuration keys are written with underscores."""
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
    result = exchange(sock, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics[0]
    assert result.error_code == 0, result.error_message


def list_offset(sock: socket.socket, topic: str, partition: int = 0, timestamp: int = -1, version: int = 7) -> Any:
    """Return the partition's ListOffsets response for `timestamp` (-1: latest, -2: earliest)."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, max_num_offsets=1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    return exchange(sock, request, version).topics[0].partitions[0]


def end_offset(sock: socket.socket, topic: str, partition: int = 0) -> int:
    offset: int = list_offset(sock, topic, partition).offset
    return offset


def fetch_request(topic: str, offsets: dict[int, int], **fields: Any) -> FetchRequest:
    """Return a fetch by topic name; `partition_max_bytes` applies to every partition."""
    limit = fields.pop("partition_max_bytes", 1 << 20)
    return FetchRequest(
        **{
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 50 << 20,
            "session_epoch": -1,
            "topics": [
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit)
                        for index, offset in offsets.items()
                    ],
                )
            ],
            **fields,
        }
    )


def fetch(sock: socket.socket, topic: str, offsets: dict[int, int], version: int = 12, **fields: Any) -> Any:
    """Fetch from partitions of one topic; return the partitions' responses by index."""
    response: FetchResponse = exchange(sock, fetch_request(topic, offsets, **fields), version)
    assert response.error_code == 0
    return {data.partition_index: data for topic_data in response.responses for data in topic_data.partitions}
