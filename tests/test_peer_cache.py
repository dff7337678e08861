"""Tests of the cache of foreign programs: what happens if one cannot be fetched, and what CI installs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from peers import cache
from peers.cache import MissingPeerError, cached, fetch, require


def counting(directory: Path, end: str) -> list[str]:
    """A command that leaves a line in `directory`/runs and goes on with `end`."""
    return ["sh", "-c", f"echo run >> {shlex.quote(str(directory / 'runs'))}; {end}"]


def runs(directory: Path) -> int:
    path = directory / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.usefixtures("processes")
def test_a_download_is_tried_three_times(tmp_path: Path) -> None:
    with pytest.raises(MissingPeerError, match=r"missing because a thing could not be fetched(.|\n)*no route"):
        fetch("a thing", counting(tmp_path, "echo no route; exit 1"), tmp_path)
    assert runs(tmp_path) == 3


@pytest.mark.usefixtures("processes")
def test_a_download_that_succeeds_late_counts(tmp_path: Path) -> None:
    fetch("a thing", counting(tmp_path, "test $(wc -l < runs) -ge 2"), tmp_path)
    assert runs(tmp_path) == 2


@pytest.mark.usefixtures("processes")
def test_a_download_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FETCH_DEADLINE_S", 0.5)
    with pytest.raises(MissingPeerError, match="could not be fetched"):
        fetch("a thing", counting(tmp_path, "exec sleep 60"), tmp_path)
    # It may be given up before it has left its line.
    assert runs(tmp_path) <= 1


def test_what_failed_is_not_fetched_again_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALOG_PEERS", str(tmp_path))
    tries = 0

    def build(directory: Path) -> None:
        nonlocal tries
        tries += 1
        (directory / "half").write_text("")
        raise MissingPeerError("missing because of this test")

    name = f"test/{tmp_path.name}"
    for _ in range(2):
        with pytest.raises(MissingPeerError, match="because of this test"):
            cached(name, build)
    assert tries == 1
    assert [path.name for path in (tmp_path / "test").iterdir() if path.is_dir()] == []


def test_a_missing_peer_skips_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    require(None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such thing"):
        require("missing because there is no such thing")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(MissingPeerError, match="no such thing"):
        require("missing because there is no such thing")


def test_both_kinds_of_ci_install_the_same_packages() -> None:
    """With CI=true a missing peer fails its tests, so that a package in one place alone fails in the other."""
    root = Path(__file__).parents[1]
    script = (root / ".ci" / "run").read_text()
    packages = {word for words in re.findall(r'packages="(?:\$packages )?([^"$]+)"', script) for word in words.split()}
    assert {"kcat", "krb5-kdc", "libkrb5-dev"} <= packages
    installed = re.search(r"apt-get install -y\s+([a-z0-9 -]+)\n", (root / ".github/workflows/ci.yml").read_text())
    assert installed is not None
    assert packages - set(installed[1].split()) == set()
