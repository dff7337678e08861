"""Tests of client quotas over sockets: set, describe, immediate effect, and throttling of clients above them."""

from __future__ import annotations

import contextlib
import itertools
import math
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.quota.entities import MAX_INT, QuotaEntity, QuotaKey
from broker.quota.measures import Rate, TokenBucket, Window
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
)
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
)
from kafkalog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.requests.quotas import Parts, alter, alteration, ask, fetched, limit, until_throttled
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, end_offset, exchange, fetch_request, produce_request, receive_frame

ANY = 2
VERSIONS = ApiVersionsRequest(client_software_name="quota-test", client_software_version="1")


def described(sock: socket.socket, *components: tuple[str, int, str | None], strict: bool = False) -> dict[Any, Any]:
    wanted = [
        DescribeClientQuotasComponent(entity_type=kind, match_type=how, match=name) for kind, how, name in components
    ]
    response = exchange(sock, DescribeClientQuotasRequest(components=wanted, strict=strict), 1)
    assert response.error_code == 0
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }  # fmt: skip


def is_held_back(sock: socket.socket, other: socket.socket, topic: str) -> bool:
    """Return whether a request has no answer while another connection is served again and again."""
    sock.sendall(encode_request(VERSIONS, 3, 10, "any"))
    for _ in range(50):
        end_offset(other, topic)
    return not select.select([sock], [], [], 0)[0]


@pytest.fixture
def own(start_broker: Callable[..., KafkalogBroker]) -> KafkalogBroker:
    return start_broker()


def test_quotas_are_set_described_changed_and_removed(own: KafkalogBroker) -> None:
    with own.connect() as sock:
        assert described(sock) == {}
        both: Parts = (("client-id", "c"), ("user", "u"))
        assert alter(
            sock,
            alteration([("user", None)], producer_byte_rate=1024000, request_percentage=12.5),
            alteration(both[::-1], consumer_byte_rate=2048000),
            alteration([("ip", "127.0.0.9")], connection_creation_rate=10),
        ) == [(0, None)] * 3  # fmt: skip
        assert described(sock) == {
            (("user", None),): {"producer_byte_rate": 1024000, "request_percentage": 12.5},
            both: {"consumer_byte_rate": 2048000},
            (("ip", "127.0.0.9"),): {"connection_creation_rate": 10},
        }
        assert set(described(sock, ("user", ANY, None))) == {(("user", None),), both}
        assert set(described(sock, ("user", ANY, None), strict=True)) == {(("user", None),)}
    own.kill()
    own.start()
    with own.connect() as sock:
        limit(sock, [("user", None)], producer_byte_rate=None, request_percentage=50, no_such_key=None)
        limit(sock, both, consumer_byte_rate=None)
        assert described(sock) == {
            (("user", None),): {"request_percentage": 50},
            (("ip", "127.0.0.9"),): {"connection_creation_rate": 10},
        }


def test_what_is_refused_changes_nothing_and_holds_up_nothing_else(own: KafkalogBroker) -> None:
    with own.connect() as sock:
        twice = AlterClientQuotasEntry(
            entity=[AlterClientQuotasEntity(entity_type="user", entity_name="twice")],
            ops=[AlterClientQuotasOp(key="producer_byte_rate", value=1)] * 2,
        )
        outcomes = alter(
            sock,
            alteration([("user", "a")], producer_byte_rate=-1),
            alteration([("ip", "no-such-host.invalid")], connection_creation_rate=1),
            alteration([("user", "good")], producer_byte_rate=7),
            alteration([("user", "good")], producer_byte_rate=8),
            twice,
        )
        assert [code for code, _ in outcomes] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        texts = [text for _, text in outcomes]
        assert texts[0] == "Quota producer_byte_rate must be greater than 0"
        assert texts[1] == "no-such-host.invalid is not a valid IP or resolvable host."
        assert "Duplicate quota key producer_byte_rate" in (texts[4] or "")
        assert described(sock) == {(("user", "good"),): {"producer_byte_rate": 7}}
        assert alter(sock, alteration([("user", "v")], producer_byte_rate=1), validate_only=True) == [(0, None)]
        assert described(sock) == {(("user", "good"),): {"producer_byte_rate": 7}}


def test_filters_that_are_refused(wire: socket.socket) -> None:
    wanted = [DescribeClientQuotasComponent(entity_type="user", match_type=0, match=None)]
    response = exchange(wire, DescribeClientQuotasRequest(components=wanted), 0)
    assert (response.error_code, response.entries) == (ErrorCode.INVALID_REQUEST, None)


def test_nobody_has_scram_credentials(wire: socket.socket) -> None:
    assert exchange(wire, DescribeUserScramCredentialsRequest(users=None), 0).results == []
    response = exchange(wire, DescribeUserScramCredentialsRequest(users=[UserName(name="u")]), 0)
    assert response.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND


def test_a_producer_above_its_rate_is_answered_told_and_held_back(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "fast")], producer_byte_rate=10)
        data = produce_request("t", {0: batch([b"x" * 6000])})
        throttled = ask(sock, "fast", data, 9)
        assert throttled.responses[0].partition_responses[0].base_offset == 0
        assert throttled.throttle_time_ms > 300_000
        assert ask(other, "slow", data, 9).throttle_time_ms == 0
        assert is_held_back(sock, other, "t")


def test_who_was_held_back_is_served_after_its_time_and_not_before(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        sock.settimeout(60)
        create_topic(other, "t", 1)
        limit(other, [("client-id", "fast")], producer_byte_rate=1000)
        began = time.monotonic()
        throttled = ask(sock, "fast", produce_request("t", {0: batch([b"x" * 12_000])}), 9)
        assert 1000 < throttled.throttle_time_ms < 20_000
        assert ask(sock, "fast", VERSIONS, 3).error_code == 0
        assert time.monotonic() - began > throttled.throttle_time_ms / 1000 - 0.001


def test_a_wait_is_no_longer_than_can_be_told(own: KafkalogBroker) -> None:
    with own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "huge")], producer_byte_rate=1, controller_mutation_rate=1e-300)
        for offset in range(4):
            with own.connect() as sock:
                answer = ask(sock, "huge", produce_request("t", {0: batch([b"x" * 900_000])}), 9)
            assert answer.responses[0].partition_responses[0].base_offset == offset
        assert answer.throttle_time_ms == 2**31 - 1
        made = CreateTopicsRequest(topics=[CreatableTopic(name="u", num_partitions=9, replication_factor=1)])
        with own.connect() as sock:
            assert ask(sock, "huge", made, 5).topics[0].error_code == 0
        limit(other, [("client-id", "slow")], request_percentage=1e-310)
        with own.connect() as sock:
            assert ask(sock, "slow", VERSIONS, 3).throttle_time_ms == 1000


@pytest.mark.parametrize("value", [1e308, sys.float_info.max, sys.float_info.min, 5e-324])
def test_whatever_quota_is_accepted_is_lived_with(own: KafkalogBroker, value: float) -> None:
    with own.connect() as sock:
        limit(
            sock, [("client-id", "odd")], controller_mutation_rate=value, request_percentage=value,
            producer_byte_rate=2**63 - 1024, consumer_byte_rate=2**63 - 1024,
        )  # fmt: skip
        for name in "ab":
            made = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
            with own.connect() as odd:
                assert ask(odd, "odd", made, 5).topics[0].error_code == ErrorCode.NONE
                data = produce_request(name, {0: batch([b"x"])})
                with own.connect() as other:
                    assert ask(other, "odd", data, 9).responses[0].partition_responses[0].error_code == ErrorCode.NONE


@given(
    st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 31)), min_size=1, max_size=10),
    st.sampled_from([Rate, TokenBucket]),
)
def test_no_quota_that_is_accepted_is_too_much_to_measure(
    first: float, second: float, uses: list[tuple[int, int]], kind: type[Rate | TokenBucket]
) -> None:
    """Also when it is altered."""
    entity = QuotaEntity.of([("client-id", "c")])
    measure, now_ms = kind(Window(11, 1000), 0), 0
    for quota in (first, second):
        for key in (QuotaKey.CONTROLLER_MUTATION_RATE, QuotaKey.REQUEST_PERCENTAGE):
            entity.check(key, quota)
        for pause_ms, amount in uses:
            now_ms += pause_ms
            assert 0 <= measure.record(amount, quota, now_ms) <= MAX_INT
            assert math.isfinite(measure.per_second(quota, now_ms))
            measure.is_over(quota, now_ms)


def test_the_memory_of_who_is_held_back_is_for_others(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"queued.max.request.bytes": "300000"})
    data = produce_request("t", {0: batch([b"x" * 200_000])})
    with broker.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "fast")], producer_byte_rate=10)
        with broker.connect() as sock, broker.connect() as third:
            assert ask(sock, "fast", data, 9).throttle_time_ms > 300_000
            # What it sends from now on stays outside, too.
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(10):
                    sock.send(encode_request(data, 9, 1, "fast"))
            third.settimeout(60)
            for _ in range(3):
                assert ask(third, "slow", data, 9).throttle_time_ms == 0


def test_a_request_that_is_larger_than_all_memory_is_served(start_broker: Callable[..., KafkalogBroker]) -> None:
    """Also when others are being received: what was begun is taken to its end."""
    broker = start_broker({"queued.max.request.bytes": "300000"})
    with broker.connect() as one, broker.connect() as other:
        create_topic(one, "t", 1, max_message_bytes="20000000")
        one.settimeout(60)
        other.settimeout(60)
        large = encode_request(produce_request("t", {0: batch([b"x" * 6_000_000])}), 9, 1, "large")
        one.sendall(large[:2_000_000])
        other.sendall(large[:50_000])
        one.sendall(large[2_000_000:])
        assert receive_frame(one)
        other.sendall(large[50_000:])
        assert receive_frame(other)
        assert end_offset(one, "t") == 2


def test_held_back_clients_that_left_are_gone(start_broker: Callable[..., KafkalogBroker]) -> None:
    # Longer than this process may be put aside between two requests.
    broker = start_broker({"connections.max.idle.ms": "3000", "max.connections": "3"})
    with broker.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "fast")], producer_byte_rate=10)
        for _ in range(2):
            with broker.connect() as sock:
                assert ask(sock, "fast", produce_request("t", {0: batch([b"x" * 6000])}), 9).throttle_time_ms > 300_000

        def has_room() -> bool:
            end_offset(other, "t")
            with broker.connect() as sock:
                sock.sendall(encode_request(VERSIONS, 3, 1, "new"))
                return bool(receive_frame(sock))

        wait_until(has_room, "a connection")


def test_what_was_sent_without_acks_is_served_though_its_client_left(own: KafkalogBroker) -> None:
    with own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "fast")], producer_byte_rate=10_000)
        with own.connect() as sock:
            data = encode_request(produce_request("t", {0: batch([b"x" * 60_000])}, acks=0), 9, 1, "fast")
            sock.sendall(data * 3)
        wait_until(lambda: end_offset(other, "t") == 3, "all of it")


def test_a_producer_without_acks_is_held_back(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "fast")], producer_byte_rate=10)
        sock.sendall(encode_request(produce_request("t", {0: batch([b"x" * 6000])}, acks=0), 9, 1, "fast"))
        wait_until(lambda: end_offset(other, "t") == 1, "the record")
        assert is_held_back(sock, other, "t")


def test_requests_sent_ahead_wait_too(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "fast")], producer_byte_rate=10)
        data = encode_request(produce_request("t", {0: batch([b"x" * 6000])}), 9, 1, "fast")
        sock.sendall(data * 3)
        assert receive_frame(sock)
        assert is_held_back(sock, other, "t")
        assert end_offset(other, "t") == 1


@pytest.mark.parametrize("session_epoch", [-1, 0], ids=["without-session", "with-session"])
def test_a_consumer_above_its_rate_gets_nothing_until_its_time(
    start_broker: Callable[..., KafkalogBroker], session_epoch: int
) -> None:
    broker = start_broker({"quota.window.num": "3"})
    with broker.connect() as sock, broker.connect() as other:
        sock.settimeout(60)
        create_topic(other, "t", 1)
        for _ in range(20):
            ask(other, "producer", produce_request("t", {0: batch([b"x" * 1000])}), 9)
        limit(other, [("user", "ANONYMOUS"), ("client-id", "reader")], consumer_byte_rate=5000)
        wanted = fetch_request("t", {0: 0}, session_epoch=session_epoch)
        first = ask(sock, "reader", wanted, 12)
        assert first.throttle_time_ms == 0
        # At most what two windows allow, of the 20,000 bytes that are there.
        assert 9000 < len(first.responses[0].partitions[0].records) <= 10_000
        began = time.monotonic()
        second = until_throttled(sock, lambda: wanted)
        assert second.throttle_time_ms <= 2000
        assert (second.error_code, second.session_id, second.responses) == (0, 0, [])
        # Others are served meanwhile.
        assert end_offset(other, "t") == 20
        assert ask(sock, "reader", VERSIONS, 3).error_code == 0
        assert time.monotonic() - began > second.throttle_time_ms / 1000 - 0.001
        assert len(fetched(sock, lambda: wanted)) > 9000


def test_an_incremental_fetch_goes_on_after_its_time(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"quota.window.num": "3"})
    with broker.connect() as sock, broker.connect() as other:
        sock.settimeout(60)
        create_topic(other, "t", 1)
        begun = ask(sock, "reader", fetch_request("t", {0: 0}, session_epoch=0), 12)
        assert begun.session_id
        for _ in range(12):
            ask(other, "producer", produce_request("t", {0: batch([b"x" * 1000])}), 9)
        limit(other, [("client-id", None)], consumer_byte_rate=5000)
        epochs = itertools.count(1)

        def onward() -> Any:
            return fetch_request("t", {}, session_id=begun.session_id, session_epoch=next(epochs))

        assert len(fetched(sock, onward)) > 9000
        throttled = until_throttled(sock, onward)
        assert (throttled.error_code, throttled.session_id, throttled.responses) == (0, begun.session_id, [])
        assert len(fetched(sock, onward)) > 9000


def test_time_on_the_loop_is_bounded_whatever_is_asked(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "busy")], request_percentage=0.0001)
        asked: list[tuple[Any, int]] = [
            (VERSIONS, 3), (FindCoordinatorRequest(key="g", key_type=0), 2), (MetadataRequest(topics=None), 9),
            (produce_request("t", {0: batch([b"x"])}, acks=-1), 9), (fetch_request("t", {0: 0}), 12),
            (DescribeClientQuotasRequest(), 1), (AlterClientQuotasRequest(), 1),
        ]  # fmt: skip
        for message, version in asked:
            with own.connect() as one:
                assert 0 < ask(one, "busy", message, version).throttle_time_ms <= 1000
        assert ask(sock, "other", VERSIONS, 3).throttle_time_ms == 0


def test_a_fetch_that_waits_keeps_nobody_busy(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", "patient")], request_percentage=2)
        # Half a second of waiting would be 4.5 % over eleven windows.
        waited = ask(sock, "patient", fetch_request("t", {0: 0}, max_wait_ms=500, min_bytes=1), 12)
        assert (waited.error_code, waited.throttle_time_ms) == (0, 0)


def test_topics_are_refused_while_partitions_are_owed(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        limit(other, [("user", None)], controller_mutation_rate=0.001)

        def create(name: str, version: int, partitions: int = 5) -> Any:
            topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            return ask(sock, "maker", CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version)

        def throttled_create(name: str, version: int) -> tuple[int, bool]:
            with own.connect() as one:
                topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                answer = ask(one, "maker", CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version)
                return answer.topics[0].error_code, answer.throttle_time_ms > 60_000

        checked = CreateTopicsRequest(
            topics=[CreatableTopic(name="v", num_partitions=5, replication_factor=1)],
            timeout_ms=30_000,
            validate_only=True,
        )
        assert ask(sock, "maker", checked, 6).topics[0].error_code == 0
        assert create("first", 6).topics[0].error_code == 0
        exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert throttled_create("refused", 6) == (exceeded, True)
        # Who does not know the error is served, and waits.
        assert throttled_create("old", 5) == (0, True)
        with own.connect() as one:
            more = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="first", count=9, assignments=None)], timeout_ms=30_000
            )
            assert ask(one, "maker", more, 3).results[0].error_code == exceeded
        with own.connect() as one:
            gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="first")], timeout_ms=30_000)
            assert ask(one, "maker", gone, 6).responses[0].error_code == exceeded
        with own.connect() as one:
            made = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
            answer = ask(one, "maker", made, 9)
            assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
        listed = {topic.name for topic in ask(other, "looker", MetadataRequest(topics=None), 9).topics}
        assert listed == {"first", "old", "auto"}


def test_large_alterations_are_refused_whole_and_others_take_turns(own: KafkalogBroker) -> None:
    with own.connect() as sock:
        many = [alteration([("client-id", f"client{number}")], producer_byte_rate=1) for number in range(10_001)]
        outcomes = alter(sock, *many)
        assert {code for code, _ in outcomes} == {ErrorCode.POLICY_VIOLATION}
        assert described(sock) == {}
        assert alter(sock, *many[:5000]) == [(0, None)] * 5000
        assert len(described(sock)) == 5000


def test_hosts_without_an_address_are_told_of_and_can_be_removed(own: KafkalogBroker) -> None:
    with own.connect() as sock:
        hosts = [alteration([("ip", f"no-such-host-{at}.invalid")], connection_creation_rate=1) for at in range(25)]
        outcomes = alter(sock, *hosts, alteration([("ip", "localhost")], connection_creation_rate=1000))
        assert [code for code, _ in outcomes[:25]] == [ErrorCode.INVALID_REQUEST] * 25
        assert set(described(sock)) <= {(("ip", "localhost"),)}
        limit(sock, [("ip", "no-such-host.invalid")], connection_creation_rate=None)


def test_connections_come_no_faster_than_an_address_may(own: KafkalogBroker) -> None:
    with own.connect() as sock:
        limit(sock, [("ip", "localhost")], connection_creation_rate=1)
        kept = []
        for _ in range(30):
            one = own.connect()
            one.settimeout(30)
            one.sendall(encode_request(VERSIONS, 3, 1, "many"))
            if not receive_frame(one):
                one.close()
                break
            kept.append(one)
        # Ten at once, or more where this takes long.
        assert 10 <= len(kept) < 30
        for one in kept:
            one.close()
        limit(sock, [("ip", "localhost")], connection_creation_rate=None)
        with own.connect() as one:
            assert ask(one, "many", VERSIONS, 3).error_code == 0


def test_connections_beyond_the_brokers_rate_wait(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"max.connection.creation.rate": "1"})
    began = time.monotonic()
    for _ in range(14):
        with broker.connect() as sock:
            sock.settimeout(60)
            assert ask(sock, "many", VERSIONS, 3).error_code == 0
    assert time.monotonic() - began > 1


def test_a_broker_stops_while_clients_are_held_back(own: KafkalogBroker) -> None:
    with own.connect() as sock, own.connect() as other:
        create_topic(other, "t", 1)
        limit(other, [("client-id", None)], producer_byte_rate=1)
        assert ask(sock, "fast", produce_request("t", {0: batch([b"x" * 6000])}), 9).throttle_time_ms > 1_000_000
        own.stop()
    own.start()
    with own.connect() as other:
        assert end_offset(other, "t") == 1
