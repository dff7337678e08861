"""Fetch foreign tests and their dependencies into the cache, with the ordinary clients of package registries."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

from peers.cache import MissingPeerError, cached, fetch, unpack


def python_environment(name: str, requirements: Sequence[str]) -> Path:
    """Return the `python` of a virtual environment with `requirements`.

    Raises:
        MissingPeerError: They cannot be installed.
    """

    def make(directory: Path) -> None:
        # Made in its final place, because a virtual environment cannot be moved.
        digest_directory.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(digest_directory, ignore_errors=True)
        venv.create(digest_directory, with_pip=True)
        python = str(digest_directory / "bin" / "python")
        fetch(name, [python, "-m", "pip", "install", "-q", *requirements], digest_directory)
        (directory / "python").write_text(python)

    digest = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:8]
    digest_directory = cached("conformance/environments", lambda directory: None) / f"{name}-{digest}"
    return Path((cached(f"conformance/python-{name}-{digest}", make) / "python").read_text())


def python_sdist(name: str, version: str) -> Path:
    """Return the unpacked source distribution of a Python package."""

    def make(directory: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name]
        fetch(f"{name} {version}", [*command, "-d", str(directory), f"{name}=={version}"], directory)
        for archive in directory.glob("*.tar.gz"):
            unpack(archive, directory)
            archive.unlink()

    return next((cached(f"conformance/sdist-{name}-{version}", make)).iterdir())


def repository(name: str, url: str, revision: str) -> Path:
    """Return the files of a public repository at a tag or commit, for tests that no registry has.

    `KAFKALOG_CONFORMANCE_SOURCES` may name a directory of clones; a clone called `name` there is used first.
    """

    def make(directory: Path) -> None:
        local = Path(os.environ.get("KAFKALOG_CONFORMANCE_SOURCES", "/nonexistent")) / name
        if shutil.which("git") is None:
            raise MissingPeerError("missing because git is not installed")
        origin = str(local) if local.is_dir() else url
        fetch(f"the tests of {name}", ["git", "clone", "-q", origin, "files"], directory)
        fetch(f"{name} at {revision}", ["git", "-C", "files", "checkout", "-q", revision], directory)
        shutil.rmtree(directory / "files" / ".git")

    return cached(f"conformance/repository-{name}-{revision}", make) / "files"


def npm_packages(name: str, packages: Mapping[str, str]) -> Path:
    """Return a `node_modules` with `packages` (name → version range) and their dependencies."""

    def make(directory: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise MissingPeerError("missing because npm (of Node.js) is not installed")
        (directory / "package.json").write_text(json.dumps({"private": True, "dependencies": dict(packages)}))
        fetch(name, [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], directory)

    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()[:8]
    return cached(f"conformance/npm-{name}-{digest}", make) / "node_modules"


def node() -> str:
    """Return the path of `node`.

    Raises:
        MissingPeerError: It is not installed.
    """
    found = shutil.which("node")
    if found is None:
        raise MissingPeerError("missing because node (Node.js) is not installed")
    return found


def edit(path: Path, replacements: Mapping[str, str]) -> None:
    """Replace texts in a foreign file.

    Raises:
        ValueError: A text is missing, because the file has changed.
    """
    text = path.read_text()
    for old, new in replacements.items():
        if old not in text:
            raise ValueError(f"{path.name} has no {old!r}")
        text = text.replace(old, new)
    path.write_text(text)


def go_module(module: str, version: str) -> Path:
    """Return a writable copy of a Go module's files."""

    def make(directory: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise MissingPeerError("missing because go is not installed")
        (directory / "go.mod").write_text("module conformance\n\ngo 1.21\n")
        fetch(module, [go, "mod", "download", f"{module}@{version}"], directory)
        cache = _output([go, "env", "GOMODCACHE"])
        escaped = "".join(f"!{letter.lower()}" if letter.isupper() else letter for letter in module)
        shutil.copytree(Path(cache) / f"{escaped}@{version}", directory / "files")
        for path in (directory / "files").rglob("*"):
            path.chmod(path.stat().st_mode | 0o200)
        fetch(f"what {module} needs", [go, "mod", "download"], directory / "files")

    return cached(f"conformance/go-{module.replace('/', '-')}-{version}", make) / "files"


def go_program(package: str, version: str) -> Path:
    """Return the executable of a Go program, compiled from its module."""

    def make(directory: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise MissingPeerError("missing because go is not installed")
        command = ["env", f"GOBIN={directory}", go, "install", f"{package}@{version}"]
        fetch(package, command, directory)

    directory = cached(f"conformance/program-{package.replace('/', '-')}-{version}", make)
    return directory / package.rpartition("/")[2]


def _output(command: Sequence[str]) -> str:
    import subprocess

    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
