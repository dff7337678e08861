"""A token endpoint over real sockets, which a test scripts."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs

from tests.kafkalog.client.security.oauth.jwts import signed


class Asked(NamedTuple):
    """A request that came: its headers, and the fields of its form."""

    headers: dict[str, str]
    form: dict[str, str]


class Reply(NamedTuple):
    """A response; a body that is no bytes is sent as JSON."""

    status: int
    body: Any = b""
    headers: tuple[tuple[str, str], ...] = ()


def token(lifetime: float = 3600.0, **claims: Any) -> Reply:
    return Reply(200, {"access_token": signed(lifetime, **claims), "token_type": "Bearer", "expires_in": lifetime})


class TokenServer:
    """Answers each request with what `answer` returns for it; `asked` has the requests."""

    def __init__(self, answer: Callable[[Asked], Reply] | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer or (lambda asked: token())
        self.asked: list[Asked] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                asked = Asked(dict(self.headers.items()), form)
                server.asked.append(asked)
                reply = server.answer(asked)
                body_bytes = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body_bytes)))
                self.end_headers()
                self.wfile.write(body_bytes)

            def log_message(self, *args: Any) -> None:
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *args: Any) -> None:
                """Print nothing: the client may hang up, or refuse our certificate."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
