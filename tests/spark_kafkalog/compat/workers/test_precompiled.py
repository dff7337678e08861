"""Tests of byte code in copies of PySpark's archives: used by zipimport, replaced, removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafkalog.compat.workers import precompiled
from spark_kafkalog.compat.workers.precompiled import PrecompileError
from tests.support.command import lines, run

NOBODY = 65534
IMPORTED = "import sys, pyspark.sql.datasource as it; print(it.__cached__, it.__loader__.archive)"


def small_archive(path: Path, sources: dict[str, bytes] | None = None) -> Path:
    """An archive as PySpark's, of a few modules."""
    given = sources or {"pyspark/__init__.py": b"", "pyspark/a.py": b"A = 1\n", "pyspark/data.txt": b"text"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in given.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, data)
    return path


def places(archive: Path) -> dict[str, int]:
    with zipfile.ZipFile(archive) as file:
        return {each.filename: each.header_offset for each in file.filelist if not each.filename.endswith(".pyc")}


def imported(archive: Path, program: str, time_zone: str = "UTC", *options: str) -> list[str]:
    """Run a program whose modules come from an archive; return the lines that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(archive), "TZ": time_zone}
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.split()


@pytest.fixture(scope="module")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what of a Spark installation has byte code."""
    home = tmp_path_factory.mktemp("spark")
    for archive in precompiled.find_archives():
        (home / "python" / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(archive, home / "python" / "lib")
    for archive in precompiled.find_archives(home):
        precompiled.undo(archive)
    return home


@pytest.mark.usefixtures("processes")
def test_the_command(spark_home: Path) -> None:
    words = ("spark", "precompile", "--spark-home", str(spark_home))
    archives = precompiled.find_archives(spark_home)
    assert [each.name.partition("-")[0] for each in archives] == ["pyspark.zip", "py4j"]
    before = [each.read_bytes() for each in archives]
    told = run(*words, "--status", check=1)
    assert all(": 0 of " in line for line in lines(told))
    run(*words)
    assert all(precompiled.status(each).complete for each in archives)
    assert [places(each) for each in archives] == [places(each) for each in precompiled.find_archives()]
    run(*words, "--status")
    path = os.pathsep.join(map(str, archives))
    for zone in ("UTC", "Asia/Tokyo"):
        cached, archive = imported(Path(path), IMPORTED, zone)
        assert cached.endswith(".pyc")
        assert archive == str(archives[0])
    done = [each.read_bytes() for each in archives]
    assert all("nothing to do" in line for line in lines(run(*words)))
    assert [each.read_bytes() for each in archives] == done
    run(*words, "--undo")
    assert [each.read_bytes() for each in archives] == before
    assert all("nothing to do" in line for line in lines(run(*words, "--undo")))


@pytest.mark.usefixtures("processes")
def test_no_spark(tmp_path: Path) -> None:
    done = run("spark", "precompile", "--spark-home", str(tmp_path), check=1)
    assert b"is %s a Spark installation?" % str(tmp_path).encode() in done.stderr


@pytest.mark.usefixtures("processes")
def test_other_byte_code_is_replaced(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "pyspark.zip")
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("pyspark/a.pyc", b"of another Python")
    found = precompiled.status(archive)
    assert (found.modules, found.current, found.other) == (2, 0, 1)
    assert precompiled.precompile(archive).complete
    assert imported(archive, "import pyspark.a as it; print(it.A, it.__cached__)") == ["1", f"{archive}/pyspark/a.pyc"]
    with zipfile.ZipFile(archive) as file:
        assert sorted(file.namelist()) == [
            *("pyspark/__init__.py", "pyspark/__init__.pyc", "pyspark/a.py", "pyspark/a.pyc", "pyspark/data.txt")
        ]
        assert file.testzip() is None


@pytest.mark.usefixtures("processes")
def test_a_changed_source_is_told_and_compiled_again(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "pyspark.zip")
    precompiled.precompile(archive)
    with zipfile.ZipFile(archive) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    small_archive(archive, {name: data for name, data in entries.items() if name != "pyspark/a.py"})
    with zipfile.ZipFile(archive) as file:
        kept = {name: file.read(name) for name in file.namelist() if not name.endswith(".pyc")}
    small_archive(archive, {**kept, "pyspark/a.py": b"A = 2\n", "pyspark/a.pyc": entries["pyspark/a.pyc"]})
    assert precompiled.status(archive).other == 1
    assert precompiled.precompile(archive).complete
    assert imported(archive, "import pyspark.a as it; print(it.A)") == ["2"]


@pytest.mark.usefixtures("processes")
def test_a_process_that_has_read_the_directory_goes_on(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "pyspark.zip")
    program = (
        "import sys, pyspark\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from spark_kafkalog.compat.workers import precompiled\n"
        "precompiled.precompile(Path(sys.argv[2]))\n"
        "import pyspark.a as it\n"
        "print(it.A)\n"
    )
    root = Path(precompiled.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(root), str(archive)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["1"], done.stderr


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    target = small_archive(tmp_path / "kept.zip")
    target.chmod(0o640)
    link = tmp_path / "pyspark.zip"
    link.symlink_to(target)
    assert precompiled.precompile(link).complete
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept.zip", "pyspark.zip"]


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory that may be read and not written."""
    directory = Path(tempfile.mkdtemp())
    user = os.geteuid()
    try:
        small_archive(directory / "pyspark.zip")
        directory.chmod(0o555)
        (directory / "pyspark.zip").chmod(0o444)
        if user == 0:
            os.seteuid(NOBODY)
        yield directory
    finally:
        if user == 0:
            os.seteuid(user)
        directory.chmod(0o755)
        shutil.rmtree(directory)


def test_a_read_only_installation_is_refused(read_only: Path) -> None:
    archive = read_only / "pyspark.zip"
    before = archive.read_bytes()
    with pytest.raises(PrecompileError, match=r"pyspark\.zip cannot be replaced: Permission denied"):
        precompiled.precompile(archive)
    assert archive.read_bytes() == before
    assert [each.name for each in read_only.iterdir()] == ["pyspark.zip"]


@pytest.mark.parametrize("source", [b"def (:\n", b"\x00"], ids=["syntax", "null"])
def test_a_module_that_cannot_be_compiled(tmp_path: Path, source: bytes) -> None:
    archive = small_archive(tmp_path / "pyspark.zip", {"pyspark/bad.py": source})
    before = archive.read_bytes()
    with pytest.raises(PrecompileError, match=r"pyspark/bad\.py cannot be compiled"):
        precompiled.precompile(archive)
    assert archive.read_bytes() == before


def test_a_broken_archive(tmp_path: Path) -> None:
    archive = tmp_path / "pyspark.zip"
    archive.write_bytes(b"PK" * 100)
    with pytest.raises(PrecompileError, match=r"pyspark\.zip cannot be read"):
        precompiled.precompile(archive)
