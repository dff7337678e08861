"""Run Toxiproxy: proxies between a client and a broker. Tests use its API to delay, break and restore connections."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

from conformance import sources
from peers.process import Process, free_port

MODULE, VERSION = "github.com/Shopify/toxiproxy/v2", "v2.12.0"
START_DEADLINE_S = 60.0


@contextmanager
def toxiproxy(listeners: Mapping[str, str], upstreams: Sequence[str], work: Path) -> Iterator[str]:
    """Run a proxy for each of `listeners` (name → address), to the `upstreams` in turn; yield the API's address."""
    server = sources.go_program(f"{MODULE}/cmd/server", VERSION)
    proxies = [
        {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
        for (name, listen), upstream in zip(listeners.items(), cycle(upstreams), strict=False)
    ]
    config = work / "toxiproxy.json"
    config.write_text(json.dumps(proxies))
    port = free_port()
    command = [str(server), "-host", "127.0.0.1", "-port", str(port), "-config", str(config)]
    process = Process(command, work / "toxiproxy.log")
    try:
        for address in ("127.0.0.1:" + str(port), *listeners.values()):
            process.wait_until(lambda address=address: _listens(address), START_DEADLINE_S)  # type: ignore[misc]
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stop()


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True
