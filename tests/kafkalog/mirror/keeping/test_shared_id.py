"""Test the producer id that the processes of a mirror share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kafkalog.client.transactions.requests import ProducerIdentity, TransactionRequests
from kafkalog.mirror.copying.rechecker import Rechecker
from kafkalog.mirror.keeping.shared_id import ASK_AGAIN_S, OtherProducerIdError, SharedProducerId
from kafkalog.mirror.rechecks import CHECK_S
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.errors import CoordinatorLoadInProgressError, TransactionalIdAuthorizationFailedError
from kafkalog.records.batch import NO_PRODUCER_ID
from tests.kafkalog.mirror.conftest import Clusters


@pytest.fixture
def rechecker(clusters: Clusters) -> Iterator[Rechecker]:
    clients = clusters.client("source"), clusters.client("target")
    settings, _ = MirrorSettings.of({}, "source", "target", clients)
    with Rechecker(settings) as made:
        yield made


def shared_id(rechecker: Rechecker, alias: str) -> SharedProducerId:
    return SharedProducerId(rechecker.target, alias, rechecker)


def check(shared: SharedProducerId, rechecker: Rechecker, now: float) -> None:
    """Check as the mirroring thread does, until the rechecker's thread has asked."""
    shared.check(now)
    rechecker.begin(lambda: None).result(60)
    shared.check(now)


def test_two_processes_have_the_same_one_and_it_is_used_once_a_day(rechecker: Rechecker, alias: str) -> None:
    first, second = shared_id(rechecker, alias), shared_id(rechecker, alias)
    check(first, rechecker, 0.0)
    assert first.value == NO_PRODUCER_ID, "nobody needs one yet"
    assert first.ask(0.0) == second.ask(10.0) != NO_PRODUCER_ID
    before = epoch_of(rechecker, alias)
    check(first, rechecker, ASK_AGAIN_S - 1)
    assert epoch_of(rechecker, alias) == before + 1, "only the question itself has used it"
    check(first, rechecker, ASK_AGAIN_S)
    assert epoch_of(rechecker, alias) == before + 3


def epoch_of(rechecker: Rechecker, transactional_id: str) -> int:
    with TransactionRequests(rechecker.target.cluster, transactional_id) as requests:
        return requests.init().producer_epoch


def test_another_id_ends_the_worker(rechecker: Rechecker, alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the coordinator has forgotten the transactional id."""
    shared = shared_id(rechecker, alias)
    shared.ask(0.0)
    other = shared.value + 1
    monkeypatch.setattr(TransactionRequests, "init", lambda requests: ProducerIdentity(other, 0))
    with pytest.raises(OtherProducerIdError, match=alias):
        check(shared, rechecker, ASK_AGAIN_S)


def test_the_mirroring_does_not_wait_for_the_answer(
    rechecker: Rechecker, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = shared_id(rechecker, alias)
    shared.ask(0.0)
    may_answer, asked = threading.Event(), threading.Semaphore(0)

    def slow(requests: TransactionRequests) -> ProducerIdentity:
        asked.release()
        assert may_answer.wait(60)
        return ProducerIdentity(shared.value, 0)

    monkeypatch.setattr(TransactionRequests, "init", slow)
    shared.check(ASK_AGAIN_S)
    assert asked.acquire(timeout=60)
    shared.check(ASK_AGAIN_S + 1)
    may_answer.set()
    check(shared, rechecker, ASK_AGAIN_S + 2)
    assert not asked.acquire(blocking=False), "asked once"


def test_an_error_that_passes_ends_no_worker(rechecker: Rechecker, alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = shared_id(rechecker, alias)
    shared.ask(0.0)
    errors = [CoordinatorLoadInProgressError(), TransactionalIdAuthorizationFailedError()]

    def refuse(requests: TransactionRequests) -> ProducerIdentity:
        raise errors.pop(0)

    monkeypatch.setattr(TransactionRequests, "init", refuse)
    check(shared, rechecker, ASK_AGAIN_S)
    check(shared, rechecker, ASK_AGAIN_S + CHECK_S - 1)
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        check(shared, rechecker, ASK_AGAIN_S + CHECK_S)
