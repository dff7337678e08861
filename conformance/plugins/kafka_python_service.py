"""Takes the place of kafka-python's `test/service.py`, which its distribution lacks: a broker that runs already."""

from __future__ import annotations

from typing import Any


class ExternalService:
    """A broker at an address; nothing to start."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""


class SpawnedService:
    """A broker that the tests would start."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("these tests do not start brokers")
