"""Tests of when tokens are made and replaced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalog.client.admin.delegation_tokens import DelegationToken, Principal
from kafkalog.client.errors import AuthenticationError, ClientError, ClientTimeoutError, ConfigError
from kafkalog.client.errors import ConnectionFailedError as Failed
from kafkalog.protocol.errors import DelegationTokenAuthDisabledError
from spark_kafkalog.delegation.clusters import TokenCluster
from spark_kafkalog.delegation.tokens import RETRY_AFTER_S, TokenSource
from spark_kafkalog.options.parsing import OptionsError

CLUSTER = TokenCluster("a", (), "SASL_SSL", "SCRAM-SHA-512")
OWNER = Principal("User", "alice")
LIFE_S = 1000.0


class Brokers:
    """Make a token whenever they are asked, unless they are to fail; also a clock."""

    def __init__(self) -> None:
        self.now = 50_000.0
        self.made = 0
        self.failure: Exception | None = None

    def make(self, cluster: TokenCluster) -> DelegationToken:
        assert cluster == CLUSTER
        if self.failure is not None:
            raise self.failure
        self.made += 1
        ends = int((self.now + LIFE_S) * 1000)
        return DelegationToken(f"token-{self.made}", b"hmac", OWNER, OWNER, 0, ends, ends)

    def clock(self) -> float:
        return self.now


@pytest.fixture
def brokers() -> Brokers:
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
