"""Parse the report of `jest --json` into results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from conformance.model import LeftOut, Outcome, TestResult, first_line, left_out

_OUTCOMES = {"passed": Outcome.PASSED, "failed": Outcome.FAILED}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def parse(text: str, files: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Return a result for each test, named "<file under files>.<describes and test name>".

    A file that cannot be loaded is a failed test. A skipped test has the reason of `rules`; without one, its authors
    skip it.
    """
    results: list[TestResult] = []
    for suite in json.loads(text)["testResults"]:
        file = str(Path(suite["name"]).relative_to(files))
        if not suite["assertionResults"] and suite["status"] == "failed":
            results.append(TestResult(file, Outcome.FAILED, _first(suite["message"])))
        for test in suite["assertionResults"]:
            name = f"{file}.{' '.join([*test['ancestorTitles'], test['title']])}"
            outcome = _OUTCOMES.get(test["status"], Outcome.SKIPPED)
            results.append(TestResult(name, outcome, _why(name, outcome, test["failureMessages"] or [], rules)))
    return results


def _why(name: str, outcome: Outcome, messages: Sequence[str], rules: Sequence[LeftOut]) -> str:
    if outcome is Outcome.FAILED:
        return _first("\n".join(messages))
    if outcome is Outcome.PASSED:
        return ""
    why = left_out(name, rules)
    return f"left out: {why}" if why else "skipped by its authors"


def _first(message: str) -> str:
    return first_line(_COLOURS.sub("", message))
