"""Tests of links to real brokers: ours, which is also killed, and Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from broker.net.links.link import Link
from broker.net.links.link_errors import LinkBrokenError, LinkError, LinkRefusedError
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from peers import require
from peers.brokers import kafka
from tests.broker.net.links.support import DEADLINE_S, linked, run
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, fetch_request, produce_request


@pytest.fixture(scope="module")
def apache_kafka(processes: None) -> Iterator[str]:
    require(kafka.missing(kafka.KAFKA_3))
    with kafka.ApacheKafka(kafka.KAFKA_3, heap=("-Xmx512M",)) as running:
        yield running.bootstrap


@pytest.fixture(params=["kafkalog", pytest.param("Apache Kafka", marks=pytest.mark.peer)])
def peer(processes: None, request: pytest.FixtureRequest) -> str:
    """host:port of each of the brokers."""
    address: str = request.getfixturevalue("broker_address" if request.param == "kafkalog" else "apache_kafka")
    return address


async def make_topic(link: Link, name: str, **config: str) -> None:
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    answer = await link.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), max_version=5)
    assert answer.topics[0].error_code in (0, 36), answer.topics[0].error_message

    async def has_leader() -> bool:
        described = await link.request(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        found = described.topics[0]
        return not found.error_code and all(not each.error_code for each in found.partitions)

    async with asyncio.timeout(DEADLINE_S):
        while not await has_leader():
            await asyncio.sleep(0.05)


def test_metadata_produce_and_fetch_of_large_records(peer: str) -> None:
    async def main() -> None:
        async with linked(peer) as link:
            await make_topic(link, "link-large", max_message_bytes="30000000")
            data = batch([bytes(range(256)) * 80_000])
            produced = await link.request(produce_request("link-large", {0: data}))
            answer = produced.responses[0].partition_responses[0]
            assert answer.error_code == 0
            fetched = await link.request(fetch_request("link-large", {0: answer.base_offset}), max_version=12)
            records = fetched.responses[0].partitions[0].records
            # The leader writes offset and epoch in front of what the checksum covers.
            assert bytes(records)[17:] == bytes(data)[17:]
            assert isinstance(records.obj, bytearray), "a view of the buffer that the socket received into"
            assert len(records.obj) >= len(records)

    run(main())


def test_records_of_one_response_stay_while_the_next_come(peer: str) -> None:
    async def main() -> None:
        async with linked(peer) as link:
            await make_topic(link, "link-views")
            base: list[int] = []
            for number in range(6):
                produced = await link.request(
                    produce_request("link-views", {0: batch([bytes([number]) * 200_000])}), timeout=DEADLINE_S
                )
                base.append(produced.responses[0].partition_responses[0].base_offset)
            limits = {"max_bytes": 1, "partition_max_bytes": 1}
            # All of them in flight at once.
            waiting = [link.send(fetch_request("link-views", {0: offset}, **limits), max_version=12) for offset in base]
            views = [(await each).responses[0].partitions[0].records for each in waiting]
            for number, view in enumerate(views):
                assert bytes(view[-100_000:]).count(number) >= 99_000

    run(main())


def test_responses_belong_to_their_requests(peer: str) -> None:
    async def main() -> None:
        async with linked(peer) as link:
            names = [f"link-no-such-{number}" for number in range(40)]
            requests = [
                MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
                for name in names
            ]
            assert link.in_flight + link.waiting == 0
            futures = [link.send(each) for each in requests]
            assert link.waiting == 40
            assert [(await each).topics[0].name for each in futures] == names
            assert link.in_flight + link.waiting == 0
            await link.connect()
            assert link.version_of(FetchRequest, 12) == 12
            with pytest.raises(UnsupportedVersionError, match="FETCH"):
                await link.request(FetchRequest(), max_version=1, min_version=2)

    run(main())


def test_a_broker_that_is_killed_and_comes_back(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()

    async def main() -> None:
        async with linked(broker.address) as link:
            await link.request(MetadataRequest(topics=[]))
            broker.kill()
            refused: LinkError | None = None
            while not isinstance(refused, LinkRefusedError):
                try:
                    await link.request(MetadataRequest(topics=[]))
                except LinkBrokenError:
                    # It takes a moment until the kernel has noticed.
                    continue
                except LinkRefusedError as error:
                    refused = error
            assert f"{broker.address} refuses connections" in str(refused)
            await asyncio.to_thread(broker.start)
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    try:
                        answer = await link.request(MetadataRequest(topics=[]))
                    except LinkError:
                        continue
                    break
            assert answer.brokers[0].port == broker.port

    run(main())
