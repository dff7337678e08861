"""Run the tests of a Go module: `go test` in a copy of the module."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.formats import go_test
from conformance.model import LeftOut, Outcome, TestResult, left_out
from conformance.runners.running import run
from peers.cache import MissingPeerError

TIMEOUT_S = 2400


def run_go_test(
    files: Path,
    package: str,
    tests: str,
    work: Path,
    rules: Sequence[LeftOut],
    *,
    env: Mapping[str, str],
    args: Sequence[str] = (),
) -> list[TestResult]:
    """Run the tests of `package` (a path in `files`) whose names match `tests`, except those left out."""
    go = shutil.which("go")
    if go is None:
        raise MissingPeerError("missing because go is not installed")
    log = work / "go-test.json"
    skip = "|".join(rule.pattern for rule in rules)
    command = [go, "test", "-json", "-count=1", f"-timeout={TIMEOUT_S}s", f"-run={tests}", *args]
    command += [f"-skip={skip}"] if skip else []
    run([*command, f"./{package}"], files, log, env=env, timeout_s=TIMEOUT_S + 300)
    results = go_test.parse(log.read_text(errors="replace").splitlines(keepends=True))
    listed = work / "go-list.json"
    run([go, "test", "-json", f"-list={tests}", *args, f"./{package}"], files, listed, env=env)
    names = go_test.listed(listed.read_text(errors="replace").splitlines())
    skipped = [
        TestResult(name, Outcome.SKIPPED, f"left out: {why}") for name in names if (why := left_out(name, rules))
    ]
    return results + skipped
