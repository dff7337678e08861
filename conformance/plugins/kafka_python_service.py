"""Replace kafka-python's `test/service.py`, which its distribution lacks, by a running broker."""

from __future__ import annotations

from typing import Any


class ExternalService:
    """A broker that is already running."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Do nothing: the broker is running."""

    def close(self) -> None:
        """Do nothing: the broker keeps running."""


class SpawnedService:
    """A broker that the tests would start; none is started here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("these tests do not start brokers")
