"""Test that pipelined requests are served and answered in order."""

from __future__ import annotations

import socket
from typing import Any

from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.records.batch import Record
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from tests.support.wire import batch, end_offset, fetch_request, produce_request, receive_frame

VERSIONS = ApiVersionsRequest(client_software_name="wire-test", client_software_version="1")


def exchange_all(sock: socket.socket, requests: list[tuple[Any, int]]) -> list[Any]:
    """Send all requests at once; their responses, which come in the order of the requests."""
    sock.sendall(b"".join(encode_request(message, v, at, "wire-test") for at, (message, v) in enumerate(requests)))
    responses = []
    for at, (message, version) in enumerate(requests):
        answered, response = decode_response(type(message), version, receive_frame(sock))
        assert answered == at
        responses.append(response)
    return responses


def test_a_fetch_that_waits_is_answered_before_what_follows(wire: socket.socket, topic: str) -> None:
    waiting = fetch_request(topic, {0: 0}, max_wait_ms=500, min_bytes=1)
    requests = [(VERSIONS, 3), (waiting, 12), (VERSIONS, 3), (waiting, 12), (VERSIONS, 3)]
    _, first, _, second, _ = exchange_all(wire, requests)
    assert [response.responses[0].partitions[0].error_code for response in (first, second)] == [0, 0]


def test_records_that_workers_convert_keep_their_place(wire: socket.socket, topic: str) -> None:
    large = encode_message_set([Record(at, at, None, b"x" * 100) for at in range(2000)], magic=1, codec=Codec.GZIP)
    requests = [
        (produce_request(topic, {0: batch([b"first"])}), 9),
        (produce_request(topic, {0: large}), 2),
        (produce_request(topic, {0: batch([b"last"])}), 9),
    ]
    found = [response.responses[0].partition_responses[0] for response in exchange_all(wire, requests)]
    assert [(each.error_code, each.base_offset) for each in found] == [(0, 0), (0, 1), (0, 2001)]
    assert end_offset(wire, topic) == 2002


def test_a_request_may_hold_records_for_workers_and_others(wire: socket.socket, topic: str) -> None:
    """Each partition has its own answer, in the order of the request, whatever becomes of the others."""
    large = encode_message_set([Record(at, at, None, b"x" * 100) for at in range(2000)], magic=1, codec=Codec.GZIP)
    damaged = bytearray(large)
    damaged[-1] ^= 1
    small = encode_message_set([Record(0, 0, None, b"small")], magic=1)
    requests = [
        (produce_request(topic, {0: large, 7: large, 1: small}), 2),
        (produce_request(topic, {1: small, 0: damaged}), 2),
        (produce_request(topic, {0: small, 1: large}), 2),
    ]
    found = [
        [(each.index, each.error_code, each.base_offset) for each in response.responses[0].partition_responses]
        for response in exchange_all(wire, requests)
    ]
    assert found == [
        [(0, 0, 0), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (1, 0, 0)],
        [(1, 0, 1), (0, ErrorCode.CORRUPT_MESSAGE, -1)],
        [(0, 0, 2000), (1, 0, 2)],
    ]
