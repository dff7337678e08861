"""Test where keys come from: files and servers, at the start, when a token names a new key, and after failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from broker.config.definition import ConfigError
from broker.security.sasl.oauth import fetching
from broker.security.sasl.oauth.fetching import Refreshing, RemoteKeys
from broker.security.sasl.oauth.jwt import TokenError, parse_jwt
from broker.security.sasl.oauth.keys import PublicKey
from broker.system.workers import ThreadWorkers
from tests.broker.security.sasl.oauth.signing import key_set, make_key, sign

NAME = "sasl.oauthbearer.jwks.endpoint.url"
OLD, NEW = make_key("ES256", "old"), make_key("ES256", "new")
DEADLINE_S = 60


class Server(ThreadingHTTPServer):
    """An authorization server.

    Attributes:
        answer: the status and the body that it answers.
        location: where a redirect leads.
        asked: how often it was asked.
    """

    answer: tuple[int, str]
    location = "http://127.0.0.1:1/elsewhere"
    asked = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        status, body = self.server.answer
        self.server.asked += 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.answer = 200, key_set(OLD)
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/keys"


def run(keys: RemoteKeys, scenario: Callable[[], Any]) -> None:
    """Start, play the scenario and stop."""

    async def play() -> None:
        workers = ThreadWorkers(1)
        try:
            await keys.start(asyncio.get_running_loop(), workers)
            async with asyncio.timeout(DEADLINE_S):
                await scenario()
        finally:
            await keys.stop()
            workers.close(wait=True)

    asyncio.run(play())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def accepts(keys: RemoteKeys, token: str) -> bool:
    try:
        keys.verify(parse_jwt(token))
    except TokenError:
        return False
    return True


OF_OLD, OF_NEW = sign(OLD, "ES256", kid="old"), sign(NEW, "ES256", kid="new")


def test_a_new_key_is_fetched_when_a_token_names_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "EARLY_S", 0.0)
    keys = RemoteKeys(url(server), NAME, Refreshing())

    async def scenario() -> None:
        assert accepts(keys, OF_OLD)
        server.answer = 200, key_set(OLD, NEW)
        assert not accepts(keys, OF_NEW), "nobody waits for the server"
        await until(lambda: accepts(keys, OF_NEW))
        assert accepts(keys, OF_OLD)

    run(keys, scenario)


def test_invented_keys_do_not_have_the_server_asked_all_the_time(server: Server) -> None:
    keys = RemoteKeys(url(server), NAME, Refreshing())

    async def scenario() -> None:
        for number in range(100):
            assert not accepts(keys, sign(NEW, "ES256", kid=f"k{number}"))
            await asyncio.sleep(0)
        assert server.asked == 1, "at the start"

    run(keys, scenario)


def test_a_server_that_fails_later_leaves_the_known_keys(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    keys = RemoteKeys(url(server), NAME, Refreshing(interval_s=0.01, backoff_s=0.01, backoff_max_s=0.01))

    async def scenario() -> None:
        for answer in ((500, ""), (200, "nonsense"), (302, ""), (200, '{"keys": []}')):
            server.answer = answer
            before = server.asked
            await until(lambda: server.asked >= before + 3)  # noqa: B023
            assert accepts(keys, OF_OLD)
        server.answer = 200, key_set(NEW)
        await until(lambda: accepts(keys, OF_NEW))
        assert not accepts(keys, OF_OLD)

    run(keys, scenario)
    assert caplog.text.count("cannot be fetched, and the known ones stay in force") == 1


def test_a_redirect_to_what_is_no_url_does_not_end_the_fetches(server: Server) -> None:
    keys = RemoteKeys(url(server), NAME, Refreshing(interval_s=0.01, backoff_s=0.01, backoff_max_s=0.01))

    async def scenario() -> None:
        server.location, server.answer = "http://[elsewhere", (307, "")
        before = server.asked
        await until(lambda: server.asked >= before + 3)
        assert accepts(keys, OF_OLD)

    run(keys, scenario)


def test_what_nobody_has_foreseen_does_not_end_the_fetches(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keys = RemoteKeys(url(server), NAME, Refreshing(interval_s=0.01, backoff_s=0.01, backoff_max_s=0.01))

    def fail(text: bytes) -> tuple[PublicKey, ...]:
        raise ZeroDivisionError

    async def scenario() -> None:
        with monkeypatch.context() as broken:
            broken.setattr(fetching, "parse_keys", fail)
            before = server.asked
            await until(lambda: server.asked >= before + 3)
        assert accepts(keys, OF_OLD)
        server.answer = 200, key_set(NEW)
        await until(lambda: accepts(keys, OF_NEW))

    run(keys, scenario)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("answer", [(500, ""), (200, "nonsense"), (302, ""), (200, "x" * 2_000_000)])
def test_a_server_that_fails_at_the_start(server: Server, answer: tuple[int, str]) -> None:
    server.answer = answer

    async def never() -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match=r"jwks\.endpoint\.url: the keys at http://127.* cannot be used"):
        run(RemoteKeys(url(server), NAME, Refreshing()), never)


def test_keys_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys of ours.json"
    file.write_text(key_set(OLD))
    keys = RemoteKeys(file.as_uri(), NAME, Refreshing(interval_s=0.01))

    async def scenario() -> None:
        assert accepts(keys, OF_OLD)
        file.write_text(key_set(NEW))
        await until(lambda: accepts(keys, OF_NEW))

    run(keys, scenario)
    with pytest.raises(ConfigError, match="No such file"):
        run(RemoteKeys((tmp_path / "none").as_uri(), NAME, Refreshing()), scenario)


@pytest.mark.parametrize("text", ["ftp://host/keys", "keys.json", "https:///keys", "file:", "javascript:alert(1)"])
def test_urls_that_cannot_be_used(text: str) -> None:
    with pytest.raises(ConfigError, match="URL"):
        RemoteKeys(text, NAME, Refreshing())


def test_a_server_without_tls_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    RemoteKeys("http://10.0.0.1/keys", NAME, Refreshing())
    assert "without https" in caplog.text
