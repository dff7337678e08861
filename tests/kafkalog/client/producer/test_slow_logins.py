"""Test producers whose brokers take long to log them in, or refuse a topic to their transactions."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer import Producer
from kafkalog.client.producer.producer import STOPPING_S
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError
from kafkalog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.scripted import ScriptedBroker, Silence, api_versions, metadata, taken

DEADLINE_S = 120.0
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "secret",
}


def broker_of_one_topic() -> ScriptedBroker:
    broker = ScriptedBroker(
        {
            ProduceRequest: taken,
            InitProducerIdRequest: lambda request: InitProducerIdResponse(producer_id=7),
            SaslHandshakeRequest: lambda request: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            SaslAuthenticateRequest: lambda request: SaslAuthenticateResponse(),
        }
    )
    broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("t", 0): 1})
    return broker


def test_a_slow_login_is_not_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    begun_again = threading.Event()
    with broker_of_one_topic() as broker:

        def handshake(request: SaslHandshakeRequest) -> SaslHandshakeResponse:
            # The first login takes until another one begins, or else four times as long as answers may take later.
            if broker.seen[SaslHandshakeRequest] == 1:
                begun_again.wait(1.0)
            else:
                begun_again.set()
            return SaslHandshakeResponse(mechanisms=["PLAIN"])

        broker.handlers[SaslHandshakeRequest] = handshake
        with Producer({"bootstrap.servers": broker.address, "enable.idempotence": False, **LOGIN}) as producer:
            producer.partitions_for("t")
            assert not begun_again.is_set()
    assert caplog.text == ""


def test_close_does_not_wait_for_a_login_that_nobody_needs() -> None:
    with broker_of_one_topic() as broker:
        over = threading.Event()

        def silent(request: Any) -> Silence:
            over.wait(DEADLINE_S)
            return Silence()

        broker.handlers[SaslHandshakeRequest] = silent
        patient = {"socket.connection.setup.timeout.ms": 100_000, "request.timeout.ms": 100_000, "max.block.ms": 50}
        producer = Producer({"bootstrap.servers": broker.address, "delivery.timeout.ms": 200_000, **patient, **LOGIN})
        closing = threading.Thread(target=producer.close, daemon=True)
        try:
            with pytest.raises(ClientTimeoutError, match="not in metadata after 50 ms"):
                producer.partitions_for("t")
            closing.start()
            closing.join(DEADLINE_S / 4)
            assert not closing.is_alive()
        finally:
            over.set()


def test_close_waits_for_callbacks_of_records_that_have_failed() -> None:
    """Also where they have failed because of an answer that concerns no record, such as that about a producer id."""
    has_begun, has_closed, closed_before = threading.Event(), threading.Event(), []

    def delivered(metadata: object, error: Exception | None) -> None:
        has_begun.set()
        closed_before.append(has_closed.wait(STOPPING_S * 5))

    def close() -> None:
        producer.close()
        has_closed.set()

    with broker_of_one_topic() as broker:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        broker.handlers[InitProducerIdRequest] = lambda request: InitProducerIdResponse(error_code=code)
        producer = Producer({"bootstrap.servers": broker.address})
        futures = [producer.send("t", b"x", partition=0, on_delivery=delivered) for _ in range(2)]
        assert has_begun.wait(DEADLINE_S)
        closing = threading.Thread(target=close)
        closing.start()
        closing.join(DEADLINE_S)
        assert has_closed.is_set()
        assert closed_before == [False, False]
        assert all(isinstance(future.exception(0), ClusterAuthorizationFailedError) for future in futures)
        assert "IdempotentWrite on the cluster" in str(futures[0].exception(0))


def test_a_topic_that_a_transaction_may_not_write_to() -> None:
    def refused(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[partition])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    with broker_of_one_topic() as broker:
        coordinator = FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)
        broker.handlers |= {
            FindCoordinatorRequest: lambda request: coordinator,
            AddPartitionsToTxnRequest: refused,
            EndTxnRequest: lambda request: EndTxnResponse(),
        }
        broker.handlers[ApiVersionsRequest] = lambda request: api_versions(
            *broker.handlers, FIND_COORDINATOR=3, ADD_PARTITIONS_TO_TXN=3
        )
        config = {"bootstrap.servers": broker.address, "transactional.id": "id"}
        with Producer(config) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            # The error is the topic's, as in Java, whoever finds it: not that the transaction was aborted.
            error = producer.send("t", b"x", partition=0).exception(DEADLINE_S)
            assert isinstance(error, TopicAuthorizationFailedError)
            assert "t" in str(error)
            producer.abort_transaction()
