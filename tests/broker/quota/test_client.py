"""Tests of the wait times that clients get: by kind, by share, and after changes."""

from __future__ import annotations

import pytest

from broker.config.server import BrokerConfig
from broker.quota.client import SWEEP_AT_LEAST, ClientQuota, ClientQuotas, Kind, Mutations, Used
from broker.quota.connections import ConnectionRates, canonical, is_address
from broker.quota.entities import QuotaEntity
from broker.quota.measures import TokenBucket, Window
from kafkalog.protocol.errors import ThrottlingQuotaExceededError

WINDOW = Window(11, 1000)


def of(*parts: tuple[str, str | None]) -> QuotaEntity:
    return QuotaEntity.of(parts)


def test_nothing_is_counted_without_a_quota() -> None:
    quotas = ClientQuotas(WINDOW, WINDOW)
    quotas.update({of(("client-id", "c")): {"producer_byte_rate": 100.0}})
    assert [quota.limited for quota in quotas] == [True, False, False, False]
    assert quotas.produce.record("u", "c", 5000, 0) > 0
    assert quotas.produce.record("u", "other", 10**9, 0) == 0
    assert [used.share for used in quotas.produce.used(0)] == [("", "c")]
    quotas.update({})
    assert not any(quota.limited for quota in quotas)
    assert list(quotas.produce.used(0)) == []


def test_a_quota_of_a_user_is_shared_and_a_default_is_everybodys_own() -> None:
    quota = ClientQuota(Kind.FETCH, WINDOW)
    rate = {"consumer_byte_rate": 100.0}
    quota.update({of(("user", "shared")): rate, of(("client-id", None)): rate})
    assert quota.record("shared", "a", 1000, 0) == 0
    assert quota.record("shared", "b", 1000, 0) > 0
    assert quota.record("x", "a", 1000, 0) == 0
    assert quota.record("x", "b", 1000, 0) == 0
    assert quota.record("y", "a", 1000, 0) > 0


def test_a_raised_quota_counts_what_was_used_before() -> None:
    quota = ClientQuota(Kind.PRODUCE, WINDOW)
    quota.update({of(("user", None)): {"producer_byte_rate": 100.0}})
    waits = quota.record("u", "c", 5000, 0)
    quota.update({of(("user", None)): {"producer_byte_rate": 200.0}})
    assert 0 < quota.record("u", "c", 0, 0) < waits
    quota.update({of(("user", None)): {"producer_byte_rate": 500.0}})
    assert quota.record("u", "c", 0, 0) == 0


def test_time_is_waited_for_no_longer_than_a_window() -> None:
    quotas = ClientQuotas(WINDOW, WINDOW)
    quotas.update({of(("user", None)): {"request_percentage": 1.0, "producer_byte_rate": 1.0}})
    assert quotas.request.record("u", "c", 10_000, 0) == 1000
    assert quotas.produce.record("u", "c", 10_000, 0) > 1_000_000


def test_most_in_a_window() -> None:
    quota = ClientQuota(Kind.FETCH, WINDOW)
    quota.update({of(("client-id", "c")): {"consumer_byte_rate": 100.0}})
    assert quota.most_in_window("u", "c") == 1000
    assert quota.most_in_window("u", "other") == float("inf")


def test_what_waited_is_told() -> None:
    quota = ClientQuota(Kind.PRODUCE, WINDOW)
    quota.update({of(("client-id", "c")): {"producer_byte_rate": 100.0}})
    for _ in range(2):
        quota.throttled("u", "c", quota.record("u", "c", 2000, 0), 0)
    (used,) = quota.used(0)
    assert used == Used(("", "c"), 400.0, 2, 40_000)


def test_clients_that_are_gone_are_forgotten() -> None:
    quota = ClientQuota(Kind.PRODUCE, WINDOW)
    quota.update({of(("client-id", None)): {"producer_byte_rate": 1.0}})
    for number in range(5 * SWEEP_AT_LEAST):
        quota.record("u", f"client{number}", 1, number * 100)
    assert quota.record("u", "client4999", 100, 499_900) > 0
    assert len(list(quota.used(500_000))) <= SWEEP_AT_LEAST


def test_mutations_are_refused_while_tokens_are_owed() -> None:
    quota = ClientQuota(Kind.CONTROLLER_MUTATION, WINDOW, TokenBucket)
    quota.update({of(("user", None)): {"controller_mutation_rate": 1.0}})
    first = Mutations(quota, "u", "c", lambda: 0, strict=True)
    first.record(5)
    first.record(10)
    assert first.wait_ms(0) == 0
    with pytest.raises(ThrottlingQuotaExceededError):
        first.record(1)
    assert first.wait_ms(0) == 4000
    assert first.wait_ms(3000) == 1000
    assert first.wait_ms(9000) == 0
    late = Mutations(quota, "u", "c", lambda: 4000, strict=True)
    late.record(1)
    assert late.wait_ms(4000) == 0


def test_clients_that_cannot_be_refused_wait_afterwards() -> None:
    quota = ClientQuota(Kind.CONTROLLER_MUTATION, WINDOW, TokenBucket)
    quota.update({of(("user", None)): {"controller_mutation_rate": 1.0}})
    mutations = Mutations(quota, "u", "c", lambda: 0, strict=False)
    mutations.record(11)
    assert mutations.wait_ms(0) == 0
    mutations.record(4)
    mutations.record(2)
    assert mutations.wait_ms(0) == 6000


def test_a_long_request_counts_each_mutation_when_it_happens() -> None:
    """A request that adds partitions to many topics waits for the leaders of each."""
    now = 0
    quota = ClientQuota(Kind.CONTROLLER_MUTATION, WINDOW, TokenBucket)
    quota.update({of(("user", None)): {"controller_mutation_rate": 1.0}})
    long = Mutations(quota, "u", "c", lambda: now, strict=True)
    long.record(15)
    now = 10_000
    long.record(1)
    assert long.wait_ms(now) == 0
    # Another request of the client has been there meanwhile: no time counts twice.
    now = 20_000
    Mutations(quota, "u", "c", lambda: now, strict=True).record(11)
    now = 21_000
    long.record(9)
    with pytest.raises(ThrottlingQuotaExceededError):
        Mutations(quota, "u", "c", lambda: now, strict=True).record(1)


def test_connections_of_an_address() -> None:
    rates = ConnectionRates(WINDOW)
    assert rates.refused_ms("1.2.3.4", 0) == 0
    key = "connection_creation_rate"
    rates.update({of(("ip", None)): {key: 2.0}, of(("ip", "host")): {key: 1.0}}, {"host": "10.0.0.1"})
    assert [rates.refused_ms("1.2.3.4", 0) for _ in range(21)].count(0) == 20
    assert [rates.refused_ms("::ffff:10.0.0.1", 0) for _ in range(21)].count(0) == 10
    assert 0 < rates.refused_ms("10.0.0.1", 0) <= 1000
    # Those that were refused are no connections: it is not put off further and further.
    assert rates.refused_ms("10.0.0.1", 12_000) == 0
    rates.update({}, {})
    assert rates.refused_ms("1.2.3.4", 0) == 0


def test_connections_of_the_broker() -> None:
    rates = ConnectionRates(WINDOW)
    assert [rates.paused_ms(3, 0) for _ in range(30)] == [0] * 30
    assert 0 < rates.paused_ms(3, 0) <= 1000


def test_a_rate_of_no_connections_puts_each_off() -> None:
    """A pause lasts for one sample at most, as in Kafka."""
    rates = ConnectionRates(WINDOW)
    assert rates.paused_ms(0, 0) == 1000
    rates.update({of(("ip", None)): {"connection_creation_rate": 0.0}}, {})
    assert rates.refused_ms("1.2.3.4", 0) == 1000
    assert BrokerConfig({"max.connection.creation.rate": "0"})["max.connection.creation.rate"] == 0


def test_addresses() -> None:
    assert is_address("10.0.0.1")
    assert is_address("::1")
    assert not is_address("localhost")
    assert canonical("::ffff:127.0.0.1") == "127.0.0.1"
    assert canonical("0:0::1") == "::1"
    assert canonical("fe80::1%eth0") == "fe80::1"


def test_what_is_owed_is_not_forgotten() -> None:
    quota = ClientQuota(Kind.CONTROLLER_MUTATION, WINDOW, TokenBucket)
    quota.update({of(("client-id", None)): {"controller_mutation_rate": 1.0}})
    Mutations(quota, "u", "debtor", lambda: 0, strict=True).record(10_000)
    for number in range(3 * SWEEP_AT_LEAST):
        Mutations(quota, "u", f"client{number}", lambda: 12_000, strict=True).record(1)
    with pytest.raises(ThrottlingQuotaExceededError):
        Mutations(quota, "u", "debtor", lambda: 12_000, strict=True).record(1)


def test_looking_at_what_is_used_puts_nothing_old_in_force() -> None:
    quota = ClientQuota(Kind.PRODUCE, WINDOW)
    quota.update({of(("client-id", None)): {"producer_byte_rate": 10.0}})
    quota.record("u", "c", 5, 0)
    seen = quota.used(0)
    next(seen)
    quota.update({of(("client-id", None)): {"producer_byte_rate": 1e9}})
    assert list(seen) == []
    assert quota.limit("u", "c").value == 1e9
    assert not quota._found.keys() - {("u", "c")}


def test_what_is_long_past_is_not_told() -> None:
    quota = ClientQuota(Kind.PRODUCE, WINDOW)
    quota.update({of(("client-id", None)): {"producer_byte_rate": 10.0}})
    quota.record("u", "c", 5, 0)
    assert len(list(quota.used(10_000))) == 1
    assert list(quota.used(11_000)) == []
