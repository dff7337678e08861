"""Find Java and run classes or single source files with a class path."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from peers.cache import MissingPeerError, cached

LOWEST_JAVA = 17


def java_command() -> str | None:
    """Return the path of `java`: from JAVA_HOME, else from PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


@functools.cache
def missing() -> str | None:
    """Return why Java programs cannot run here, or None."""
    java = java_command()
    if java is None:
        return f"missing because java is not installed (Java {LOWEST_JAVA} or newer is needed)"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', said.stderr)
    if said.returncode != 0 or version is None:
        return f"missing because `{java} -version` failed: {said.stderr.strip()[:200]}"
    if int(version[1]) < LOWEST_JAVA:
        return f"missing because java is version {version[1]}, and {LOWEST_JAVA} or newer is needed"
    return None


def compiler_missing() -> str | None:
    """Return why Java programs cannot be compiled into classes here, or None."""
    return None if shutil.which("javac") else "missing because javac (a JDK) is not installed"


def compile_java(classpath: Sequence[Path], source: Path, directory: Path) -> None:
    """Compile a source file into classes in `directory`.

    Raises:
        MissingPeerError: It cannot be compiled.
    """
    jars = ":".join(map(str, classpath))
    done = subprocess.run(
        ["javac", "-cp", jars, "-d", str(directory), str(source)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise MissingPeerError(f"missing because {source.name} cannot be compiled: {done.stderr[-1500:]}")


def compiled(classpath: Sequence[Path], source: Path) -> Path:
    """Return the directory with the classes of a source file, which is compiled once for each of its texts.

    Raises:
        MissingPeerError: It cannot be compiled.
    """
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
    return cached(f"java/{source.stem}-{digest}", lambda directory: compile_java(classpath, source, directory))


def java_line(classpath: Sequence[Path], main: str, args: Sequence[str], jvm: Sequence[str] = ()) -> list[str]:
    """Return the command that runs `main`.

    `main` is a class name, or the path of a .java file, which Java compiles in memory.
    """
    java = java_command()
    if java is None:
        raise FileNotFoundError(str(missing()))
    return [java, *jvm, "-cp", ":".join(map(str, classpath)), main, *args]


def run_java(
    classpath: Sequence[Path],
    main: str,
    args: Sequence[str] = (),
    *,
    jvm: Sequence[str] = ("-Xmx512M",),
    stdin: str | None = None,
    timeout_s: float = 120.0,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a Java program; return its standard output.

    Raises:
        RuntimeError: The exit code is not 0. The text has the end of its output.
    """
    done = subprocess.run(
        java_line(classpath, main, args, jvm),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **env} if env else None,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"java {main} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout
