"""Tests of a login: one request for all threads, the next token in time, and what happens when there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest

from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConnectionFailedError
from kafkalog.client.security.oauth.endpoint import TokenEndpointUnavailableError
from kafkalog.client.security.oauth.login import (
    AFTER_FAILURE_S,
    FAILURE_KEPT_S,
    UNKNOWN_LIFE_S,
    Login,
    refresh_time,
    shared_login,
)
from kafkalog.client.security.oauth.options import OAuthOptions
from kafkalog.client.security.oauth.token import Token
from tests.support.waiting import wait_until

OPTIONS = OAuthOptions(refresh_window_jitter=0.0, refresh_min_period=0, refresh_buffer=0)
FOREVER = float("inf")


class Source:
    """Gives tokens that last 100 s of `clock`, or raises what `error` is."""

    name = "the test"

    def __init__(self) -> None:
        self.clock = 1000.0
        self.count = 0
        self.error: Exception | None = None
        self.thread: threading.Thread | None = None
        """The thread of the latest request."""
        self.gate = threading.Event()
        self.gate.set()

    def fetch(self) -> Token:
        self.thread = threading.current_thread()
        self.gate.wait(60)
        self.count += 1
        if self.error is not None:
            raise self.error
        return Token(f"t{self.count}", self.clock + 100, self.clock)


def make(source: Source) -> Login:
    return Login(source, OPTIONS, lambda: source.clock)


def soon() -> float:
    return time.monotonic() + 60


def test_threads_that_wait_share_one_request() -> None:
    source = Source()
    source.gate.clear()
    login = make(source)
    begun = threading.Barrier(8)

    def get() -> str:
        begun.wait(60)
        return login.token(soon()).value

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(get) for _ in range(8)]
        source.gate.set()
        assert {each.result(60) for each in waiting} == {"t1"}
    assert source.count == 1


def test_a_token_is_replaced_at_four_fifths_of_its_life() -> None:
    source = Source()
    login = make(source)
    assert login.token(soon()).value == "t1"
    source.clock += 79
    assert login.token(soon()).value == "t1"
    source.clock += 2
    assert login.token(soon()).value == "t2"


def test_while_there_is_no_new_token_the_present_one_is_used() -> None:
    source = Source()
    login = make(source)
    login.token(soon())
    source.clock += 81
    source.error = AuthenticationError("refused")
    assert login.token(soon()).value == "t1"
    assert login.token(soon()).value == "t1"
    assert source.count == 2, "the failure is not repeated at once"
    source.clock += AFTER_FAILURE_S + 0.1
    source.error = None
    assert login.token(soon()).value == "t3"


def test_a_token_that_could_not_be_replaced_is_not_used_after_its_end() -> None:
    source = Source()
    login = make(source)
    login.token(soon())
    source.clock += 95
    source.error = AuthenticationError("refused")
    assert login.token(soon()).value == "t1"
    source.clock += AFTER_FAILURE_S / 2
    source.error = None
    assert login.token(soon()).value == "t3"


def test_a_failure_without_a_token_is_raised_and_a_later_call_tries_again() -> None:
    source = Source()
    source.error = AuthenticationError("refused")
    login = make(source)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="refused"):
            login.token(soon())
    assert source.count == 1, "the threads of a client meet the same failure one after another"
    source.error = None
    source.clock += FAILURE_KEPT_S + 0.1
    assert login.token(soon()).value == "t2"


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (TokenEndpointUnavailableError("silent"), ConnectionFailedError),
        (AuthenticationError("no"), AuthenticationError),
    ],
)
def test_an_outage_is_final_only_before_the_first_token(error: Exception, raised: type[Exception]) -> None:
    source = Source()
    source.error = error
    login = make(source)
    with pytest.raises(AuthenticationError, match=str(error)):
        login.token(soon())
    source.error = None
    source.clock += 2
    login.token(soon())
    source.error = error
    source.clock += 200
    with pytest.raises(raised, match=str(error)):
        login.token(soon())


def test_a_request_that_takes_too_long_goes_on_for_the_next_call() -> None:
    source = Source()
    source.gate.clear()
    login = make(source)
    with pytest.raises(ClientTimeoutError, match="the test"):
        login.token(time.monotonic())
    source.gate.set()
    assert login.token(soon()).value == "t1"
    assert source.count == 1


def test_a_failure_that_nobody_saw_is_told_to_the_next_call() -> None:
    source = Source()
    source.gate.clear()
    source.error = AuthenticationError("refused")
    login = make(source)
    with pytest.raises(ClientTimeoutError):
        login.token(time.monotonic())
    source.gate.set()
    with pytest.raises(AuthenticationError, match="refused"):
        login.token(soon())
    assert source.count == 1


def test_a_failure_that_nobody_saw_is_not_told_much_later() -> None:
    """The token is old when the request fails, and has ended when the next connection needs one."""
    source = Source()
    login = make(source)
    login.token(soon())
    source.clock += 81
    source.gate.clear()
    source.thread, source.error = None, AuthenticationError("refused")
    assert login.token(time.monotonic()).value == "t1"
    source.gate.set()
    wait_until(lambda: source.thread is not None and not source.thread.is_alive(), "the request fails")
    source.error = None
    source.clock += 3600
    assert login.token(soon()).value == "t3"


def test_a_token_that_was_refused_is_not_used_again() -> None:
    source = Source()
    login = make(source)
    first = login.token(soon())
    login.refused(first)
    second = login.token(soon())
    assert second.value == "t2"
    login.refused(first)
    assert login.token(soon()) is second, "a refusal that comes late harms no newer token"


def test_a_token_that_has_ended_is_refused_here() -> None:
    source = Source()
    login = Login(source, OPTIONS, lambda: source.clock + 1000)
    with pytest.raises(AuthenticationError, match="has ended; check where it comes from"):
        login.token(soon())


def test_a_source_with_a_defect_leaves_nobody_waiting() -> None:
    source = Source()
    source.error = ZeroDivisionError("oops")
    with pytest.raises(AuthenticationError, match="oops"):
        make(source).token(soon())


# The examples are those of the comments in Java's ExpiringCredentialRefreshingLogin


@pytest.mark.parametrize(
    ("lifetime", "changes", "expected"),
    [
        (1000.0, {}, 800.0),
        (1000.0, {"refresh_buffer": 300}, 700.0),
        (1000.0, {"refresh_min_period": 900, "refresh_buffer": 50}, 900.0),
        (100.0, {"refresh_min_period": 60, "refresh_buffer": 300}, 80.0),
        (FOREVER, {}, UNKNOWN_LIFE_S),
    ],
    ids=["a share of the life", "the buffer at the end", "the least period", "too short for both", "an unknown life"],
)
def test_when_a_token_is_replaced(lifetime: float, changes: dict[str, int], expected: float) -> None:
    options = replace(OPTIONS, **changes)  # type: ignore[arg-type]
    assert refresh_time(Token("t", 5000 + lifetime, 5000), 5000, options, 0.5) == pytest.approx(5000 + expected)


def test_the_times_of_several_clients_differ() -> None:
    token, options = Token("t", 2000, 1000), replace(OPTIONS, refresh_window_jitter=0.1)
    assert [refresh_time(token, 1000, options, chance) for chance in (0.0, 1.0)] == pytest.approx([1800, 1900])


# One login for a process


def test_equal_options_share_a_login() -> None:
    made: list[Login] = []

    def new() -> Login:
        made.append(make(Source()))
        return made[-1]

    key = OAuthOptions(client_id="of-this-test")
    assert shared_login(key, new) is shared_login(OAuthOptions(client_id="of-this-test"), new)
    assert shared_login(OAuthOptions(client_id="another-of-this-test"), new) is not made[0]
    assert len(made) == 2


def _has_own_login(key: str, answer: Callable[[bool], None]) -> None:
    answer(shared_login(key, lambda: make(Source()))._source.count == 0)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("processes")
def test_a_child_process_has_logins_of_its_own() -> None:
    """Spark forks its workers: a lock or a request of the parent must not be waited for."""
    login = shared_login("of-the-parent", lambda: make(Source()))
    login.token(soon())
    context = get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_has_own_login, args=("of-the-parent", answers.put))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert answers.get() is True
