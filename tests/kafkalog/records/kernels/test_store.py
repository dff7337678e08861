"""Test files of compiled kernels: which are used, which are passed over, who compiles, and what is left behind."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.records.kernels.store import bundle, finding, groups, places, processors
from kafkalog.records.kernels.store.bundle import BundleError
from kafkalog.records.kernels.store.fingerprint import FORMATS, fingerprint, sources_digest
from kafkalog.records.kernels.store.processors import Processor
from tests.support.waiting import wait_until

ROOT = Path(kafkalog.__file__).parents[1]
DEADLINE_S = 240.0
NOBODY = 65534
MADE_FOR = {"numba": "1", "sources": "abc"}
OLD = Processor("x86-64", "x86-64", "")
PARTS = {"text.first": b"one kernel", "text.second": b"", "text.third": bytes(range(256))}
NAMES = tuple(PARTS)
FILE = bundle.encode(PARTS, MADE_FOR, OLD)

_LOAD = """
import logging, os, sys
logging.basicConfig(level=logging.WARNING)
from pathlib import Path
from kafkalog.records.kernels.store import compiling, finding, groups, places, processors, results
{before}
found = finding.obtain("text", places.places(), processors.usable())
((_, kernel, signature),) = groups.kernels(groups.GROUPS["text"])
results.adopt(kernel, signature, found.parts["text.first_not_enclosed"])
import numpy as np
offsets, data = np.array([0, 2, 3], np.int32), np.frombuffer(b"{{}}[", np.uint8)
print(int(kernel(offsets.ctypes.data, data.ctypes.data, 0, 2)), found.is_new, found.directory)
"""
"""Load a kernel as `loader` does, call it (the second value is not closed), and tell where it came from."""
ELSEWHERE = 'places.package_directory = lambda: Path("/dev/null/none")'
"""A package directory in which nothing can be made, for any user, and in which other tests have made nothing."""


def environment(directory: Path, **more: str) -> dict[str, str]:
    """Return an environment without a home, whose temporary files go to `directory`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "SPARK_", "NUMBA_"))}
    return {**kept, "HOME": "/dev/null", "TMPDIR": str(directory), "PYTHONPATH": str(ROOT), **more}


def start(code: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    process: subprocess.Popen[str] = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Python imports from the working directory first.
        cwd="/",
    )
    return process


def result(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    output, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors
    return output.split(), errors


def load(directory: Path, before: str = ELSEWHERE, **more: str) -> tuple[list[str], str]:
    """Return what `_LOAD` prints, and its messages."""
    return result(start(_LOAD.format(before=before), environment(directory, **more)))


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


# A file as bytes


def test_a_file_gives_what_it_was_made_of() -> None:
    assert bundle.decode(FILE, NAMES, MADE_FOR, OLD) == PARTS
    assert bundle.decode(FILE, NAMES[:1], MADE_FOR, OLD) == {NAMES[0]: PARTS[NAMES[0]]}


def test_a_file_without_its_end_is_refused() -> None:
    for size in range(len(FILE)):
        with pytest.raises(BundleError):
            bundle.decode(FILE[:size], NAMES, MADE_FOR, OLD)


@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_a_file_with_another_byte_is_refused_or_harmless(at: int, change: int) -> None:
    damaged = bytearray(FILE)
    damaged[at] ^= change
    try:
        parts = bundle.decode(bytes(damaged), NAMES, MADE_FOR, OLD)
    except BundleError:
        return
    assert parts == PARTS


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    for each in (data, FILE[:8] + data, FILE[:12] + data):
        with pytest.raises(BundleError):
            bundle.decode(each, NAMES, MADE_FOR, OLD)


@pytest.mark.parametrize(
    ("names", "made_for", "processor", "message"),
    [
        (NAMES, {**MADE_FOR, "numba": "2"}, OLD, "other versions"),
        (NAMES, MADE_FOR, Processor("x86-64", "x86-64", "+avx"), "another processor"),
        ((*NAMES, "text.fourth"), MADE_FOR, OLD, r"no kernel text\.fourth"),
    ],
    ids=["versions", "processor", "kernel"],
)
def test_a_file_for_something_else_is_refused(
    names: tuple[str, ...], made_for: dict[str, str], processor: Processor, message: str
) -> None:
    with pytest.raises(BundleError, match=message):
        bundle.decode(FILE, names, made_for, processor)


# Groups, processors, sources


def test_groups_name_all_kernels_and_no_others() -> None:
    named = {name for names in groups.GROUPS.values() for name in names}
    modules = {name.partition(".")[0] for name in named}
    defined = set()
    for module in ("batch_filtering", "key_indexing", "log_checking", "reading", "rows", "text", "unpacking", "writing",
                   "upgrading"):  # fmt: skip
        tree = ast.parse((ROOT / f"kafkalog/records/kernels/compiled/{module}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "SIGNATURES":
                assert isinstance(node.value, ast.Dict)
                defined |= {f"{module}.{key.id}" for key in node.value.keys if isinstance(key, ast.Name)}
        modules.discard(module)
    assert named == defined
    assert not modules


def test_all_sources_of_kernels_are_in_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that is compiled in and not in the fingerprint would go on being used after a change."""
    kernels = ROOT / "kafkalog/records/kernels"
    imported = set()
    for path in (*(kernels / "abi").glob("*.py"), *(kernels / "compiled").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafkalog"):
                assert node.module is not None
                names = [f"{node.module}.{each.name}" for each in node.names]
                imported |= {name if _is_module(name) else node.module for name in names}
    outside = {name for name in imported if not name.startswith("kafkalog.records.kernels.")}
    assert outside == {f"kafkalog.records.{name.removesuffix('.py')}" for name in FORMATS}
    before = sources_digest()
    monkeypatch.setattr("kafkalog.records.kernels.store.fingerprint.FORMATS", FORMATS[:-1])
    assert sources_digest() != before


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or path.is_dir()


def test_parts_are_dealt_out_and_none_is_lost() -> None:
    assert groups.divided("abcdefg", 3) == [["a", "f", "g"], ["b", "e"], ["c", "d"]]
    assert groups.divided("a", 4) == [["a"]]


@pytest.fixture
def processor_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the machine be an x86 with the features that the test adds to the list."""
    features: list[str] = []
    monkeypatch.setattr(processors, "_features", lambda: dict.fromkeys(features, True))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    processors.levels.cache_clear()
    yield features
    processors.levels.cache_clear()


V2 = ["cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"]
V3 = ["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]
V4 = ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]


@pytest.mark.parametrize(
    ("features", "level", "default"),
    [
        ([], "x86-64", "x86-64"),
        (V2, "x86-64-v2", "x86-64-v2"),
        (V2[1:] + V3, "x86-64", "x86-64"),
        (V2 + V3[:-1], "x86-64-v2", "x86-64-v2"),
        (V2 + V3, "x86-64-v3", "x86-64-v3"),
        (V2 + V3 + V4, "x86-64-v4", "x86-64-v3"),
    ],
    ids=["none", "v2", "v3 without one of v2", "v3 without one", "v3", "v4"],
)
def test_a_processor_has_the_levels_whose_features_it_has(
    processor_with: list[str], features: list[str], level: str, default: str
) -> None:
    processor_with += features
    assert processors.levels()[-1].label == level
    assert processors.default().label == default
    assert processors.named("generic").label == "x86-64"
    assert processors.named("x86-64-v4").cpu == "x86-64-v4"


def test_an_unknown_processor_is_told() -> None:
    with pytest.raises(processors.UnknownProcessorError, match=r"z80 is no processor .* there are native, generic"):
        processors.named("z80")


# Which file is used


@pytest.fixture
def made(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the group `text`, of parts that are no kernels."""
    monkeypatch.setitem(groups.GROUPS, "text", NAMES)
    kernels.mkdir()
    name = finding.file_name("text", OLD)
    places.write(kernels, name, bundle.encode(PARTS, fingerprint(), OLD))
    return kernels / name


def test_the_first_usable_processor_and_directory_win(made: Path, tmp_path: Path) -> None:
    found = finding.find("text", [tmp_path, made.parent], [processors.native(), OLD])
    assert found is not None
    assert (found.parts, found.processor, found.directory, found.is_new) == (PARTS, OLD, made.parent, False)
    assert finding.find("text", [made.parent], [processors.native()]) is None
    assert finding.find("text", [tmp_path], [OLD]) is None


def test_a_damaged_file_is_passed_over_and_told(made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(made.parent, whole)
    made.write_bytes(made.read_bytes()[:-1])
    found = finding.find("text", [made.parent, whole], [OLD])
    assert found is not None
    assert found.directory == whole
    assert f"{made} is not used: its kernel text.third is damaged" in caplog.text


def test_what_is_no_file_is_passed_over(made: Path) -> None:
    made.unlink()
    made.mkdir()
    assert finding.find("text", [made.parent], [OLD]) is None
    made.rmdir()
    os.mkfifo(made)
    assert finding.find("text", [made.parent], [OLD]) is None


@pytest.mark.parametrize(("mode", "by_root"), [(0o646, False), (0o664, True)])
def test_a_file_that_others_may_write_is_not_read(made: Path, mode: int, by_root: bool) -> None:
    """Root's group may: images for OpenShift, whose processes have any user, give it the rights of the owner."""
    assert stat.S_IMODE(made.stat().st_mode) == 0o644
    made.chmod(mode)
    for group in (0, NOBODY) if os.geteuid() == 0 else (os.getegid(),):
        os.chown(made, -1, group)
        assert (finding.find("text", [made.parent], [OLD]) is not None) == (by_root and group == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to somebody else")
def test_a_file_of_somebody_else_is_not_read(made: Path) -> None:
    os.chown(made, NOBODY, NOBODY)
    assert finding.find("text", [made.parent], [OLD]) is None


def test_a_writer_removes_what_a_killed_one_left(made: Path) -> None:
    left = made.parent / f".{made.name}.1234-5"
    left.write_bytes(b"half")
    other = made.parent / f".other{made.name}.1234-5"
    other.write_bytes(b"of a writer that may be at work")
    unused = made.parent / f"rows.x86-64.0{places.SUFFIX}"
    unused.write_bytes(b"of an old version")
    os.utime(unused, (1e9, 1e9))
    places.write(made.parent, made.name, made.read_bytes())
    assert sorted(made.parent.iterdir()) == sorted([made, other])


def test_places_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocks = tmp_path / "blockmgr-1"
    blocks.mkdir()
    for name, value in {
        "KAFKALOG_KERNELS": "given",
        "NUMBA_CACHE_DIR": "/numba",
        "XDG_CACHE_HOME": "/cache",
        "SPARK_LOCAL_DIRS": f"{blocks},/other",
    }.items():
        monkeypatch.setenv(name, value)
    package = places.package_directory()
    assert places.places() == [
        Path.cwd() / "given", Path("/numba/kafkalog"), package, Path("/cache/kafkalog/kernels"),
        blocks / "kafkalog-kernels",
    ]  # fmt: skip
    for name in ("KAFKALOG_KERNELS", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name)
    # What an administrator sets for Spark itself is not removed by Spark.
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/of")
    assert places.places()[0] == package
    assert places.places()[-1].parts[:3] == ("/", "home", "of")
    assert not [each for each in places.places() if tmp_path in each.parents]


# Processes


@pytest.mark.usefixtures("processes")
def test_processes_that_start_together_compile_once(kernels: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        there = environment(tmp_path, KAFKALOG_KERNELS=str(kernels))
        started = [start(_LOAD.format(before=ELSEWHERE), there) for _ in range(4)]
        for each in started:
            stack.callback(each.kill)
        told = [result(each)[0] for each in started]
    assert sorted(is_new for _, is_new, _ in told) == ["False", "False", "False", "True"]
    assert {(index, where) for index, _, where in told} == {("1", str(kernels))}
    assert sorted(each.suffix for each in kernels.iterdir()) == [".kernels", ".lock"]


@pytest.mark.usefixtures("processes")
def test_a_damaged_file_is_compiled_anew(kernels: Path, tmp_path: Path) -> None:
    assert load(tmp_path, KAFKALOG_KERNELS=str(kernels))[0][1] == "True"
    (file,) = kernels.glob("*.kernels")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    (_, is_new, _), said = load(tmp_path, KAFKALOG_KERNELS=str(kernels))
    assert is_new == "True"
    assert "is not used" in said
    assert load(tmp_path, KAFKALOG_KERNELS=str(kernels)) == (["1", "False", str(kernels)], "")


@pytest.mark.usefixtures("processes")
def test_a_killed_compilation_ends_and_another_process_goes_on(kernels: Path, tmp_path: Path) -> None:
    there = environment(tmp_path, KAFKALOG_KERNELS=str(kernels))
    # Children import this instead of numba, and would not end by themselves.
    endless = tmp_path / "endless"
    endless.mkdir()
    (endless / "numba.py").write_text("import time\ntime.sleep(3600)\n")
    code = _LOAD.format(before=f"{ELSEWHERE}\nimport numba\nsys.path.insert(0, {str(endless)!r})")
    with ExitStack() as stack:
        first = start(code, there)
        stack.callback(first.communicate)
        stack.callback(first.kill)
        compiles = psutil.Process(first.pid)
        wait_until(lambda: bool(compiles.children()), "a process compiles", DEADLINE_S)
        children = compiles.children()
        waiting = start(_LOAD.format(before=ELSEWHERE), there)
        stack.callback(waiting.kill)
        first.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(children, DEADLINE_S)
        assert not alive
        assert result(waiting)[0] == ["1", "True", str(kernels)]


@pytest.mark.usefixtures("processes")
def test_a_process_that_can_write_nowhere_leaves_nothing(tmp_path: Path) -> None:
    assert load(tmp_path)[0] == ["1", "True", "None"]
    assert not list(tmp_path.iterdir())


_AS_NOBODY = f"""
{ELSEWHERE}
from kafkalog.records.kernels.store.fingerprint import key
key()
obtain = finding.obtain
def obtain_as_nobody(*given):
    os.seteuid({NOBODY})
    try:
        return obtain(*given)
    finally:
        os.seteuid(0)
finding.obtain = obtain_as_nobody
"""
"""Only this step, since the interpreter may lie where that user cannot import from it."""


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(os.geteuid() != 0, reason="root may write anywhere, so it becomes another user")
def test_a_directory_of_others_is_read_and_not_written(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        kernels = Path(name)
        kernels.chmod(0o755)
        there = environment(tmp_path, KAFKALOG_KERNELS=name)
        assert result(start(_LOAD.format(before=ELSEWHERE), there))[0][1] == "True"
        before = {each.name: each.stat().st_mtime_ns for each in kernels.iterdir()}
        told, _ = result(start(_LOAD.format(before=_AS_NOBODY), there))
        assert told == ["1", "False", name]
        assert {each.name: each.stat().st_mtime_ns for each in kernels.iterdir()} == before


@pytest.mark.usefixtures("processes")
def test_workers_of_an_executor_share_its_directory(tmp_path: Path) -> None:
    blocks = tmp_path / "blockmgr-1234"
    blocks.mkdir()
    where = str(blocks / "kafkalog-kernels")
    assert load(tmp_path, SPARK_LOCAL_DIRS=str(blocks))[0] == ["1", "True", where]
    assert load(tmp_path, SPARK_LOCAL_DIRS=str(blocks))[0] == ["1", "False", where]


@pytest.mark.usefixtures("processes")
def test_a_package_in_an_archive_brings_its_kernels(kernels: Path, tmp_path: Path) -> None:
    assert load(tmp_path, KAFKALOG_KERNELS=str(kernels))[0][1] == "True"
    archive = tmp_path / "archive" / "kafkalog.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted((ROOT / "kafkalog").rglob("*.py")):
            file.write(path, path.relative_to(ROOT))
        for path in kernels.glob("*.kernels"):
            file.write(path, f"kafkalog/records/kernels/cache/{path.name}")
    told, _ = load(tmp_path, "", PYTHONPATH=str(archive))
    assert told == ["1", "False", str(archive / "kafkalog/records/kernels/cache")]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["archive", "kernels"]


_IN_PROCESS = """
import logging
logging.basicConfig(level=logging.WARNING)
import numba
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.store import bundle, compiling, finding
def obtain(*_):
    {instead}
finding.obtain = obtain
loader.load("text")
from kafkalog.records.kernels.compiled.text import first_not_enclosed
print(len(first_not_enclosed.overloads))
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("instead", "told"),
    [
        ('raise compiling.CompileError("no process can be started")', "no process can be started"),
        ('return finding.Found({"text.first_not_enclosed": b"junk"}, None, None, False)', "cannot be used"),
    ],
    ids=["no child process", "no kernel"],
)
def test_what_cannot_be_had_is_compiled_in_the_process(tmp_path: Path, instead: str, told: str) -> None:
    output, said = result(start(_IN_PROCESS.format(instead=instead), environment(tmp_path)))
    assert output == ["1"]
    assert "kernels are compiled in this process, and are not kept" in said
    assert told in said


@pytest.mark.usefixtures("processes")
def test_a_users_settings_of_numba_are_not_compiled_in_and_stay(kernels: Path, tmp_path: Path) -> None:
    before = f"{ELSEWHERE}\nimport numba\nassert numba.config.BOUNDSCHECK == 1"
    told, _ = load(tmp_path, before, KAFKALOG_KERNELS=str(kernels), NUMBA_BOUNDSCHECK="1", NUMBA_CPU_NAME="generic")
    assert told[:2] == ["1", "True"]
    (file,) = kernels.glob("*.kernels")
    assert file.name.split(".")[1] == processors.default().label
    assert load(tmp_path, KAFKALOG_KERNELS=str(kernels))[0][:2] == ["1", "False"]


# What machine code needs of the process


_TELL_IMPORTS = """
print("numba.np.linalg" in sys.modules, "numba.typed.typeddict" in sys.modules)
"""
"""Tell whether all that numba's compiler knows was imported."""


@pytest.mark.usefixtures("processes")
def test_a_stored_kernel_needs_no_compiler(kernels: Path, tmp_path: Path) -> None:
    there = environment(tmp_path, KAFKALOG_KERNELS=str(kernels))
    assert load(tmp_path, KAFKALOG_KERNELS=str(kernels))[0][1] == "True"
    told, _ = result(start(_LOAD.format(before=ELSEWHERE) + _TELL_IMPORTS, there))
    assert told[:2] == ["1", "False"]
    assert told[3:] == ["False", "False"]


@pytest.mark.usefixtures("processes")
def test_an_unknown_symbol_imports_the_compiler(kernels: Path, tmp_path: Path) -> None:
    there = environment(tmp_path, KAFKALOG_KERNELS=str(kernels))
    assert load(tmp_path, KAFKALOG_KERNELS=str(kernels))[0][1] == "True"
    unknown = ELSEWHERE + "\nresults.unknown = lambda symbols, real=results.unknown: real((*symbols, 'kafkalog_none'))"
    told, _ = result(start(_LOAD.format(before=unknown) + _TELL_IMPORTS, there))
    assert told[:2] == ["1", "False"]
    assert told[3:] == ["True", "True"]
