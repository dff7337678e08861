"""Python environments as driver and executors have them: with kafkalog, without it, with another version of it.

They are virtual environments whose packages are links to those of this Python, so each takes a fraction of a second.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[3]
OURS = ("kafkalog", "spark_kafkalog", "pyspark_kafkalog", "broker")
SPARK = ("pyspark", "py4j")
OTHER_VERSION = "0.0.9"
_METADATA = re.compile(r"kafkalog-.*\.dist-info")


def make_environment(directory: Path, *, without: tuple[str, ...] = SPARK) -> Path:
    """Make an environment with kafkalog's dependencies, but `without` some; return its interpreter.

    PySpark is left out by default, as in archives for a cluster: Spark brings its own.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        name = re.split(r"[-.]", entry.name)[0]
        if name not in {*OURS, *without, "_editable_impl_kafkalog", "__pycache__"} and entry.suffix != ".pth":
            (site_packages(directory) / entry.name).symlink_to(entry)
    return directory / "bin" / "python"


def site_packages(environment: Path) -> Path:
    major, minor = sys.version_info[:2]
    return environment / "lib" / f"python{major}.{minor}" / "site-packages"


def with_kafkalog(directory: Path, *, without: tuple[str, ...] = SPARK) -> Path:
    """Make an environment that has this kafkalog."""
    python = make_environment(directory, without=without)
    for name in OURS:
        (site_packages(directory) / name).symlink_to(ROOT / name)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if _METADATA.fullmatch(entry.name):
            (site_packages(directory) / entry.name).symlink_to(entry)
    return python


def with_spark(directory: Path) -> Path:
    """Make an environment that has kafkalog and PySpark, as on the machine of a user."""
    return with_kafkalog(directory, without=())


def with_other_version(directory: Path) -> Path:
    """Make an environment that has a copy of kafkalog under another version."""
    python = make_environment(directory)
    for name in OURS:
        shutil.copytree(ROOT / name, site_packages(directory) / name)
    init = site_packages(directory) / "kafkalog" / "__init__.py"
    text, count = re.subn(r'(?m)^__version__ = ".*"$', f'__version__ = "{OTHER_VERSION}"', init.read_text())
    assert count == 1
    init.write_text(text)
    return python


MAKERS: dict[str, Callable[[Path], Path]] = {
    "with": with_kafkalog,
    "without": make_environment,
    "other": with_other_version,
    "spark": with_spark,
}
"""Environments by name."""
