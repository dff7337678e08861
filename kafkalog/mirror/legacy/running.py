"""Run the streams of all sources in threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kafkalog.client.consumer import TopicFilter
from kafkalog.mirror.legacy.connected import ConnectedStream, is_old_consumer
from kafkalog.mirror.legacy.defaults import CONSUMER, with_defaults
from kafkalog.mirror.legacy.mirroring import Mirroring
from kafkalog.mirror.legacy.passing import DESERIALIZERS, without
from kafkalog.mirror.legacy.senders import Senders
from kafkalog.mirror.legacy.streams import Stream

_POLL_S = 0.25
TOGETHER_S = 3.0
"""The time for which a stream that ends waits for the others, which may wait for a cluster."""


def run(
    consumers: Sequence[Mapping[str, str]],
    producer: Mapping[str, str],
    topics: TopicFilter,
    *,
    streams: int,
    commit_interval: float,
    abort: bool,
    stop: threading.Event,
) -> None:
    """Mirror by `streams` consumers in threads for each source, until `stop` is set or one of them fails.

    `consumers` are the properties for each source, of today's consumer or of Kafka 0.8's; all send to one target.

    Raises:
        ConfigError, ZooKeeperError: As `Senders`.
        Exception: The error with which a stream has failed.
    """
    consumers = [_completed(each) for each in consumers]
    failures: list[Exception] = []
    # Apart from `stop`, by which the caller tells that the user wants the mirror to end: a failure is no such wish.
    ending = threading.Event()

    leaving = threading.Barrier(len(consumers) * streams)

    def wait_for_others() -> None:
        # A stream that leaves its group has the partitions of the others assigned anew, also those of streams that have
        # not noted yet how far they are. The next process would mirror their last records again.
        with suppress(threading.BrokenBarrierError):
            leaving.wait(TOGETHER_S)

    def run_stream(stream: Stream | ConnectedStream) -> None:
        try:
            stream.run(ending, wait_for_others)
        except Exception as error:
            failures.append(error)
            leaving.abort()
            ending.set()

    with Senders(producer) as senders:
        mirroring = Mirroring(topics, senders, commit_interval, abort)
        made = [_stream(consumer, number, mirroring) for consumer in consumers for number in range(streams)]
        threads = [threading.Thread(target=run_stream, args=(each,), name=f"mirror-{n}") for n, each in enumerate(made)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                # The main thread must be able to handle signals.
                thread.join(_POLL_S)
                if stop.is_set():
                    ending.set()
        if failures:
            raise failures[0]


def _completed(consumer: Mapping[str, str]) -> Mapping[str, str]:
    given = without(DESERIALIZERS, consumer, "keys and values pass as bytes")
    return given if is_old_consumer(given) else with_defaults(CONSUMER, given)


def _stream(consumer: Mapping[str, str], number: int, mirroring: Mirroring) -> Stream | ConnectedStream:
    if is_old_consumer(consumer):
        # Members of a group have different names, and the file has one.
        own = {key: f"{consumer[key]}-{number}" for key in ("consumer.id", "consumerid") if key in consumer}
        return ConnectedStream({**consumer, **own}, mirroring)
    name = consumer.get("client.id", consumer.get("group.id", "mirror"))
    own = {"client.id": f"{name}-{number}"}
    return Stream({**consumer, **own}, mirroring)
