"""Test mirrors of topics of which the target refuses one."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.mirror import rechecks
from kafkalog.protocol.errors import InvalidConfigError, KafkaError, PolicyViolationError, ReassignmentInProgressError
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.keeping.kept import KEEP
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

_create_topics, _create_partitions = Admin.create_topics, Admin.create_partitions


@pytest.mark.parametrize("more", [{}, KEEP], ids=["translate", "keep"])
def test_a_name_that_is_too_long_in_the_target(
    clusters: Clusters, start_mirror: StartMirror, alias: str, caplog: pytest.LogCaptureFixture, more: dict[str, str]
) -> None:
    long, good = f"{alias}-".ljust(249, "x"), f"good-{alias}"
    for topic in (long, good):
        make(clusters.source, topic)
        write(clusters.source, topic, range(5))
    mirror = start_mirror(f"{long},{good}", **more)
    read_all(clusters.target, f"{alias}.{good}", 5)
    wait_until(lambda: f"{long} is left out, because the target refuses to make it" in caplog.text, "it is said")
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)


@pytest.mark.parametrize("error", [InvalidConfigError, PolicyViolationError], ids=lambda each: each.__name__)
def test_a_topic_is_mirrored_when_the_target_makes_it(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    monkeypatch: pytest.MonkeyPatch,
    error: type[KafkaError],
) -> None:
    bad, good = f"bad-{alias}", f"good-{alias}"
    unwanted = {f"{alias}.{bad}"}

    def create_topics(admin: Admin, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        wanted = list(topics)
        if unwanted & {topic.name for topic in wanted}:
            raise error("not this one")
        _create_topics(admin, wanted, validate_only=validate_only)

    monkeypatch.setattr(Admin, "create_topics", create_topics)
    monkeypatch.setattr(rechecks, "CHECK_S", 0.2)
    for topic in (bad, good):
        make(clusters.source, topic)
        write(clusters.source, topic, range(5))
    mirror = start_mirror(f"{bad},{good}")
    read_all(clusters.target, f"{alias}.{good}", 5)
    assert mirror.progress.restarts == 0
    unwanted.clear()
    read_all(clusters.target, f"{alias}.{bad}", 5)
    assert mirror.stop() is None


def test_mirroring_goes_on_while_a_refused_topic_is_asked_for_again(
    clusters: Clusters, start_mirror: StartMirror, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = f"bad-{alias}", f"good-{alias}"
    refused, asked, answer = threading.Event(), threading.Event(), threading.Event()

    def create_topics(admin: Admin, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        wanted = list(topics)
        if f"{alias}.{bad}" in {topic.name for topic in wanted}:
            if refused.is_set():
                asked.set()
                answer.wait()
            else:
                refused.set()
                raise PolicyViolationError("not now")
        _create_topics(admin, wanted, validate_only=validate_only)

    monkeypatch.setattr(Admin, "create_topics", create_topics)
    monkeypatch.setattr(rechecks, "CHECK_S", 0.2)
    for topic in (bad, good):
        make(clusters.source, topic)
        write(clusters.source, topic, range(5))
    mirror = start_mirror(f"{bad},{good}")
    try:
        wait_until(asked.is_set, "the target is asked again")
        write(clusters.source, good, range(5, 10))
        read_all(clusters.target, f"{alias}.{good}", 10)
        assert mirror.progress.restarts == 0
    finally:
        answer.set()
    read_all(clusters.target, f"{alias}.{bad}", 5)
    assert mirror.stop() is None


def test_only_partitions_that_the_target_does_not_add_wait(
    clusters: Clusters, start_mirror: StartMirror, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"words-{alias}"
    remote = f"{alias}.{topic}"
    refusing = [True]

    def create_partitions(admin: Admin, counts: dict[str, int]) -> None:
        if refusing and remote in counts:
            raise ReassignmentInProgressError("later")
        _create_partitions(admin, counts)

    monkeypatch.setattr(Admin, "create_partitions", create_partitions)
    monkeypatch.setattr(rechecks, "CHECK_S", 0.2)
    make(clusters.source, topic, 2)
    make(clusters.target, remote, 1)
    for number in (0, 1):
        write(clusters.source, topic, range(5), number)
    mirror = start_mirror(topic)
    assert read_all(clusters.target, remote, 5).keys() == {0}
    assert mirror.progress.restarts == 0
    refusing.clear()
    wait_until(lambda: len(mirror.progress.partitions()) == 2, "the target has both")
    assert read_all(clusters.target, remote, 10).keys() == {0, 1}
    assert mirror.stop() is None
