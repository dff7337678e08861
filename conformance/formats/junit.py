"""Parse JUnit XML, as pytest and other runners write it, into results."""

from __future__ import annotations

from xml.etree import ElementTree

from conformance.model import Outcome, TestResult, first_line


def parse(text: str) -> list[TestResult]:
    """Return a result for each test case; a case with several entries (test and teardown) has the worst outcome."""
    found: dict[str, TestResult] = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}".lstrip(".")
        result = _result(name, case)
        known = found.get(name)
        if known is None or result.outcome is Outcome.FAILED:
            found[name] = result
    return list(found.values())


def _result(name: str, case: ElementTree.Element) -> TestResult:
    for tag in ("failure", "error"):
        failure = case.find(tag)
        if failure is not None:
            return TestResult(name, Outcome.FAILED, first_line(failure.get("message") or failure.text or ""))
    skipped = case.find("skipped")
    if skipped is not None:
        return TestResult(name, Outcome.SKIPPED, first_line(skipped.get("message") or ""))
    return TestResult(name, Outcome.PASSED)
