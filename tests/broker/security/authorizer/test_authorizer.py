"""Test that the authorizer remembers decisions until entries change, and what it tells the audit log."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from broker import assembly
from broker.config.security.authorizer import BUILT_IN
from broker.config.server import BrokerConfig
from broker.controller.alterations import Alteration, Op
from broker.controller.loggers import LoggerController
from broker.main import JsonFormatter
from broker.metadata.model import ClusterState
from broker.security.authorizer import authorizer
from broker.security.authorizer.authorizer import AUDIT_LOGGER, LONGEST_SHOWN, Authorizer
from broker.security.authorizer.model import AclEntry, ResourcePattern
from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType

ANN = ("User", "ann")
HOST = "10.0.0.1"
WORDS = ResourcePattern(AclResourceType.TOPIC, AclPatternType.LITERAL, "words")
READS = AclEntry("User:ann", "*", AclOperation.READ, AclPermission.ALLOW)


def check(decider: Authorizer, operation: AclOperation, name: str = "words", *, tells_denied: bool = True) -> bool:
    return decider.check(
        ANN, HOST, operation, AclResourceType.TOPIC, name, api="Fetch", count=2, tells_denied=tells_denied
    )


@pytest.mark.parametrize(
    ("settings", "entry", "is_told"),
    [
        ({}, None, True),
        ({}, AclEntry("User:ANONYMOUS", HOST, AclOperation.READ, AclPermission.ALLOW), True),
        ({}, AclEntry("User:ANONYMOUS", HOST, AclOperation.CLUSTER_ACTION, AclPermission.DENY), True),
        ({}, AclEntry("User:ANONYMOUS", HOST, AclOperation.CLUSTER_ACTION, AclPermission.ALLOW), False),
        ({}, AclEntry("User:*", "*", AclOperation.ALL, AclPermission.ALLOW), False),
        ({"super.users": "User:ANONYMOUS"}, None, False),
        ({"zookeeper.connect": ""}, None, False),
    ],
)
def test_a_member_whose_brokers_would_be_denied_is_told(
    caplog: pytest.LogCaptureFixture, settings: dict[str, str], entry: AclEntry | None, is_told: bool
) -> None:
    config = BrokerConfig({"authorizer.class.name": BUILT_IN[0], "zookeeper.connect": "x:1", **settings})
    cluster = ResourcePattern(AclResourceType.CLUSTER, AclPatternType.LITERAL, CLUSTER_NAME)
    acls = {} if entry is None else {cluster: frozenset({entry})}
    store: Any = SimpleNamespace(state=ClusterState("id", acls=acls), subscribe=lambda listener: None)
    assert assembly._authorizer(config, store) is not None
    assert ("allows that principal ClusterAction" in caplog.text) is is_told


def test_a_decision_is_made_once_and_again_after_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    decider = Authorizer(frozenset(), allow_if_none=False)
    asked: list[str] = []
    decide = decider.rules.decide

    def counting(*question: object) -> object:
        asked.append(str(question[-1]))
        return decide(*question)  # type: ignore[arg-type]

    monkeypatch.setattr(decider.rules, "decide", counting)
    assert [check(decider, AclOperation.READ) for _ in range(3)] == [False] * 3
    assert asked == ["words"]
    decider.change([(WORDS, frozenset({READS}))])
    assert [check(decider, AclOperation.READ) for _ in range(3)] == [True] * 3
    assert asked == ["words"] * 2
    decider.change([(WORDS, frozenset())])
    assert not check(decider, AclOperation.READ)
    assert decider.revision == 2


def test_clients_cannot_fill_the_memory_with_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "MOST_REMEMBERED", 10)
    decider = Authorizer(frozenset(), allow_if_none=False)
    for number in range(100):
        check(decider, AclOperation.READ, f"topic-{number}")
        check(decider, AclOperation.READ, "x" * 30_000 + str(number))
    assert 1 <= len(decider._decisions) <= 10
    assert all(len(str(key[-1])) < 300 for key in decider._decisions)


def test_the_audit_log_has_kafkas_line(caplog: pytest.LogCaptureFixture) -> None:
    decider = Authorizer(frozenset(), allow_if_none=False, acls={WORDS: frozenset({READS})})
    caplog.set_level(logging.DEBUG, AUDIT_LOGGER)
    check(decider, AclOperation.READ)
    check(decider, AclOperation.WRITE)
    check(decider, AclOperation.WRITE, tells_denied=False)
    decider.allows(ANN, HOST, AclOperation.WRITE, AclResourceType.TOPIC, "words")
    decider.check_any(ANN, HOST, AclOperation.READ, AclResourceType.TOPIC, api="InitProducerId")
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["DEBUG", "INFO", "DEBUG"]
    assert told[1][1] == (
        "Principal = User:ann is Denied operation = WRITE from host = 10.0.0.1 on resource = Topic:LITERAL:words for "
        "request = Fetch with resourceRefCount = 2 based on rule DefaultDeny"
    )
    assert "is Allowed operation = READ" in told[0][1]
    fields = json.loads(JsonFormatter().format(caplog.records[1]))
    assert fields["message"] == told[1][1]
    assert (fields["result"], fields["resource"], fields["rule"]) == ("Denied", "Topic:LITERAL:words", "DefaultDeny")
    assert "based on rule MatchingAcl(acl=(resource=Topic:LITERAL:words" in told[0][1]


def test_the_level_of_the_audit_log_can_be_changed_while_the_broker_runs() -> None:
    loggers = LoggerController(0)
    assert AUDIT_LOGGER in loggers.describe("0")
    try:
        loggers.alter("0", [Alteration(AUDIT_LOGGER, Op.SET, "DEBUG")], validate_only=False)
        assert loggers.describe("0")[AUDIT_LOGGER] == "DEBUG"
    finally:
        logging.getLogger(AUDIT_LOGGER).setLevel(logging.NOTSET)


def test_the_audit_log_is_one_line_whatever_the_name(caplog: pytest.LogCaptureFixture) -> None:
    decider = Authorizer(frozenset(), allow_if_none=False)
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    check(decider, AclOperation.READ, "words\nPrincipal = User:ann is Allowed\x1b[2K")
    check(decider, AclOperation.READ, "y" * 30_000)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.isprintable()
    assert "words\\nPrincipal" in first
    assert len(second) < LONGEST_SHOWN + 400
