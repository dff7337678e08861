"""Tests of when tokens are made and replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kafkalog.client.admin.security.delegation_tokens import DelegationToken, Principal
from kafkalog.client.errors import AuthenticationError, ClientError, ClientTimeoutError, ConfigError
from kafkalog.client.errors import ConnectionFailedError as Failed
from kafkalog.protocol.errors import DelegationTokenAuthDisabledError
from spark_kafkalog.delegation import tokens
from spark_kafkalog.delegation.clusters import TokenCluster
from spark_kafkalog.delegation.tokens import RETRY_AFTER_S, TokenSource
from spark_kafkalog.options.parsing import OptionsError
from tests.support.waiting import wait_until

CLUSTER = TokenCluster("a", (), "SASL_SSL", "SCRAM-SHA-512")
OWNER = Principal("User", "alice")
LIFE_S = 1000.0


class Brokers:
    """Make a token whenever they are asked, unless they are to fail; also a clock."""

    def __init__(self) -> None:
        self.now = 50_000.0
        self.asked = 0
        self.made = 0
        self.failure: Exception | None = None
        self.fails_after_s = 0.0
        self.gate = threading.Event()
        self.gate.set()

    def make(self, cluster: TokenCluster) -> DelegationToken:
        assert cluster == CLUSTER
        self.asked += 1
        self.gate.wait(60)
        if self.failure is not None:
            self.now += self.fails_after_s
            raise self.failure
        self.made += 1
        ends = int((self.now + LIFE_S) * 1000)
        return DelegationToken(f"token-{self.made}", b"hmac", OWNER, OWNER, 0, ends, ends)

    def clock(self) -> float:
        return self.now


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(tokens, "PATIENCE_S", 60.0)
    return Brokers()


@pytest.fixture
def token(brokers: Brokers) -> Callable[[], str]:
    source = TokenSource(CLUSTER, brokers.make, brokers.clock)
    return lambda: source.token().token_id


def test_a_token_is_replaced_after_three_quarters_of_its_time(brokers: Brokers, token: Callable[[], str]) -> None:
    assert (token(), token()) == ("token-1", "token-1")
    brokers.now += LIFE_S * 0.75 - 1
    assert token() == "token-1"
    brokers.now += 1
    assert (token(), token()) == ("token-2", "token-2")


def test_a_token_that_cannot_be_replaced_is_used_to_its_end(
    brokers: Brokers, token: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    token()
    brokers.now += LIFE_S * 0.8
    brokers.failure = ClientTimeoutError("nobody answers")
    assert (token(), token()) == ("token-1", "token-1")
    assert caplog.text.count("spark.kafka.clusters.a could not be replaced; it can be used for another 200 s") == 1
    brokers.now += RETRY_AFTER_S
    token()
    assert caplog.text.count("could not be replaced") == 2
    brokers.now += LIFE_S * 0.2
    with pytest.raises(Failed, match=r"no delegation token by spark\.kafka\.clusters\.a: nobody answers"):
        token()
    brokers.failure = None
    assert token() == "token-2"


def test_the_next_try_is_some_time_after_the_end_of_the_one_before(brokers: Brokers, token: Callable[[], str]) -> None:
    """A try takes as long as the client's timeout, if nobody answers."""
    token()
    brokers.now += LIFE_S * 0.8
    brokers.failure, brokers.fails_after_s = ClientTimeoutError("nobody answers"), RETRY_AFTER_S * 6
    assert (token(), token()) == ("token-1", "token-1")
    assert brokers.asked == 2
    brokers.now += RETRY_AFTER_S
    token()
    assert brokers.asked == 3


def test_nobody_waits_for_brokers_that_do_not_answer_while_the_token_is_good(
    brokers: Brokers, token: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token()
    brokers.now += LIFE_S * 0.8
    monkeypatch.setattr(tokens, "PATIENCE_S", 0.0)
    brokers.gate.clear()
    assert [token() for _ in range(3)] == ["token-1"] * 3
    brokers.gate.set()
    wait_until(lambda: token() == "token-2", "the new token")
    assert brokers.asked == 2, "one thread at a time asks"


def test_a_defect_does_not_end_the_tries(brokers: Brokers, token: Callable[[], str]) -> None:
    token()
    brokers.now += LIFE_S * 0.8
    brokers.failure = ZeroDivisionError("oops")
    assert token() == "token-1"
    brokers.failure = None
    brokers.now += RETRY_AFTER_S
    assert token() == "token-2"


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (DelegationTokenAuthDisabledError("the broker makes none"), AuthenticationError),
        (AuthenticationError("wrong password"), AuthenticationError),
        (ClientTimeoutError("nobody answers"), ClientError),
        (ConfigError("ssl.truststore.location: …"), OptionsError),
    ],
)
def test_failures_name_the_settings(
    brokers: Brokers, token: Callable[[], str], failure: Exception, raised: type[Exception]
) -> None:
    brokers.failure = failure
    with pytest.raises(raised, match=r"spark\.kafka\.clusters\.a"):
        token()
