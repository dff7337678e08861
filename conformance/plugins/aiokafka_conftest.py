"""Replace aiokafka's `tests/conftest.py`: the same fixtures, for a running broker."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class KafkaServer:
    """The address of the running broker, which has one port."""

    host: str
    port: int
    ssl_port: int = 0
    sasl_plain_port: int = 0
    sasl_ssl_port: int = 0

    @property
    def hosts(self) -> list[str]:
        return [f"{self.host}:{self.port}"]


@pytest.fixture(scope="session")
def kafka_server() -> KafkaServer:
    host, _, port = os.environ["CONFORMANCE_BOOTSTRAP"].rpartition(":")
    return KafkaServer(host, int(port))


@pytest.fixture(scope="session")
def ssl_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ssl")


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    if not loop.is_closed():
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(
    request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop, kafka_server: KafkaServer, ssl_folder: Path
) -> None:
    told = {
        "loop": loop,
        "kafka_host": kafka_server.host,
        "kafka_port": kafka_server.port,
        "kafka_ssl_port": kafka_server.ssl_port,
        "kafka_sasl_plain_port": kafka_server.sasl_plain_port,
        "kafka_sasl_ssl_port": kafka_server.sasl_ssl_port,
        "ssl_folder": ssl_folder,
        "hosts": kafka_server.hosts,
        "kafka_version": os.environ["CONFORMANCE_KAFKA_VERSION"],
    }
    for name, value in told.items():
        setattr(request.cls, name, value)
