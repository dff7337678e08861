"""Test that errors of calls that were tried again name the last failure, and that closing ends the tries."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError
from kafkalog.client.producer import Producer
from kafkalog.client.retry import Retry
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.kafkalog.client.support import closed_port
from tests.support.command import call, run
from tests.support.scripted import ScriptedBroker, metadata, taken

DEADLINE_S = 60.0


@pytest.fixture
def full() -> Iterator[ScriptedBroker]:
    """A broker whose disk is full."""

    def refuse(request: ProduceRequest) -> ProduceResponse:
        response = taken(request)
        for topic in response.responses:
            for each in topic.partition_responses:
                each.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return response

    broker = ScriptedBroker({ProduceRequest: refuse})
    broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("t", 0): 1})
    broker.handlers[InitProducerIdRequest] = lambda request: InitProducerIdResponse(producer_id=7)
    with broker:
        yield broker


def test_records_that_wait_tell_what_the_broker_answered(full: ScriptedBroker) -> None:
    properties = {"bootstrap.servers": full.address, "delivery.timeout.ms": 4000, "request.timeout.ms": 3000}
    with Producer({**properties, "batch.size": 1, "max.in.flight.requests.per.connection": 1}) as producer:
        for future in [producer.send("t", b"x") for _ in range(2)]:
            error = future.exception(DEADLINE_S)
            assert isinstance(error, ClientTimeoutError)
            assert re.search(r"for 4000 ms \(delivery\.timeout\.ms\): KAFKA_STORAGE_ERROR", str(error))


def test_all_tries_are_counted() -> None:
    servers = {"bootstrap.servers": closed_port(), "default.api.timeout.ms": "3000", "retry.backoff.max.ms": "100"}
    with Cluster(ClientConfig.from_dict(servers)) as cluster, pytest.raises(ClientTimeoutError) as caught:
        # It tries around a request that is tried again itself.
        cluster.topic("t")
    # The last try may have had no time left.
    found = re.match(r"gave up after (\d+) tries: (?:.+; before that: )?cannot connect", str(caught.value))
    assert found is not None
    assert int(found[1]) >= 3


def test_a_call_that_gave_up_is_not_tried_again_by_another_with_its_deadline() -> None:
    config = ClientConfig.from_dict({"bootstrap.servers": "x:1"})
    outer = Retry(config)
    error = ClientTimeoutError("gave up after 3 tries: …")
    error.gave_up_at = outer.deadline
    with pytest.raises(ClientTimeoutError) as caught:
        outer.pause(error)
    assert caught.value is error
    # An earlier deadline was that of one try.
    error.gave_up_at = outer.deadline - 10
    assert outer.pause(error) > 0


def test_who_sleeps_beyond_the_deadline_does_not_try_without_time() -> None:
    class Stalled(threading.Event):
        """Sleeps until the deadline, however short the pause is."""

        def wait(self, timeout: float | None = None) -> bool:
            retry.deadline = time.monotonic()
            return False

    tried: list[None] = []

    def attempt() -> None:
        tried.append(None)
        raise ConnectionFailedError("it is down")

    retry = Retry(ClientConfig.from_dict({"bootstrap.servers": "x:1"}), ended=Stalled())
    with pytest.raises(ClientTimeoutError, match=r"^gave up after 1 tries: it is down$") as caught:
        retry.run(attempt)
    assert len(tried) == 1
    assert isinstance(caught.value.__cause__, ConnectionFailedError)
    assert caught.value.gave_up_at == retry.deadline, "a call around this one does not try again"


def test_calls_end_with_the_cluster() -> None:
    config = ClientConfig.from_dict({"bootstrap.servers": closed_port(), "retry.backoff.max.ms": "600000"})
    cluster = Cluster(config)
    failed: list[Exception] = []

    def call() -> None:
        try:
            cluster.metadata(["t"])
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    cluster.end_retries()
    thread.join(DEADLINE_S / 2)
    assert not thread.is_alive()
    assert len(failed) == 1
    assert "cannot connect" in str(failed[0])
    cluster.close()


def test_a_producer_without_records_ends_the_tries_when_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    real = Cluster.end_retries

    def end_retries(cluster: Cluster) -> None:
        ended.append(any(thread.name == "kafkalog-producer" for thread in threading.enumerate()))
        real(cluster)

    monkeypatch.setattr(Cluster, "end_retries", end_retries)
    producer = Producer({"bootstrap.servers": closed_port(), "max.block.ms": 100})
    with pytest.raises(ClientTimeoutError, match=r"topic t not in metadata after 100 ms \(max\.block\.ms\)"):
        producer.partitions_for("t")
    producer.close()
    assert ended[0], "the sender was waited for first"


UNANSWERED = ("consume", "--topic", "t", "--timeout-ms", "300", "--bootstrap-server")


def test_consume_keeps_its_timeout_where_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own timeouts are a minute and more."""
    monkeypatch.setattr("kafkalog.cli.transfer.consume.LEAST_PATIENCE_MS", 400)
    ended = call(*UNANSWERED, closed_port(), check=1)
    assert "no broker answers" in ended.err
    assert "Processed a total of 0 messages" in ended.err


@pytest.mark.usefixtures("processes")
def test_a_member_keeps_it_too() -> None:
    done = run(*UNANSWERED, closed_port(), "--group", "g")
    assert b"no record came for 300 ms (--timeout-ms)" in done.stderr
    assert b"Processed a total of 0 messages" in done.stderr
