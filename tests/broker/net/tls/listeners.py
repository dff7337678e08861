"""A broker in this process whose listeners have TLS or not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from broker.net.session import Session
from tests.broker.replica.in_process import InProcess, with_broker
from tests.support.secured.authority import authority, server_file


def settings(**more: str) -> dict[str, str]:
    """Return the configuration of a broker with four listeners."""
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "MTLS", "ASKS")),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MTLS:SSL,ASKS:SSL",
        "ssl.keystore.location": str(server_file()),
        "ssl.truststore.location": str(authority().certificate),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.asks.ssl.client.auth": "requested",
        "listener.name.asks.ssl.principal.mapping.rules": "RULE:CN=([a-z]+)/$1/U",
        **more,
    }


def serve(directory: Path, work: Callable[[InProcess], Coroutine[Any, Any, None]], **more: str) -> None:
    with_broker(directory, work, settings(**more))


def port_of(broker: InProcess, listener: str) -> int:
    (port,) = (each.port for each in broker.server.endpoints if each.name == listener)
    return port


def sessions(broker: InProcess, listener: str) -> list[Session]:
    acceptor = broker.server.acceptor
    assert acceptor is not None
    return [each.session for each in acceptor.connections if each.endpoint.name == listener]
