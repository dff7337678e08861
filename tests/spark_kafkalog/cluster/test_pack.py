"""Test `kafkalog spark pack`: the archive's `bin/python` on hosts of all kinds, and what the command prints."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kafkalog.records.kernels.store import places
from kafkalog.records.kernels.store.groups import GROUPS
from peers.cache import unpack
from peers.clusters.spark_cluster import clean_environment
from spark_kafkalog.cli import pack as command
from spark_kafkalog.cluster import kernels, launcher, pack

VERSION = ".".join(map(str, sys.version_info[:2]))
SYSTEM = f"{platform.system()} {platform.machine()}"


@pytest.fixture(scope="module")
def archive(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory that an archive was unpacked into."""
    directory = tmp_path_factory.mktemp("packed")
    packed = directory / "environment.tar.gz"
    assert run("-o", str(packed), "--compression-level", "0") == 0
    assert packed.stat().st_mode & 0o777 == 0o644
    unpacked = directory / "unpacked"
    unpack(packed, unpacked)
    packed.unlink()
    return unpacked


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return pack.run(parser.parse_args(["pack", *words]))


def program(directory: Path, name: str, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def launch(directory: Path, *words: str, path: str = os.environ["PATH"], **variables: str) -> tuple[int, str]:
    """Run the archive's Python as an executor does, by a relative path; return the exit code and what it printed."""
    done = subprocess.run(
        ["./bin/python", *words], cwd=directory, env=clean_environment(PATH=path, **variables), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_archive_has_all_that_the_source_needs(archive: Path) -> None:
    """The interpreter that it runs has nothing of its own: `-S` leaves out its packages."""
    base = getattr(sys, "_base_executable", sys.executable)
    code = (
        "import sys, numba, pyarrow, kafkalog, spark_kafkalog.executor.range_reader\n"
        "from importlib.util import find_spec\n"
        "print([kafkalog.__file__, numba.__file__, find_spec('pyspark'), find_spec('py4j')])"
    )
    code_of, printed = launch(archive, "-S", "-c", code, KAFKALOG_BASE_PYTHON=base)
    packages = archive / launcher.PACKAGES
    assert code_of == 0, printed
    assert printed.strip() == str(
        [str(packages / "kafkalog" / "__init__.py"), str(packages / "numba" / "__init__.py"), None, None]
    )


def test_the_archive_s_kernels_are_used(archive: Path, tmp_path: Path) -> None:
    """Nothing is compiled on a host that only has the archive, also without HOME and as another user's."""
    base = getattr(sys, "_base_executable", sys.executable)
    code = (
        "from kafkalog.records.kernels.store import finding, places, processors\n"
        "found = finding.find('reading', places.places(), processors.usable())\n"
        "print(found.directory)"
    )
    code_of, printed = launch(archive, "-S", "-c", code, KAFKALOG_BASE_PYTHON=base, HOME=str(tmp_path))
    assert (code_of, printed.strip()) == (0, str(archive / launcher.PACKAGES / kernels.DIRECTORY))


def test_the_manifest_says_what_the_archive_is_for(archive: Path) -> None:
    manifest = json.loads((archive / pack.MANIFEST).read_text())
    assert (manifest["python"], manifest["system"]) == (VERSION, SYSTEM)
    assert manifest["packages"]["numba"]
    assert "pyspark" not in manifest["packages"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return an archive's directory with nothing but the launcher."""
    program(tmp_path / "archive" / "bin", "python", "")
    (tmp_path / "archive" / "bin" / "python").write_text(launcher.script(VERSION, SYSTEM, None))
    return tmp_path / "archive"


def tools(directory: Path) -> str:
    """Return a PATH with what the launcher calls and no Python."""
    directory.mkdir()
    for name in ("dirname", "readlink", "uname"):
        found = shutil.which(name)
        assert found is not None
        (directory / name).symlink_to(found)
    return str(directory)


@pytest.mark.usefixtures("processes")
class TestLauncher:
    def test_it_finds_the_version_by_name(self, small: Path, tmp_path: Path) -> None:
        path = tools(tmp_path / "tools")
        program(tmp_path / "tools", f"python{VERSION}", 'echo "$PYTHONPATH|$*"')
        packages = small.resolve() / launcher.PACKAGES
        assert launch(small, "-m", "a b", path=path) == (0, f"{packages}|-m a b\n")
        assert launch(small, "x", path=path, PYTHONPATH="/theirs") == (0, f"{packages}:/theirs|x\n")

    def test_it_works_through_a_link(self, small: Path, tmp_path: Path) -> None:
        path = tools(tmp_path / "tools")
        program(tmp_path / "tools", f"python{VERSION}", 'echo "$PYTHONPATH"')
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "bin").symlink_to(small / "bin")
        assert launch(tmp_path / "work", path=path) == (0, f"{small.resolve() / launcher.PACKAGES}\n")

    def test_python3_of_the_right_version_will_do(self, small: Path, tmp_path: Path) -> None:
        # The fixed places after PATH could have the version, too.
        text = launcher.script(VERSION, SYSTEM, "no-such-python")
        (small / "bin" / "python").write_text(text)
        path = tools(tmp_path / "tools")
        program(tmp_path / "tools", "python3", f'[ "$1" = -c ] && echo {VERSION} || echo "ran $*"')
        assert launch(small, "-m", "x", path=path) == (0, "ran -m x\n")

    def test_a_host_without_the_version_is_told_so(self, small: Path, tmp_path: Path) -> None:
        (small / "bin" / "python").write_text(launcher.script(VERSION, SYSTEM, "no-such-python"))
        path = tools(tmp_path / "tools")
        program(tmp_path / "tools", "python3", "echo 2.7")
        code, printed = launch(small, path=path)
        assert code == 127
        assert printed.startswith(f"kafkalog: this host has no Python {VERSION}, which the packages of ")
        assert "spark.executorEnv.KAFKALOG_BASE_PYTHON=PATH" in printed

    def test_another_system_is_refused(self, small: Path) -> None:
        (small / "bin" / "python").write_text(launcher.script(VERSION, "Plan9 pdp11", None))
        code, printed = launch(small)
        assert code == 126
        assert f"are for Plan9 pdp11, and this host is {SYSTEM}" in printed

    def test_the_named_interpreter_is_used_or_refused(self, small: Path, tmp_path: Path) -> None:
        right = program(tmp_path / "with space", "mine", f'[ "$1" = -c ] && echo {VERSION} || echo "mine $*"')
        assert launch(small, "-V", KAFKALOG_BASE_PYTHON=str(right)) == (0, "mine -V\n")
        wrong = program(tmp_path / "wrong", "mine", "echo 3.1")
        assert launch(small, KAFKALOG_BASE_PYTHON=str(wrong)) == (
            126,
            f"kafkalog: KAFKALOG_BASE_PYTHON is {wrong}, which is no Python {VERSION}\n",
        )

    def test_the_base_is_used(self, small: Path, tmp_path: Path) -> None:
        base = program(tmp_path / "it's", "python", f'[ "$1" = -c ] && echo {VERSION} || echo "base $*"')
        (small / "bin" / "python").write_text(launcher.script(VERSION, SYSTEM, str(base)))
        assert launch(small, "x") == (0, "base x\n")

    def test_a_base_of_another_version_is_not_used(self, small: Path, tmp_path: Path) -> None:
        """Another Python would not find the compiled modules of the packages."""
        base = program(tmp_path / "old", "python", "echo 3.1")
        (small / "bin" / "python").write_text(launcher.script(VERSION, SYSTEM, str(base)))
        path = tools(tmp_path / "tools")
        code, printed = launch(small, path=path)
        assert (code, printed.partition(",")[0]) == (127, f"kafkalog: this host has no Python {VERSION}")
        program(tmp_path / "tools", "python3", f'[ "$1" = -c ] && echo {VERSION} || echo "ran $*"')
        assert launch(small, "x", path=path) == (0, "ran x\n")


def test_a_zip_has_kafkalog_alone(processes: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "kafkalog.zip"
    assert run("-o", str(packed)) == 0
    with zipfile.ZipFile(packed) as opened:
        names = opened.namelist()
    assert {name.split("/")[0] for name in names} == {"kafkalog", "spark_kafkalog", "pyspark_kafkalog"}
    assert all(name.endswith((".py", ".kernels")) for name in names)
    compiled = [name for name in names if name.endswith(".kernels")]
    assert {name.rpartition("/")[0] for name in compiled} == {kernels.DIRECTORY}
    assert {name.rpartition("/")[2].split(".")[0] for name in compiled} == set(GROUPS)
    printed = capsys.readouterr().out
    assert f"--py-files {packed}" in printed
    assert "spark.dataSource.register(DefaultSource)" in printed


@pytest.mark.exhaustive
def test_kernels_of_a_place_that_cannot_be_written(
    processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are compiled for the archive alone."""
    monkeypatch.setattr(places, "places", lambda: [tmp_path / "nothing" / "here"])
    (tmp_path / "nothing").write_text("no directory")
    [*found] = kernels.compiled_files(["generic"], tmp_path / "scratch")
    assert {each.source.parent for each in found} == {tmp_path / "scratch"}
    assert all(each.source.stat().st_size for each in found)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["-o", "environment.tar"],
            2,
            "-o environment.tar: expected a name that ends with .tar.gz, .tgz or .zip",
        ),
        (["-o", "no/such/place.tgz"], 1, "kafkalog: -o no/such/place.tgz: No such file or directory\n"),
        (["-o", "directory.zip"], 1, "kafkalog: -o directory.zip: it is a directory\n"),
        (["-o", "x.tgz", "--package", "nope"], 1, "nope is not installed"),
        (["-o", "x.tgz", "--cpu", "z80"], 1, "--cpu z80"),
    ],
)
def test_what_cannot_be_packed(
    words: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("directory.zip").mkdir()
    assert run(*words) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.rglob("*")) == [tmp_path / "directory.zip"]
