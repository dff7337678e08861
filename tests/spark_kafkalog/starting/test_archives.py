"""Test which entries of PYTHONPATH are left out, and when none is."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_kafkalog.starting.archives import without_archives


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a directory of packages with PySpark as pip installs it."""
    for package in ("site/pyspark", "site/py4j", "site/pyspark/python/lib"):
        (tmp_path / package).mkdir(parents=True)
    for package in ("pyspark", "py4j"):
        (tmp_path / "site" / package / "__init__.py").touch()
    return tmp_path / "site"


def python_path(site: Path, *others: Path) -> str:
    lib = site / "pyspark" / "python" / "lib"
    return os.pathsep.join(map(str, (lib / "pyspark.zip", lib / "py4j-0.10.9.9-src.zip", *others)))


def zipped(path: Path, module: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(module, "")
    return path


def test_archives_of_the_installed_package_are_left_out_and_others_stay_in_their_order(site: Path) -> None:
    first, second = site.parent / "b", site.parent / "a"
    assert without_archives(python_path(site, first, second), [str(site)]) == f"{first}{os.pathsep}{second}"


def test_the_installed_package_may_be_in_pythonpath_itself(site: Path) -> None:
    assert without_archives(python_path(site, site), []) == str(site)


def test_without_archives_nothing_changes(site: Path) -> None:
    given = os.pathsep.join(("", str(site.parent), "x"))
    assert without_archives(given, [str(site)]) == given
    assert without_archives("", [str(site)]) == ""


def of_another_release(site: Path) -> tuple[str, list[str]]:
    home = site.parent / "spark"
    lib = home / "pyspark" / "python" / "lib"
    lib.mkdir(parents=True)
    return python_path(home), [str(site)]


def of_no_package(site: Path) -> tuple[str, list[str]]:
    return python_path(site), [str(site.parent)]


def of_a_package_behind_another(site: Path) -> tuple[str, list[str]]:
    before = site.parent / "before"
    (before / "pyspark").mkdir(parents=True)
    (before / "pyspark" / "__init__.py").touch()
    return python_path(site), [str(before), str(site)]


def without_py4j(site: Path) -> tuple[str, list[str]]:
    (site / "py4j" / "__init__.py").unlink()
    return python_path(site), [str(site)]


def with_py4j_elsewhere(site: Path) -> tuple[str, list[str]]:
    other = site.parent / "other"
    (other / "py4j").mkdir(parents=True)
    (other / "py4j" / "__init__.py").touch()
    return python_path(site, other), [str(site)]


def beside_another_directory_with_pyspark(site: Path) -> tuple[str, list[str]]:
    other = site.parent / "other"
    (other / "pyspark").mkdir(parents=True)
    (other / "pyspark" / "__init__.py").touch()
    return python_path(site, other), [str(site)]


def beside_another_archive_with_pyspark(site: Path) -> tuple[str, list[str]]:
    return python_path(site, zipped(site.parent / "files.zip", "pyspark/__init__.py")), [str(site)]


@pytest.mark.parametrize(
    "make",
    [
        of_another_release,
        of_no_package,
        of_a_package_behind_another,
        without_py4j,
        with_py4j_elsewhere,
        beside_another_directory_with_pyspark,
        beside_another_archive_with_pyspark,
    ],
)
def test_archives_stay_where_another_pyspark_could_be_imported(
    make: Callable[[Path], tuple[str, list[str]]], site: Path
) -> None:
    given, import_path = make(site)
    assert without_archives(given, import_path) == given


def test_archives_of_users_are_looked_into_and_damaged_ones_have_nothing(site: Path) -> None:
    damaged = site.parent / "damaged.zip"
    damaged.write_bytes(b"no archive")
    own = zipped(site.parent / "own.zip", "mine/__init__.py")
    given = python_path(site, own, damaged)
    assert without_archives(given, [str(site)]) == f"{own}{os.pathsep}{damaged}"
