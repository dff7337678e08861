"""A client of a schema registry (Confluent's REST API): schemas by id, and the latest schema of a subject.

Addresses are tried in turn. Transient failures (no connection, 429, 5xx) are retried with growing pauses. The result is
`None` if the registry answers that it has no such schema, so a record with an unknown id is only a corrupt record. A
registry that does not answer is an error, and so is a server that is no registry.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from kafkalog.backoff import Backoff
from spark_kafkalog.values.registry.registry_error import SchemaRegistryError

__all__ = ["RegisteredSchema", "RegistryConfig", "SchemaRegistry", "SchemaRegistryError"]

logger = logging.getLogger(__name__)

MOST_BYTES = 16 << 20
"""A larger answer is an error."""
BACKOFF = Backoff(0.1, 5.0)
"""The pauses between tries, in seconds."""
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
_PASSING = (408, 429, 500, 502, 503, 504)
_MISSING = (40401, 40402, 40403)
"""Error codes in an answer 404: no such subject, version, schema."""
_MOST_REFERENCES = 16
"""The longest chain of schemas that refer to each other."""


class RegisteredSchema(NamedTuple):
    """A schema's text, its kind (AVRO, JSON, PROTOBUF), and the schemas that it refers to, by their names."""

    text: str
    kind: str
    references: tuple[RegisteredSchema, ...] = ()


@dataclass(frozen=True)
class RegistryConfig:
    """Addresses of a registry, and settings of requests to it. Times in seconds."""

    urls: tuple[str, ...] = field(repr=False)
    """The addresses. User and password may be in them."""
    user_info: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    retries: int = 3
    ca_file: str | None = None


class SchemaRegistry:
    """Requests schemas from a registry; `pause` sleeps between retries. Any thread may use it."""

    def __init__(self, config: RegistryConfig, pause: Callable[[float], None] = time.sleep) -> None:
        self._config = config
        self._pause = pause

    @property
    def _shown(self) -> str:
        """Return the first address as messages show it: without user and password."""
        return _without_user(self._config.urls[0])[0]

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema of an id; None if there is none."""
        answer = self._get(f"/schemas/ids/{schema_id}")
        return None if answer is None else self._schema(answer, 0, {})

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of a subject; None if there is none."""
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if answer is None else self._schema(answer, 0, {})

    def _schema(self, answer: Any, depth: int, known: dict[tuple[str, int], RegisteredSchema]) -> RegisteredSchema:
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str) or depth > _MOST_REFERENCES:
            raise SchemaRegistryError(f"schema registry {self._shown}: an answer without a schema")
        references = []
        for each in answer.get("references") or ():
            try:
                key = str(each["subject"]), int(each["version"])
            except (KeyError, TypeError, ValueError):
                raise SchemaRegistryError(
                    f"schema registry {self._shown}: a reference without subject and version: {each!r:.100}"
                ) from None
            if key not in known:
                known[key] = self._referred(*key, depth, known)
            references.append(known[key])
        return RegisteredSchema(answer["schema"], str(answer.get("schemaType") or "AVRO"), tuple(references))

    def _referred(
        self, subject: str, version: int, depth: int, known: dict[tuple[str, int], RegisteredSchema]
    ) -> RegisteredSchema:
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if found is None:
            raise SchemaRegistryError(
                f"schema registry {self._shown}: {subject} version {version}, which a schema refers to, is not there"
            )
        return self._schema(found, depth + 1, known)

    def _get(self, path: str) -> Any:
        failed: Exception | None = None
        for attempt in range(self._config.retries + 1):
            if attempt:
                logger.warning("schema registry: %s; attempt %d of %d", failed, attempt + 1, self._config.retries + 1)
                self._pause(BACKOFF.pause(attempt))
            for url in self._config.urls:
                try:
                    return self._ask(url, path)
                except _PassingError as error:
                    failed = error
        raise SchemaRegistryError(f"schema registry: {failed}")

    def _ask(self, url: str, path: str) -> Any:
        address, user_info = _without_user(url)
        request = urllib.request.Request(address.rstrip("/") + path, headers={"Accept": _ACCEPT})
        user_info = self._config.user_info or user_info
        if user_info:
            request.add_header("Authorization", "Basic " + base64.b64encode(user_info.encode()).decode())
        # Also http:// may lead to https://.
        secure = address.startswith("https:") or self._config.ca_file
        https = urllib.request.HTTPSHandler(context=self._trusting if secure else None)
        opener = urllib.request.build_opener(https, _Redirects())
        try:
            with opener.open(request, timeout=self._config.timeout_s) as answer:
                body = answer.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404 and _says_what_is_missing(error):
                    return None
            text = f"{address}{path} answered {error.code} {error.reason}"
            if error.code in _PASSING:
                raise _PassingError(text) from None
            hint = _HINTS.get(error.code, "")
            raise SchemaRegistryError(f"schema registry: {text}{hint}") from None
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise _PassingError(f"{address}{path} cannot be reached: {reason}") from None
        if len(body) > MOST_BYTES:
            raise SchemaRegistryError(f"schema registry: {address}{path} answered more than {MOST_BYTES} bytes")
        try:
            return json.loads(body)
        except ValueError:
            raise SchemaRegistryError(f"schema registry: {address}{path} answered no JSON: {body[:100]!r}") from None

    @cached_property
    def _trusting(self) -> ssl.SSLContext:
        """The settings of TLS, made once: to read the certificates takes longer than a request.

        Raises:
            SchemaRegistryError: The file of `schemaRegistry.ssl.ca.location` cannot be used.
        """
        file = self._config.ca_file
        try:
            return ssl.create_default_context(cafile=file)
        except OSError as error:
            if file is None:
                raise
            reason = "it has no certificate in PEM" if isinstance(error, ssl.SSLError) else error.strerror
            raise SchemaRegistryError(
                f"schemaRegistry.ssl.ca.location={file}: cannot be used: {reason}. In Spark the file must be on the "
                "driver and on each executor."
            ) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but sends user and password only to the server that they are meant for."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request of a redirect.

        Raises:
            SchemaRegistryError: It has user and password, and the redirect leads to another server.
        """
        if req.has_header("Authorization") and _origin(req.full_url) != _origin(newurl):
            asked, elsewhere = (_without_user(url)[0] for url in (req.full_url, newurl))
            raise SchemaRegistryError(
                f"schema registry: {asked} leads to {elsewhere}, where user and password are not sent; set "
                "schemaRegistry.url to that server if you trust it"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_HINTS = {
    401: ": check schemaRegistry.basic.auth.user.info",
    403: ": check schemaRegistry.basic.auth.user.info",
    404: ", as who is no registry: check schemaRegistry.url",
}


def _says_what_is_missing(answer: urllib.error.HTTPError) -> bool:
    """Return whether a 404 comes from a registry. Any web server answers a wrong address with this status."""
    try:
        return json.loads(answer.read(MOST_BYTES))["error_code"] in _MISSING
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return False


class _PassingError(Exception):
    """A failure that may pass when the request is retried."""


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _without_user(url: str) -> tuple[str, str | None]:
    """Split an address into itself without user and password, and these (None if there are none)."""
    parts = urlsplit(url)
    user_info, at, host = parts.netloc.rpartition("@")
    return (urlunsplit(parts._replace(netloc=host)), user_info) if at else (url, None)
