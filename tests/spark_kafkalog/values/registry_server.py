"""The part of a schema registry's REST API (Confluent's) that serializers and readers use, over HTTP."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """`user_info`: the user and password that are asked for; `certificate`: PEM, with its key, for https.

    `redirect`: the address to which it sends every request on; `moved`: the beginning of paths that it redirects to the
    same ones without it. `failures`: statuses to answer next, before anything else. `requests`: the paths asked for.
    """

    def __init__(self, user_info: str | None = None, certificate: Path | None = None) -> None:
        self.user_info = user_info
        self.redirect: str | None = None
        self.moved: str | None = None
        self.failures: list[int] = []
        self.requests: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.schemas: dict[int, dict[str, Any]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: Any) -> None:
                path = urlsplit(self.path).path
                registry.requests.append(path)
                moved = registry.moved is not None and path.startswith(registry.moved)
                if moved or registry.redirect is not None:
                    self.send_response(302)
                    to = path.removeprefix(registry.moved or "") if moved else f"{registry.redirect}{path}"
                    self.send_header("Location", to)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                status, answer = registry.handle(path, body, self.headers.get("Authorization"))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")

    def handle(self, path: str, body: Any, authorization: str | None) -> tuple[int, Any]:
        if self.failures:
            return self.failures.pop(0), {"error_code": 50001, "message": "try again"}
        if self.user_info is not None:
            expected = "Basic " + base64.b64encode(self.user_info.encode()).decode()
            if authorization != expected:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] not in ("schemas", "subjects"):
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (404, {"error_code": 40403, "message": "Schema not found"}) if found is None else (200, found)
        subject = parts[1]
        if body is not None:
            number = self.register(subject, body["schema"], body.get("schemaType"), body.get("references"))
            return 200, {"id": number, "subject": subject, "version": self.subjects[subject].index(number) + 1} | body
        ids = self.subjects.get(subject)
        if ids is None:
            return 404, {"error_code": 40401, "message": "Subject not found."}
        number = ids[-1] if parts[3] == "latest" else ids[int(parts[3]) - 1]
        return 200, {"subject": subject, "id": number, "version": ids.index(number) + 1, **self.schemas[number]}

    def register(
        self, subject: str, schema: Any, kind: str | None = None, references: list[dict[str, Any]] | None = None
    ) -> int:
        """Register a schema under a subject; return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry: dict[str, Any] = {"schema": text}
        if kind not in (None, "AVRO"):
            entry["schemaType"] = kind
        if references:
            entry["references"] = references
        known = [number for number, each in self.schemas.items() if each == entry]
        number = known[0] if known else len(self.schemas) + 1
        self.schemas[number] = entry
        ids = self.subjects.setdefault(subject, [])
        if number not in ids:
            ids.append(number)
        return number

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
