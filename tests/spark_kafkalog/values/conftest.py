"""Fixtures of typed values: a schema registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_kafkalog.values.typed import SCHEMAS
from tests.spark_kafkalog.values.registry_server import RegistryServer


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    # What a process remembers of an address is of another server, where a port is used again.
    SCHEMAS.clear()
    with RegistryServer() as server:
        yield server
