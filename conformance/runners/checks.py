"""Run our own checks, for programs that have no tests of their own. A check raises an error that says what is wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from conformance.model import LeftOut, Outcome, Target, TestResult, first_line, left_out

Check = Callable[[Target], None]


def run_checks(checks: Sequence[Check], target: Target, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the checks in order; return a result for each."""
    results = []
    for check in checks:
        name = check.__name__
        if why := left_out(name, rules):
            results.append(TestResult(name, Outcome.SKIPPED, f"left out: {why}"))
            continue
        try:
            check(target)
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
            results.append(
                TestResult(name, Outcome.FAILED, first_line(f"{type(error).__name__}: {error} (line {line})"))
            )
        else:
            results.append(TestResult(name, Outcome.PASSED))
    return results
