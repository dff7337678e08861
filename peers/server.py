"""Servers that run while a `with` block does."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self


class Server(ABC):
    """A server with its files in a directory. It starts where a `with` block begins, and stops where the block ends.

    Args:
        directory: Where its files go; by default a temporary directory that is removed at the end of the block.
        prefix: How the name of a temporary directory begins.
    """

    def __init__(self, directory: Path | None, prefix: str = "server-") -> None:
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=prefix))

    @abstractmethod
    def start(self) -> None:
        """Start.

        Raises:
            PeerFailedError: A process ends, or is not ready in time.
        """

    @abstractmethod
    def stop(self) -> None:
        """End all processes; the directory stays. May be called again, and after a start that failed."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        try:
            self.stop()
        finally:
            if self._own_directory:
                shutil.rmtree(self.directory, ignore_errors=True)
