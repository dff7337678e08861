"""Test that tests that start processes without the fixture `processes` fail, and that markers follow from fixtures."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from tests.support.sources.processes import ProcessGuard, ProcessStartedError

TEST = "tests/some/test_module.py::test_it"


@pytest.fixture
def guard() -> ProcessGuard:
    """A guard that is not installed: its hook is called by hand."""
    guard = ProcessGuard()
    guard.test = TEST
    return guard


def test_a_start_is_refused_in_this_very_test() -> None:
    # The guard of the run is at work here, because this test does not request `processes`.
    from tests.conftest import guard as installed

    with pytest.raises(ProcessStartedError, match="needs the fixture `processes`"):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(ProcessStartedError, match=r"os\.fork"):
        os.fork()
    assert len(installed.refused) == 2
    installed.refused.clear()


@pytest.mark.usefixtures("processes")
def test_a_start_is_allowed_with_the_fixture(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("processes") is not None
    subprocess.run([sys.executable, "-c", ""], check=True, timeout=60)


class OfParent:
    """Ends a process that frees it and is not the one that made it."""

    def __init__(self) -> None:
        self.cycle, self.pid = self, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.pid:
            os._exit(3)


@pytest.mark.usefixtures("processes")
def test_a_forked_process_frees_nothing_of_its_parent() -> None:
    OfParent()
    child = os.fork()
    if child == 0:
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("event", ["subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"])
def test_the_message_names_the_test_and_the_way_out(guard: ProcessGuard, event: str) -> None:
    with pytest.raises(ProcessStartedError) as caught:
        guard.audit(event, ("program", ["program", "argument"], None, None))
    assert TEST in str(caught.value)
    assert 'usefixtures("processes")' in str(caught.value)


def test_a_start_that_the_test_does_not_notice_fails_it(guard: ProcessGuard) -> None:
    with pytest.raises(ProcessStartedError):
        guard.audit("os.fork", ())
    with pytest.raises(pytest.fail.Exception, match="test_it starts a process"):
        guard.check()
    guard.check()


def test_nothing_else_is_refused(guard: ProcessGuard) -> None:
    guard.audit("open", ("file", "r", 0))
    guard.test = None
    guard.audit("subprocess.Popen", ("program", ["program"], None, None))
    guard.check()


def test_exempt_modules_may_start_processes(guard: ProcessGuard) -> None:
    namespace = {"__name__": "kafkalog.records.kernels.store.compiling", "guard": guard}
    exec("guard.audit('subprocess.Popen', ('program', ['program'], None, None))", namespace)
    guard.check()


def test_a_broker_makes_a_test_one_of_processes(request: pytest.FixtureRequest) -> None:
    fixtures = request.session._fixturemanager
    for name in ("broker", "broker_address", "start_broker"):
        definition = fixtures.getfixturedefs(name, request.node)
        assert definition is not None
        assert "processes" in definition[-1].argnames
