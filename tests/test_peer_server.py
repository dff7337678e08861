"""Test that a server of `peers` leaves nothing behind: neither after its `with` block nor after a start that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from peers.process import PeerFailedError
from peers.server import Server


class Recorded(Server):
    """A server without a process, which records what happens to it; its start fails with `failure`."""

    def __init__(self, directory: Path | None = None, failure: Exception | None = None) -> None:
        super().__init__(directory, "recorded-")
        self._failure = failure
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")
        (self.directory / "file").touch()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self.calls.append("stop")


def test_a_temporary_directory_is_removed_at_the_end() -> None:
    with Recorded() as server:
        assert server.directory.name.startswith("recorded-")
        assert (server.directory / "file").exists()
    assert server.calls == ["start", "stop"]
    assert not server.directory.exists()


def test_a_given_directory_stays(tmp_path: Path) -> None:
    with Recorded(tmp_path) as server:
        pass
    assert server.calls == ["start", "stop"]
    assert (tmp_path / "file").exists()


def test_a_start_that_fails_stops_what_runs() -> None:
    server = Recorded(failure=PeerFailedError("not ready"))
    with pytest.raises(PeerFailedError, match="not ready"), server:
        pass
    assert server.calls == ["start", "stop"]
    assert not server.directory.exists()
