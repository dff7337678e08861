"""Find what is wrong with an application's environments, and the setting that mends it. Pure functions of a survey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from spark_kafkalog.cluster import interpreters
from spark_kafkalog.cluster.facts import Executor, Probe, Settings, Survey
from spark_kafkalog.options.parsing import size_or_none

WORKER_BYTES = 256 << 20
"""The least memory to plan for a Python worker; 210 MB were measured while one read batches of 1 MB."""
BATCHES_BYTES = 64 << 20
"""The memory of a task's fetched and decoded records, beside what the process takes at its start."""
OVERHEAD_FLOOR = 384 << 20
"""Spark's least `spark.executor.memoryOverhead`, which the JVM needs for itself."""
_ROUNDED_TO = 128 << 20
_SHIP = "ship an environment: kafkalog spark pack"
_SHARED = ("pyarrow", "numba", "numpy")


@dataclass(frozen=True)
class Finding:
    """One thing to say. A problem fails the check, a note does not."""

    text: str
    remedy: str = ""
    is_problem: bool = True


def diagnose(survey: Survey) -> list[Finding]:
    """Return what is wrong, problems first."""
    found = [*_driver(survey), *_executors(survey), *_brokers(survey), *_memory(survey)]
    return [each for each in found if each.is_problem] + [each for each in found if not each.is_problem]


def _driver(survey: Survey) -> Iterator[Finding]:
    driver, settings = survey.driver, survey.settings
    named, by = interpreters.of_sources(settings.environment)
    told = f"Spark looks for sources with {named} ({by})"
    if driver.python is None:
        yield Finding(f"{told}, which does not run on the driver: {driver.problem}", _absent_on_driver(settings, named))
        return
    for module, error in driver.failing.items():
        if module != "pyspark_kafkalog":
            yield Finding(
                f"{told}, and module {module} fails there, so Spark finds no Python source at all: {error}",
                f"mend or remove the package that has {module}",
            )
    if driver.source is None:
        what = "has no kafkalog" if driver.version is None else f"cannot import kafkalog: {driver.problem}"
        yield Finding(f"{told}, which {what}", _without_on_driver(settings, driver))
    elif survey.discovery is not None:
        yield Finding(f"{told}, which has kafkalog {driver.version}, but Spark said: {survey.discovery}")


def _absent_on_driver(settings: Settings, named: str) -> str:
    if named.startswith("./"):
        directory = named.split("/")[1]
        return (
            f"in client mode the driver unpacks no archive: unpack it, and make the link ./{directory} to it in the "
            f"directory that the application starts in (ln -s DIRECTORY {directory})"
        )
    return _name_python(settings)


def _without_on_driver(settings: Settings, driver: Probe) -> str:
    if driver.version is not None:
        return "install what kafkalog needs there: pip install 'kafkalog[spark]'"
    unused = [name for name in interpreters.UNUSED if name in settings.conf]
    hint = f" (sources are not looked for with {' or '.join(unused)})" if unused else ""
    return _name_python(settings) + hint


def _name_python(settings: Settings) -> str:
    """Return how to name a Python that has kafkalog: the one that was set by mistake, or that of this application."""
    right = settings.right_python or "the Python of an environment with kafkalog"
    if "PYSPARK_DRIVER_PYTHON" in settings.environment:
        return f"unset PYSPARK_DRIVER_PYTHON, and set PYSPARK_PYTHON={right} before the application starts"
    if settings.deploy_mode == "cluster" and settings.master.startswith("yarn"):
        return f"--conf spark.yarn.appMasterEnv.PYSPARK_PYTHON={right}"
    return f"set PYSPARK_PYTHON={right} before the application starts"


def _executors(survey: Survey) -> Iterator[Finding]:
    driver = survey.driver
    if driver.source is None:
        # Executors run the same path, which has to change first.
        return
    absent = [each for each in survey.executors if each.probe.python is None]
    without = [each for each in survey.executors if each.probe.python is not None and each.probe.source is None]
    for problem, group in _by_problem(absent):
        yield Finding(
            f"{driver.command} does not run on {_hosts(group)}: {problem}",
            _elsewhere(survey.settings) or f"install kafkalog's environment there under the same path, or {_SHIP}",
        )
    for problem, group in _by_problem(without):
        missing = all(each.probe.version is None for each in group)
        what = "has no kafkalog" if missing else f"cannot import kafkalog: {problem}"
        yield Finding(
            f"{driver.command} on {_hosts(group)} {what}",
            _elsewhere(survey.settings) or f"install kafkalog there, with its extra spark, or {_SHIP}",
        )
    yield from _differences(survey)
    cold = [each for each in survey.executors if each.probe.kernels is False]
    if cold:
        yield Finding(
            f"compiled kernels are missing on {_hosts(cold)}: the first task there compiles them",
            f"run `kafkalog spark warm` there, or {_SHIP}",
            is_problem=False,
        )
    if survey.unseen:
        yield Finding(f"{survey.unseen} executors were busy or too late to be checked", is_problem=False)


def _elsewhere(settings: Settings) -> str | None:
    """Return the remedy where a Python that was meant for the driver alone goes to the executors, too."""
    own, all_hosts = (settings.environment.get(name) for name in interpreters.NAMES)
    if own is None or own == all_hosts:
        return None
    instead = f"set PYSPARK_PYTHON={settings.right_python or own}" if all_hosts is None else "keep PYSPARK_PYTHON"
    return f"unset PYSPARK_DRIVER_PYTHON, whose path executors run as well, and {instead}"


def _differences(survey: Survey) -> Iterator[Finding]:
    driver = survey.driver
    running = [each for each in survey.executors if each.probe.python is not None]
    for value, group in _by(running, lambda each: each.probe.minor):
        if value != driver.minor:
            yield Finding(
                f"Python is {value} on {_hosts(group)} and {driver.minor} on the driver, which Spark refuses",
                "use one minor version of Python everywhere",
            )
    with_source = [each for each in running if each.probe.source is not None and driver.source is not None]
    for value, group in _by(with_source, lambda each: str(each.probe.version)):
        if value != driver.version:
            yield Finding(
                f"kafkalog is {value} on {_hosts(group)} and {driver.version} on the driver",
                f"install kafkalog {driver.version} there, or {_SHIP}",
            )
    changed = [
        each for each in with_source if each.probe.version == driver.version and each.probe.digest != driver.digest
    ]
    if changed:
        yield Finding(
            f"kafkalog {driver.version} on {_hosts(changed)} has other files than on the driver",
            "install the same build everywhere",
        )
    for value, group in _by(running, lambda each: str(each.probe.packages.get("pyspark"))):
        ours = driver.packages.get("pyspark")
        if value != str(ours):
            yield Finding(
                f"PySpark is {value} on {_hosts(group)} and {ours} on the driver",
                "install one version of Spark everywhere",
            )
    for name in _SHARED:
        for value, group in _by(with_source, lambda each, name=name: str(each.probe.packages.get(name))):  # type: ignore[misc]
            if value != str(driver.packages.get(name)):
                text = f"{name} is {value} on {_hosts(group)} and {driver.packages.get(name)} on the driver"
                yield Finding(text, is_problem=False)


def _brokers(survey: Survey) -> Iterator[Finding]:
    places = [("the driver", survey.driver), *((each.host, each.probe) for each in survey.executors)]
    failed: dict[tuple[str, str, str], list[str]] = {}
    reached = {each.address for _, probe in places for each in probe.brokers if each.error is None}
    for place, probe in places:
        for each in probe.brokers:
            if each.error is not None:
                failed.setdefault((each.kind, each.address, each.error), []).append(place)
    for (kind, address, error), hosts in failed.items():
        where = ", ".join(dict.fromkeys(hosts))
        if kind == "broker":
            yield Finding(
                f"{where} cannot reach {address}, which the brokers name as one of theirs: {error}",
                "tasks connect to the leader of each partition: set advertised.listeners of the broker to an address "
                "that all hosts reach, or open the way to it",
            )
        elif kind == "cluster":
            yield Finding(
                f"{where} reaches {address}, but gets no answer from the cluster: {error}",
                "give the clients' properties with --command-config",
            )
        else:
            somewhere = " (others reach it)" if address in reached else ""
            yield Finding(
                f"{where} cannot reach {address}{somewhere}: {error}",
                "open the way to it, or name another address in kafka.bootstrap.servers",
            )


def _memory(survey: Survey) -> Iterator[Finding]:
    master, workers = survey.settings.master, cores(survey.settings)
    needed, overhead, limit = planned_overhead(survey), configured_overhead(survey.settings), _limit(survey.settings)
    enforced = master.startswith(("yarn", "k8s")) and overhead is not None
    # Spark adds the memory of Python, where it is set, to what it asks YARN and Kubernetes for.
    there = (overhead or 0) + limit
    is_short, limits_workers = enforced and there < needed, 0 < limit < needed - OVERHEAD_FLOOR
    # Spark's default holds one worker, as long as the JVM needs little of it.
    is_problem = is_short and there < workers * worker_bytes(survey)
    if is_short and not limits_workers:
        yield Finding(
            f"executors have {_mib(there)} of memory outside of the JVM for {workers} Python workers, and "
            f"{'YARN' if master == 'yarn' else 'Kubernetes'} kills those that take more",
            f"--conf spark.executor.memoryOverhead={_mib(needed - limit)}",
            is_problem,
        )
    if limits_workers:
        yield Finding(
            f"spark.executor.pyspark.memory is {_mib(limit)} for all Python workers of an executor",
            f"--conf spark.executor.pyspark.memory={_mib(needed - OVERHEAD_FLOOR)}",
            is_problem,
        )


def _limit(settings: Settings) -> int:
    """Return the bytes for all Python workers of an executor; 0 if they are not set, or cannot be read."""
    try:
        return _spark_size(settings.conf.get("spark.executor.pyspark.memory", "")) or 0
    except ValueError:
        return 0


def cores(settings: Settings) -> int:
    """Return the Python workers that an executor runs at the same time, as far as the settings tell."""
    default = "1" if settings.master.startswith(("yarn", "k8s")) else "0"
    each = max(1, int(settings.conf.get("spark.task.cpus", "1")))
    return max(1, int(settings.conf.get("spark.executor.cores", default)) // each)


def worker_bytes(survey: Survey) -> int:
    """Return the memory of a Python worker: what a probe took, with room for batches of records."""
    measured = max([survey.driver.memory or 0, *(each.probe.memory or 0 for each in survey.executors)])
    return max(measured + BATCHES_BYTES, WORKER_BYTES)


def planned_overhead(survey: Survey) -> int:
    """Return the bytes for `spark.executor.memoryOverhead`: a worker for each core, and Spark's own least."""
    wanted = OVERHEAD_FLOOR + cores(survey.settings) * worker_bytes(survey)
    return -(-wanted // _ROUNDED_TO) * _ROUNDED_TO


def configured_overhead(settings: Settings) -> int | None:
    """Return the bytes that Spark adds to the heap of an executor; None if the settings cannot be read."""
    conf = settings.conf
    try:
        given = _spark_size(conf.get("spark.executor.memoryOverhead", ""))
        if given is not None:
            return given
        heap = _spark_size(conf.get("spark.executor.memory", "1g")) or 1 << 30
        # Kubernetes reserves more for what is no JVM, such as Python.
        default = "0.4" if settings.master.startswith("k8s") else "0.1"
        factor = float(conf.get("spark.executor.memoryOverheadFactor", default))
        least = _spark_size(conf.get("spark.executor.minMemoryOverhead", ""))
    except ValueError:
        return None
    return max(int(heap * factor), OVERHEAD_FLOOR if least is None else least)


def _spark_size(text: str) -> int | None:
    """Return bytes of a size as Spark writes it: `1g`, `512m`; a bare number is in MiB. None if the text is empty.

    Raises:
        ValueError: The text is no size.
    """
    if not text.strip():
        return None
    return size_or_none("size", f"{text.strip()}m" if text.strip().isdecimal() else text)


def _mib(count: int) -> str:
    return f"{count >> 20}m"


def _hosts(group: Iterable[Executor]) -> str:
    return ", ".join(dict.fromkeys(each.host for each in group))


def _by(group: Iterable[Executor], key: Callable[[Executor], str]) -> list[tuple[str, list[Executor]]]:
    found: dict[str, list[Executor]] = {}
    for each in group:
        found.setdefault(key(each), []).append(each)
    return list(found.items())


def _by_problem(group: Iterable[Executor]) -> list[tuple[str, list[Executor]]]:
    return _by(group, lambda each: each.probe.problem or "it printed nothing")
