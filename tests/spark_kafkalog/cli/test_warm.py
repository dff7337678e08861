"""Test `kafkalog spark warm`: what it makes, tells and leaves alone."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from kafkalog.records import warm
from kafkalog.records.kernels.store import groups, places, processors
from spark_kafkalog.cli import byte_code
from spark_kafkalog.compat.workers import precompiled
from tests.support.command import call


@pytest.fixture
def one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave one group of kernels: compiling all of them takes long."""
    for name in list(groups.GROUPS):
        if name != "text":
            monkeypatch.delitem(groups.GROUPS, name)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules and tests, the only one whose byte code is looked at; there is no Spark."""
    home = tmp_path / "site" / "warmed"
    (home / "tests").mkdir(parents=True)
    for name in ("__init__.py", "a.py", "tests/b.py"):
        (home / name).write_text("A = 1\n")
    monkeypatch.syspath_prepend(str(home.parent))
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "none"))
    original = byte_code.count

    def count(packages: tuple[str, ...] = ("warmed",), *, compile_missing: bool = False) -> byte_code.Count:
        return original(packages, compile_missing=compile_missing)

    monkeypatch.setattr(byte_code, "count", count)
    return home


@pytest.mark.usefixtures("one_group")
def test_kernels_are_made_once_into_a_directory(tmp_path: Path) -> None:
    into = tmp_path / "kernels"
    words = ("spark", "warm", "--into", str(into))
    label = processors.default().label
    assert call(*words, "--status", check=1).out == [f"kernels for {label}: 0 of 1 files are there, without text"]
    assert not into.exists()
    (told,) = call(*words).out
    assert told.startswith(f"1 kernels for {label}, {sys.implementation.cache_tag}, numba ")
    assert told.endswith(f" s, 1 files in {into}")
    (file,) = into.glob("*.kernels")
    made = file.stat().st_mtime_ns
    (told,) = call(*words).out
    assert told.endswith(f": nothing to do, 1 files in {into}")
    assert file.stat().st_mtime_ns == made
    assert call(*words, "--status").out == [f"kernels for {label}: 1 of 1 files are there"]


@pytest.mark.usefixtures("one_group")
def test_kernels_are_made_for_several_processors(tmp_path: Path) -> None:
    told = call("spark", "warm", "--into", str(tmp_path), "--cpu", "generic", "--cpu", "native").out
    assert [each.split(" for ")[1].split(",")[0] for each in told] == [
        processors.levels()[0].label,
        processors.native().label,
    ]
    assert len(list(tmp_path.glob("*.kernels"))) == 2


def test_an_unknown_processor_is_wrong_usage() -> None:
    ended = call("spark", "warm", "--cpu", "z80", check=2)
    assert ended.err.startswith("kafkalog: --cpu z80 is no processor")


@pytest.mark.usefixtures("one_group")
def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = call("spark", "warm", "--into", str(tmp_path / "file" / "below"), check=1)
    assert f"no file could be written in {tmp_path}/file/below: name a directory that you can write in" in ended.err


@pytest.mark.usefixtures("one_group")
def test_byte_code_is_made_where_it_is_missing(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.VARIABLE, str(tmp_path / "kernels"))
    done = call("spark", "warm", "--status", check=1).out
    assert done[1] == "0 of 2 modules of kafkalog and its libraries have byte code"
    done = call("spark", "warm").out
    assert done[1] == "2 of 2 modules of kafkalog and its libraries have byte code, 2 compiled now"
    assert done[2].startswith("PySpark's archives are left as they are: there is no pyspark.zip in ")
    assert not (package / "tests" / "__pycache__").exists()
    # Code of an older source is as good as none.
    (package / "a.py").write_text("A = 22\n")
    assert byte_code.count().missing == 1
    (tmp_path / "none" / "python" / "lib").mkdir(parents=True)
    shutil.copy(_small_archive(tmp_path), tmp_path / "none" / "python" / "lib" / "pyspark.zip")
    assert call("spark", "warm", "--status", check=1).out[2].endswith(": 0 of 1 modules have byte code")
    assert call("spark", "warm").out[2].endswith(": 1 of 1 modules have byte code")
    assert call("spark", "warm", "--status").out[1:] == [
        "2 of 2 modules of kafkalog and its libraries have byte code",
        f"{tmp_path}/none/python/lib/pyspark.zip: 1 of 1 modules have byte code",
    ]


def _small_archive(directory: Path) -> Path:
    import zipfile

    path = directory / "small.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("pyspark/__init__.py", b"A = 1\n")
    assert precompiled.status(path).modules == 1
    return path


def test_byte_code_by_the_hash_of_its_source_is_taken(package: Path) -> None:
    import py_compile

    for mode in (py_compile.PycInvalidationMode.CHECKED_HASH, py_compile.PycInvalidationMode.UNCHECKED_HASH):
        for name in ("__init__.py", "a.py"):
            py_compile.compile(str(package / name), invalidation_mode=mode)
        os.utime(package / "a.py", (1e9, 1e9))
        assert byte_code.count().missing == 0
    Path(importlib.util.cache_from_source(str(package / "a.py"))).write_bytes(b"\0" * 5)
    assert byte_code.count().missing == 1


@pytest.mark.parametrize("names", [["text"], ["text", "nothing"]], ids=["known", "unknown"])
def test_the_module_makes_groups_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], names: list[str]
) -> None:
    # The package's directory may have them already.
    monkeypatch.setattr(places, "places", lambda: [tmp_path])
    code = warm.main(names)
    told = capsys.readouterr()
    if "nothing" in names:
        assert (code, told.out) == (2, "")
        assert told.err.startswith("there are no kernels nothing; their groups are ")
        assert not list(tmp_path.iterdir())
    else:
        assert code == 0
        assert told.out.startswith("1 kernels for ")
        assert [each.name.partition(".")[0] for each in tmp_path.glob("*.kernels")] == ["text"]
