"""Test the effects of tasks on their Python worker, each in its own process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from spark_kafkalog.executor.python_worker import KEEP_FREED_MEMORY

pytestmark = pytest.mark.usefixtures("processes")

# `-m pyspark.daemon` would wait for the JVM; what is looked at is the module that the process was started as.
_COLLECTOR = """
import gc, sys, weakref
from importlib.machinery import ModuleSpec
if sys.argv[1]:
    sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)
from spark_kafkalog.executor import python_worker

def looked_at_after_a_task():
    with python_worker.task():
        pass
    gc.collect()
    return len(gc.get_objects())

class Cycle:
    pass

at_first = looked_at_after_a_task()
from kafkalog.records.kernels import loader
loader.load()
loaded = len(gc.get_objects())
then = looked_at_after_a_task()
cycle = Cycle()
cycle.itself = cycle
seen = weakref.ref(cycle)
del cycle
later = looked_at_after_a_task()
print(at_first, loaded, then, later, seen() is None)
"""
_MEMORY = """
import resource, sys
from spark_kafkalog.executor import python_worker

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

with python_worker.task(int(sys.argv[1])):
    before = resident()
    blocks = [bytes(range(256)) * 32768 for _ in range(16)]
    del blocks
    print(resident() - before >> 20)
"""


def run(script: str, argument: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script, argument],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return [*done.stdout.split(), done.stderr]


def test_pysparks_collector_looks_no_more_at_what_kernels_have_loaded() -> None:
    at_first, loaded, then, later, collected, _ = run(_COLLECTOR, "pyspark.daemon")
    assert int(loaded) > 2 * int(at_first), "kernels are many objects"
    assert int(then) < int(loaded) / 10
    assert int(later) < int(loaded) / 10
    assert collected == "True", "garbage that comes later is found"


@pytest.mark.parametrize("main", ["", "app"])
def test_other_processes_are_left_alone(main: str) -> None:
    _, loaded, then, later, collected, _ = run(_COLLECTOR, main)
    assert int(then) > int(loaded) / 2
    assert int(later) > int(loaded) / 2
    assert collected == "True"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
@pytest.mark.parametrize(
    ("option", "environment", "keeps"),
    [(0, "", False), (256 << 20, "", True), (0, "256m", True), (256 << 20, "1", True)],
    ids=["by default", "by the option", "by the environment", "the option wins"],
)
def test_freed_memory_is_kept_where_it_is_asked_for(option: int, environment: str, keeps: bool) -> None:
    kept, _ = run(_MEMORY, str(option), **{KEEP_FREED_MEMORY: environment})
    assert (int(kept) > 90) == keeps


def test_an_environment_that_says_no_size_is_told_and_not_used() -> None:
    _, said = run(_MEMORY, "0", **{KEEP_FREED_MEMORY: "much"})
    assert f"{KEEP_FREED_MEMORY}: expected a size" in said
