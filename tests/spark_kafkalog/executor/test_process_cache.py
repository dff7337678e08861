"""Tests of what a process keeps between tasks: how much, until when, and that a fork starts empty."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from spark_kafkalog.process_cache import ProcessCache


def test_the_least_recently_used_object_is_closed_to_make_room() -> None:
    closed: list[str] = []
    cache: ProcessCache[int, str] = ProcessCache(2, closed.append)
    assert cache.get(1, lambda: "one") == "one"
    cache.get(2, lambda: "two")
    assert cache.get(1, lambda: "another") == "one"
    cache.get(3, lambda: "three")
    assert closed == ["two"]
    cache.clear()
    assert closed == ["two", "one", "three"]
    assert cache.get(1, lambda: "new") == "new"


@pytest.mark.usefixtures("processes")
def test_a_forked_process_begins_with_none_and_leaves_its_parents_alone() -> None:
    closed: list[str] = []
    cache: ProcessCache[int, str] = ProcessCache(1, closed.append)
    cache.get(1, lambda: "parent's")
    child = os.fork()
    if child == 0:
        cache.get(2, lambda: "child's")
        cache.clear()
        os._exit(0 if closed == ["child's"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get(1, lambda: "new") == "parent's"


@pytest.mark.usefixtures("processes")
def test_objects_are_closed_at_exit() -> None:
    script = (
        "from spark_kafkalog.process_cache import ProcessCache\n"
        "cache = ProcessCache(1, lambda each: print('closed', each))\n"
        "cache.get(1, lambda: 'one')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "closed one\n"
