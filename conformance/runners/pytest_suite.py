"""Run a suite by pytest, in its own virtual environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from conformance.formats import junit
from conformance.model import LeftOut, Outcome, TestResult
from conformance.runners.running import run
from peers.process import tail

PLUGINS = Path(__file__).parents[1] / "plugins"
TEST_TIMEOUT_S = 120


def run_pytest(
    python: Path,
    files: Path,
    tests: Sequence[str],
    work: Path,
    rules: Sequence[LeftOut],
    *,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
) -> list[TestResult]:
    """Run `tests` (paths under `files`) with `python`; skip tests that match a rule, with the rule's reason."""
    xml = work / "junit.xml"
    command = [str(python), "-m", "pytest", "-q", "-p", "conformance_left_out", f"--junitxml={xml}"]
    command += ["-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_S}", *args, *tests]
    paths = {
        "PYTHONPATH": f"{PLUGINS}:{files}",
        "CONFORMANCE_LEFT_OUT": json.dumps([asdict(rule) for rule in rules]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    run(command, files, work / "pytest.log", env={**paths, **(env or {})})
    if not xml.exists():
        return [TestResult("pytest", Outcome.FAILED, tail(work / "pytest.log", 2000))]
    return junit.parse(xml.read_text())
