"""Test which distributions and files an archive for executors has."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from spark_kafkalog.cluster import distributions
from spark_kafkalog.cluster.distributions import PackError, Requirement, files_of, needed, own_files, parse_requirement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numpy<3,>=1.26", ("numpy", set(), None, False)),
        ("Google_RE2 (>=1.1)", ("google-re2", set(), None, False)),
        ("pyspark[connect]<4.4,>=4.2; extra == 'dev'", ("pyspark", {"connect"}, "dev", False)),
        ('x[a, b]; (python_version < "3.12") and extra == "y"', ("x", {"a", "b"}, "y", True)),
        ("tomli; python_version < '3.11'", ("tomli", set(), None, True)),
    ],
)
def test_requirements(text: str, expected: tuple[str, set[str], str | None, bool]) -> None:
    name, extras, extra, other = expected
    assert parse_requirement(text) == Requirement(name, frozenset(extras), extra, other)


def test_a_requirement_without_a_name() -> None:
    with pytest.raises(PackError, match="cannot be read"):
        parse_requirement("; extra == 'dev'")


def test_what_is_needed() -> None:
    names = {distributions.canonical(each.metadata["Name"]) for each in needed()}
    assert {"numpy", "numba", "llvmlite", "pyarrow", "crc32c", "cramjam", "lz4"} <= names
    assert not {"pyspark", "py4j", "kafkalog", "pytest", "pandas"} & names
    more = {distributions.canonical(each.metadata["Name"]) for each in needed(["pandas"])}
    assert {"pandas", "python-dateutil"} <= more - names


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(PackError, match=r"no-such-package is not installed .*: pip install no-such-package"):
        needed(["No_Such.Package"])


def test_a_dependency_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = distributions._installed
    monkeypatch.setattr(distributions, "_installed", lambda name: None if name == "lz4" else installed(name))
    with pytest.raises(PackError, match=r"lz4, which kafkalog needs, is not installed here"):
        needed()


def test_files_of_a_distribution() -> None:
    names = [each.name for each in files_of(metadata.distribution("numba"))]
    assert "numba/__init__.py" in names
    assert not [name for name in names if "/tests/" in name or name.endswith((".h", ".pth")) or ".." in name]


class Listed:
    """A distribution with the files that it lists."""

    def __init__(self, files: list[metadata.PackagePath] | None, root: Path = Path("/nowhere")) -> None:
        self.metadata = {"Name": "other"}
        self.files = files
        self._root = root

    def locate_file(self, path: object) -> Path:
        return self._root / str(path)


def test_all_modules_of_other_packages_are_packed(tmp_path: Path) -> None:
    names = ["own/__init__.py", "own/test/runner.py", "own/tests/cases.py", "own/include/macros.h"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    listed = Listed([metadata.PackagePath(name) for name in [*names, "../../bin/own", "own.pth"]], tmp_path)
    assert [each.name for each in files_of(listed)] == names  # type: ignore[arg-type]


def test_distributions_without_files() -> None:
    with pytest.raises(PackError, match="other does not list its files: pack from an environment that pip has made"):
        list(files_of(Listed(None)))  # type: ignore[arg-type]
    editable = metadata.PackagePath("__editable__.other.pth")
    with pytest.raises(PackError, match="install it without --editable"):
        list(files_of(Listed([editable])))  # type: ignore[arg-type]


def test_kafkalog_s_own_files() -> None:
    names = [each.name for each in own_files()]
    assert {"kafkalog/__init__.py", "pyspark_kafkalog/__init__.py", "spark_kafkalog/source.py"} <= set(names)
    assert [name for name in names if name.endswith(".dist-info/METADATA")]
    assert not [name for name in names if name.startswith("tests/")]
