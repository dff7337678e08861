"""A line on a terminal that shows the progress of a load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

INTERVAL_S = 0.5
_WIDTH = 24


class ProgressBar:
    """Shows `progress()` (rows and bytes so far) against `total` rows until the `with` block ends.

    `stream`: None shows nothing.
    """

    def __init__(self, title: str, total: int, progress: Callable[[], tuple[int, int]], stream: TextIO | None) -> None:
        self._title = title
        self._total = total
        self._progress = progress
        self._stream = stream
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
        self._began = time.monotonic()
        self._rows, self._bytes = progress()

    def __enter__(self) -> Self:
        if self._stream is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._ended.set()
            self._thread.join()
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _show(self) -> None:
        assert self._stream is not None
        while not self._ended.wait(INTERVAL_S):
            rows, size = self._progress()
            seconds = time.monotonic() - self._began
            self._stream.write(
                f"\r\x1b[K{line(self._title, self._total, rows - self._rows, size - self._bytes, seconds)}"
            )
            self._stream.flush()


def line(title: str, total: int, rows: int, size: int, seconds: float) -> str:
    """Return the text: a bar, rows, megabytes written, rows a second, and the remaining time."""
    share = min(rows / total, 1.0) if total else 1.0
    done = int(share * _WIDTH)
    rate = rows / seconds if seconds else 0.0
    left = f"{int((total - rows) / rate)} s left" if rate and rows < total else "-"
    return (
        f"{title} [{'#' * done}{'.' * (_WIDTH - done)}] {share:4.0%}  {rows:,} rows  {size / 1e6:,.1f} MB  "
        f"{rate:,.0f} rows/s  {left}"
    )
