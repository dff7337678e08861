"""JUnit XML, which pytest and others write, to results."""

from __future__ import annotations

from xml.etree import ElementTree

from conformance.model import Outcome, TestResult, first_line


def parse(text: str) -> list[TestResult]:
    """One result for each test case; several entries of one case (a test and its teardown) count as the worst."""
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
        told = case.find(tag)
        if told is not None:
            return TestResult(name, Outcome.FAILED, first_line(told.get("message") or told.text or ""))
    skipped = case.find("skipped")
    if skipped is not None:
        return TestResult(name, Outcome.SKIPPED, first_line(skipped.get("message") or ""))
    return TestResult(name, Outcome.PASSED)
