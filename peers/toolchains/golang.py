"""Build Go programs that use franz-go, once for each source text, into the cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from peers.cache import MissingPeerError, cached, fetch, why_missing

_MODULES = ("github.com/twmb/franz-go@v1.22.2", "github.com/twmb/franz-go/pkg/kadm@v1.19.0")


def build(source: Path) -> Path:
    """Return the program built from one source file.

    Raises:
        MissingPeerError: It cannot be built.
    """
    text = source.read_bytes()

    def make(directory: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise MissingPeerError("missing because go is not installed")
        (directory / "main.go").write_bytes(text)
        subprocess.run([go, "mod", "init", "peers"], cwd=directory, capture_output=True, check=True)
        fetch("franz-go", [go, "get", *_MODULES], directory)
        fetch("franz-go", [go, "build", "-o", "program", "."], directory)

    digest = hashlib.sha256(text + "".join(_MODULES).encode()).hexdigest()[:12]
    return cached(f"go/{source.stem}-{digest}", make) / "program"


def missing(source: Path) -> str | None:
    """Return why the program of `source` cannot run here, or None. The first call builds it."""
    return why_missing(lambda: build(source))
