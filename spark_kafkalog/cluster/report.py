"""A survey and its diagnosis as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from spark_kafkalog.cluster import diagnosis, interpreters
from spark_kafkalog.cluster.diagnosis import Finding
from spark_kafkalog.cluster.facts import Connection, Probe, Survey
from spark_kafkalog.starting.names import DAEMON, LAUNCHER

_PACKAGES = ("kafkalog", "pyspark", "pyarrow", "numba")


def render(survey: Survey, findings: Sequence[Finding]) -> str:
    """Return the report: a line for each place, what is wrong with the remedy below it, and the verdict."""
    lines = [*_places(survey), *_start(survey), *_plan(survey)]
    problems = sum(each.is_problem for each in findings)
    for each in findings:
        lines.append(f"{'problem' if each.is_problem else 'note':<9} {each.text}")
        if each.remedy:
            lines.append(f"{'':<9} -> {each.remedy}")
    lines.append("nothing is wrong" if not problems else f"problems: {problems}")
    return "\n".join(lines)


def _places(survey: Survey) -> Iterator[str]:
    settings = survey.settings
    command, by = interpreters.of_sources(settings.environment)
    yield f"{'python':<9} {command} ({by}) looks for sources on the driver and runs them on executors"
    yield f"{'driver':<9} {_described(survey.driver)}"
    if settings.master.startswith("local"):
        yield f"{'executors':<9} {settings.master} runs tasks in the driver's own JVM"
    for each in survey.executors:
        name = f"{each.host} (executor {each.number})" if each.number else each.host
        yield f"{'executor':<9} {name}: {_described(each.probe)}"


def _described(probe: Probe) -> str:
    if probe.python is None:
        return f"does not run: {probe.problem}"
    # A name, a link or a script leads elsewhere.
    where = "" if probe.executable == probe.command else f" ({probe.executable})"
    parts = [f"Python {probe.python}{where}"]
    parts += [f"{name} {probe.packages.get(name) or '-'}" for name in _PACKAGES]
    if probe.kernels is not None:
        parts.append("kernels compiled" if probe.kernels else "kernels not compiled")
    if probe.brokers:
        parts.append(_reached(probe.brokers))
    return ", ".join(parts)


def _reached(brokers: Sequence[Connection]) -> str:
    reached = [each.address for each in brokers if each.error is None]
    failed = any(each.error is not None for each in brokers)
    return f"reaches {', '.join(dict.fromkeys(reached)) or 'no broker'}{', but not all' if reached and failed else ''}"


def _start(survey: Survey) -> Iterator[str]:
    """Tell who makes the imports of Python processes."""
    if survey.driver.source is None:
        return
    command, _ = interpreters.of_sources(survey.settings.environment)
    if PurePath(command).name == LAUNCHER:
        said = f"Python processes are forked with their imports made ({LAUNCHER})"
    elif survey.settings.conf.get("spark.python.daemon.module") == DAEMON:
        said = f"workers are forked with their imports made; with PYSPARK_PYTHON={LAUNCHER} planners are, too"
    else:
        said = f"each Python process makes its imports; PYSPARK_PYTHON={LAUNCHER} spares them that"
    yield f"{'start':<9} {said}"


def _plan(survey: Survey) -> Iterator[str]:
    if survey.settings.master.startswith("local"):
        return
    worker, cores = diagnosis.worker_bytes(survey) >> 20, diagnosis.cores(survey.settings)
    needed, workers = diagnosis.planned_overhead(survey) >> 20, "worker" if cores == 1 else "workers"
    yield (
        f"{'memory':<9} plan {worker}m for each Python worker, a worker for each core: with {cores} {workers}, "
        f"spark.executor.memoryOverhead={needed}m"
    )
