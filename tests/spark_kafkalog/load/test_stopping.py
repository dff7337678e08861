"""Test that tasks in threads of this process end when the process is to end, or when another task fails."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.schema import Request
from spark_kafkalog.executor import stopping
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.executor.stopping import Stop, StoppedError
from spark_kafkalog.load.runner import ThreadRunner
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.load.scripted import broker_of_topic
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.command import start
from tests.support.scripted import ScriptedBroker, Silence
from tests.support.waiting import wait_until

ENDS_IN_S = 60.0
"""A fetch waits for twice as long."""


class Done(NamedTuple):
    """The result of a task."""

    rows: int = 0
    bytes: int = 0


class NeededError(Exception):
    """A task of the test fails."""


def silent_broker() -> ScriptedBroker:
    return broker_of_topic(lambda request: Silence())


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_load_that_waits_for_a_broker_ends_at_a_signal(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with silent_broker() as broker:
        to = tmp_path / "loads"
        words = ["--bootstrap-server", broker.address, "--topic", "t", "--to", str(to), "--without-spark"]
        load = start("load", *words)
        try:
            wait_until(lambda: broker.seen[FetchRequest] > 0, "a fetch")
            load.send_signal(number)
            _, said = load.communicate(timeout=ENDS_IN_S)
        finally:
            load.kill()
            load.communicate()
    assert load.returncode == code
    assert said.decode().splitlines()[-1].startswith("kafkalog: interrupted while t was loaded.")
    assert list((to / "_staging" / "t").iterdir()) == []


@pytest.mark.parametrize("request_class", [FetchRequest, MetadataRequest])
def test_a_task_that_waits_for_a_broker_ends_if_another_one_fails(request_class: type[Request]) -> None:
    with silent_broker() as broker:
        broker.handlers[request_class] = lambda request: Silence()
        given = {"kafka.bootstrap.servers": broker.address, "subscribe": "t"}
        given |= {f"kafka.{name}.timeout.ms": str(round(20_000 * ENDS_IN_S)) for name in ("request", "default.api")}
        options = SourceOptions.parse(given)

        def work(task: str) -> Done:
            if task == "fails":
                wait_until(lambda: broker.seen[request_class] > 0, "a request")
                raise NeededError
            return Done(sum(each.num_rows for each in read_range(TopicPartition("t", 0), 0, 9, options, ("value",))))

        raised: list[BaseException] = []

        def run() -> None:
            try:
                ThreadRunner(2).run(work, ["waits", "fails"])
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        wait_until(lambda: not thread.is_alive(), "the end of the tasks", ENDS_IN_S)
        thread.join()
    assert [type(each) for each in raised] == [NeededError]


def test_tasks_after_a_stop_have_clients_of_their_own() -> None:
    """Two loads of a process read with the same properties."""
    with broker_of_topic(lambda request: Silence()) as broker:
        options = SourceOptions.parse({"kafka.bootstrap.servers": broker.address, "subscribe": "t"})

        def work(task: str) -> Done:
            if task == "fails":
                wait_until(lambda: broker.seen[FetchRequest] > 0, "a request")
                raise NeededError
            return Done(sum(each.num_rows for each in read_range(TopicPartition("t", 0), 0, 9, options, ("value",))))

        for _ in range(2):
            broker.seen.clear()
            with pytest.raises(NeededError):
                ThreadRunner(2).run(work, ["waits", "fails"])


def test_a_task_that_reads_ends_before_its_range_does(topics: Topics) -> None:
    topic = topics.create("stopping")
    topics.produce(topic, numbers(2000), config={"batch.num.messages": 10})
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, "kafka.max.partition.fetch.bytes": "100"}
    options = SourceOptions.parse(given)
    begun = threading.Event()
    rows = []
    stopped = []

    def work(task: str) -> Done:
        if task == "fails":
            assert begun.wait(ENDS_IN_S)
            raise NeededError
        try:
            for batch in read_range(TopicPartition(topic, 0), 0, 2000, options, ("value",)):
                rows.append(batch.num_rows)
                begun.set()
                wait_until(lambda: stopping.current().requested, "the request to stop", ENDS_IN_S)
        except (RuntimeError, ClientError) as error:
            stopped.append(error)
            raise
        return Done()

    with pytest.raises(NeededError):
        ThreadRunner(2).run(work, ["reads", "fails"])
    assert stopped
    assert 0 < sum(rows) < 2000


def test_a_request_reaches_each_task_once() -> None:
    stop, called = Stop(), list[str]()
    stop.check()
    with stop.calling(lambda: called.append("ended")):
        pass
    with stop.calling(lambda: called.append("runs")):
        stop.request()
    assert called == ["runs"]
    with pytest.raises(StoppedError):
        stop.check()
    with pytest.raises(StoppedError), stop.calling(lambda: called.append("begins")):
        called.append("not reached")
    assert called == ["runs"]
    assert not stopping.current().requested
    with stopping.obeying(stop):
        assert stopping.current() is stop
    assert stopping.current() is not stop
