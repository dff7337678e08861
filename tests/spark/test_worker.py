"""What a Python worker of Spark does once, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

# `-m pyspark.daemon` would wait for the JVM; what is looked at is the module that the process was started as.
_SCRIPT = """
import gc, sys
from importlib.machinery import ModuleSpec
if sys.argv[1]:
    sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)
from spark_kafkalog import worker
with worker.task():
    pass
print(gc.get_freeze_count())
from kafkalog.records import kernels
kernels.load()
with worker.task():
    pass
first = gc.get_freeze_count()
loaded = [object() for _ in range(10)], {}
with worker.task():
    pass
print(first, gc.get_freeze_count())
"""


@pytest.mark.parametrize(("name", "freezes"), [("pyspark.daemon", True), ("", False), ("app", False)])
def test_objects_are_set_aside_once_and_in_pysparks_workers_only(name: str, freezes: bool) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT, name], capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stderr
    before, first, second = map(int, run.stdout.split())
    assert before == 0, "nothing is loaded yet that would be worth it"
    assert first == second
    assert (first > 10_000) == freezes
