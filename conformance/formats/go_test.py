"""Parse the events of `go test -json` into results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from conformance.model import Outcome, TestResult, first_line

_OUTCOMES = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}
# "    file_test.go:12: words": a message of a test, by Log, Error or Skip.
_SAID = re.compile(r"^\s+[\w./]+\.go:\d+: (.*)$")


def parse(lines: Iterable[str]) -> list[TestResult]:
    """Return a result for each test without subtests.

    A package that does not compile, or that ends early, is a failed test.
    """
    outcomes: dict[str, Outcome] = {}
    said: dict[str, list[str]] = {}
    package_said: list[str] = []
    package = ""
    for line in lines:
        if not line.startswith("{"):
            package_said.append(line)
            continue
        event = json.loads(line)
        name, action = event.get("Test", ""), event.get("Action", "")
        if action == "output":
            (said.setdefault(name, []) if name else package_said).append(event["Output"])
        elif action == "run":
            outcomes.setdefault(name, Outcome.FAILED)
        elif action in _OUTCOMES:
            if name:
                outcomes[name] = _OUTCOMES[action]
            elif action == "fail":
                package = event.get("Package", "package")
    parents = {name.rpartition("/")[0] for name in outcomes}
    found = [
        TestResult(name, outcome, "" if outcome is Outcome.PASSED else _why(said.get(name, [])))
        for name, outcome in outcomes.items()
        if name not in parents
    ]
    if package and not any(result.outcome is Outcome.FAILED for result in found):
        found.append(TestResult(package, Outcome.FAILED, first_line("".join(package_said))))
    return found


def _why(output: list[str]) -> str:
    messages = [match[1] for line in output if (match := _SAID.match(line.rstrip("\n")))]
    return first_line(messages[0] if messages else "".join(output))


def listed(lines: Iterable[str]) -> list[str]:
    """Return the names that `go test -list -json` prints."""
    output = (json.loads(line).get("Output", "").strip() for line in lines if line.startswith("{"))
    return [name for name in output if re.fullmatch(r"(Test|Example)\w*", name)]
