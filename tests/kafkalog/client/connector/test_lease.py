"""Test how long a member believes that its session lives."""

from __future__ import annotations

from kafkalog.client.connector.lease import Lease


def test_it_lasts_for_most_of_the_time_out() -> None:
    lease = Lease(10.0)
    assert not lease.holds(0.0)
    lease.renew(100.0)
    lease.renew(90.0)
    assert lease.holds(108.9)
    assert not lease.holds(109.1)


def test_a_shorter_time_out_holds_at_once() -> None:
    lease = Lease(10.0)
    lease.renew(100.0)
    lease.grant(5.0)
    assert lease.holds(104.4)
    assert not lease.holds(104.6)
    lease.grant(20.0)
    assert not lease.holds(104.6)


def test_a_longer_time_out_holds_from_the_next_answer_on() -> None:
    """The server may have granted it to a new session, while others own what the old one had."""
    lease = Lease(5.0)
    lease.renew(100.0)
    lease.grant(20.0)
    assert not lease.holds(104.6)
    lease.renew(106.0)
    assert lease.holds(120.0)


def test_an_answer_of_a_new_session_renews_nothing_before_it_begins() -> None:
    lease = Lease(10.0)
    lease.renew(100.0)
    lease.end()
    lease.renew(101.0)
    assert not lease.holds(101.0)
    assert lease.begin(), "what was fetched before is lost"
    assert not lease.begin()
    lease.renew(102.0)
    assert lease.holds(102.0)
