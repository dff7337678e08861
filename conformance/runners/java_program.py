"""Compile the Java program of `conformance/java` against one version of Kafka's clients, and run it as one process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.model import Outcome, Target, TestResult, first_line
from conformance.runners.running import run
from peers.brokers import kafka
from peers.cache import MissingPeerError
from peers.process import tail
from peers.toolchains import java

SOURCES = Path(__file__).parents[1] / "java"
TIMEOUT_S = 3000.0


def run_java_program(target: Target, version: str, work: Path, only: str = "") -> list[TestResult]:
    """Return a result for each check of the program, named with the `version` of the clients.

    With `only`, run only the checks whose names contain that text.
    """
    if reason := java.missing():
        raise MissingPeerError(reason)
    # The tools' jars: the clients, and what they need to log their warnings.
    jars = kafka.kafka_classpath(version)
    classes = work / f"classes-{version}"
    compiler = Path(str(java.java_command())).resolve().with_name("javac")
    done = subprocess.run(
        [
            str(compiler),
            "-nowarn",
            "-d",
            str(classes),
            "-cp",
            ":".join(map(str, jars)),
            *map(str, SOURCES.glob("*.java")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return [TestResult(f"clients {version}", Outcome.FAILED, first_line(done.stderr))]
    log, errors = work / f"java-{version}.txt", work / f"java-{version}.log"
    options = [*kafka.TOOL_HEAP, *kafka.JVM_EXTRA, *kafka.logging_options(version, work)]
    command = java.java_line([classes, *jars], "Conformance", [target.bootstrap, *([only] if only else [])], options)
    code = run(command, work, log, errors=errors, timeout_s=TIMEOUT_S)
    return judged(log.read_text().splitlines(), code, version, tail(errors, 300))


def judged(lines: Sequence[str], code: int, version: str, errors: str) -> list[TestResult]:
    """Return the program's results; add a failure with its last output if it ended early."""
    results = parse(lines, version)
    if code != 0 or not results or not lines or lines[-1] != f"end\t{len(results)}":
        results.append(TestResult(f"clients {version}", Outcome.FAILED, f"ended with {code} too early: {errors}"))
    return results


def parse(lines: Iterable[str], version: str) -> list[TestResult]:
    """Parse the program's lines ("name, outcome, why", separated by tabs) into results."""
    results = []
    for line in lines:
        if line.count("\t") == 2:
            name, outcome, why = line.split("\t")
            results.append(TestResult(f"clients {version}: {name}", Outcome(outcome), first_line(why)))
    return results
