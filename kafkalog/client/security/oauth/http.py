"""Send one HTTP request to a token endpoint, within time and size limits.

Redirects are followed only to the same origin, and only those that keep the method (307, 308): another origin must
not get the credentials. `https_proxy` and `no_proxy` of the environment are honoured.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

MAX_BODY = 1 << 20
"""The most bytes of a response that are read."""
MAX_REDIRECTS = 3
_KEEP_METHOD = (307, 308)
_PIECE = 1 << 14


class HttpError(Exception):
    """The request was not answered, or with something that cannot be used.

    Attributes:
        is_temporary: Whether the same request may succeed later.
        is_certificate: Whether the server's certificate was refused.
    """

    def __init__(self, message: str, *, is_temporary: bool = True, is_certificate: bool = False) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary
        self.is_certificate = is_certificate


class HttpResponse(NamedTuple):
    """A response: its status, and its body."""

    status: int
    body: bytes


def request(
    method: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    tls: ssl.SSLContext | None,
    connect_timeout: float,
    read_timeout: float,
) -> HttpResponse:
    """Send a request and return the response.

    Args:
        method: The method, such as `POST`.
        url: The URL, of the scheme `http` or `https`.
        body: The body, if there is one.
        headers: The headers.
        tls: What an `https` server's certificate is checked with.
        connect_timeout: Seconds to connect, with the TLS handshake.
        read_timeout: Seconds for the whole response, from the request on.

    Raises:
        HttpError: There was no response, it was too long, or it leads to another origin.
    """
    origin = urlsplit(url)
    for _ in range(MAX_REDIRECTS + 1):
        target = urlsplit(url)
        response, location = _once(method, target, body, headers, tls, connect_timeout, read_timeout)
        if location is None:
            return response
        try:
            url = urljoin(url, location)
            moved = urlsplit(url)
            shown = _shown(moved)
        except ValueError:
            raise HttpError(f"HTTP {response.status} leads to what is no URL", is_temporary=False) from None
        if response.status not in _KEEP_METHOD or (moved.scheme, moved.netloc) != (origin.scheme, origin.netloc):
            raise HttpError(
                f"HTTP {response.status} leads to {shown}, where the credentials are not sent",
                is_temporary=False,
            )
    raise HttpError(f"more than {MAX_REDIRECTS} redirects", is_temporary=False)


def _once(
    method: str,
    url: SplitResult,
    body: bytes | None,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
    connect_timeout: float,
    read_timeout: float,
) -> tuple[HttpResponse, str | None]:
    """Send one request; return the response and, for a redirect, where it leads."""
    connection: http.client.HTTPConnection | None = None
    try:
        connection = _connection(url, tls, connect_timeout)
        connection.connect()
        deadline = time.monotonic() + read_timeout
        connection.sock.settimeout(read_timeout)
        target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
        connection.request(method, target, body, dict(headers))
        response = connection.getresponse()
        location = response.headers.get("Location") if 300 <= response.status < 400 else None
        return HttpResponse(response.status, _read(response, deadline)), location
    except ssl.SSLCertVerificationError as error:
        raise HttpError(
            f"its certificate is refused: {error.verify_message}", is_temporary=False, is_certificate=True
        ) from error
    except TimeoutError as error:
        seconds = read_timeout if connection is not None and connection.sock else connect_timeout
        raise HttpError(f"no answer within {seconds:g} s") from error
    except ssl.SSLError as error:
        raise HttpError(f"TLS handshake: {error.reason or error}", is_temporary=False) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise HttpError(reason) from error
    except ValueError as error:
        # http.client refuses control characters in the URL or a header, such as a line break at a secret's end.
        raise HttpError(f"it cannot be sent: {type(error).__name__}", is_temporary=False) from error
    finally:
        if connection is not None:
            connection.close()


def _connection(url: SplitResult, tls: ssl.SSLContext | None, timeout: float) -> http.client.HTTPConnection:
    host = url.hostname or ""
    if url.scheme == "http":
        return http.client.HTTPConnection(host, url.port, timeout=timeout)
    proxy = None if proxy_bypass(host) else getproxies().get("https")
    if not proxy:
        return http.client.HTTPSConnection(host, url.port, timeout=timeout, context=tls)
    through = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    connection = http.client.HTTPSConnection(through.hostname or "", through.port, timeout=timeout, context=tls)
    connection.set_tunnel(host, url.port)
    return connection


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BODY:
            raise HttpError(f"the response has more than {MAX_BODY} bytes", is_temporary=False)
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(pieces)


def _shown(url: SplitResult) -> str:
    """Show a URL without user information, query and fragment, which may hold secrets."""
    return f"{url.scheme}://{url.hostname or ''}{f':{url.port}' if url.port else ''}{url.path}"
