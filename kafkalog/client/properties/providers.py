"""Resolve references in properties, such as `${file:/etc/secrets.properties:password}` (KIP-297).

As in Java's clients, `config.providers` lists the names that references begin with, and
`config.providers.<name>.class` says what each is; `file`, `dir` and `env` need no class. A reference to a name that is
not listed stays as it is. So a properties file, a command line or Spark's plan shows where a secret is, and not what
it is.

| provider | reference | value |
|--|--|--|
| FileConfigProvider | `${file:/path:key}` | that of the key in a properties file |
| DirectoryConfigProvider | `${dir:/path:name}` | the contents of a file in the directory |
| EnvVarConfigProvider | `${env:NAME}` | that of an environment variable |
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kafkalog.client.errors import ConfigError
from kafkalog.java_properties import PropertiesError, load_properties

LIST = "config.providers"
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."
_Look = Callable[[str, str], str | None]
"""Gives the value of a path and a key, or None where there is none."""


def resolve(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties with the values that their references name, and without those of the providers.

    Raises:
        ConfigError: A provider is not known, may not look there, or has no such value. The message names the property
            and the reference.
    """
    if not properties.get(LIST):
        return dict(properties)
    names = [name.strip() for name in str(properties[LIST]).split(",") if name.strip()]
    providers = {name: _provider(name, properties) for name in names}
    own = f"{LIST}."
    found = {}
    for key, value in properties.items():
        if key != LIST and not key.startswith(own):
            found[key] = _replace(key, value, providers) if isinstance(value, str) else value
    return found


def _replace(key: str, text: str, providers: Mapping[str, _Look]) -> str:
    def value_of(match: re.Match[str]) -> str:
        look = providers.get(match[1])
        if look is None:
            return match[0]
        try:
            found = look(match[2] or "", match[3])
        except ConfigError as error:
            raise ConfigError(f"{key}: {match[0]}: {error}") from None
        if found is None:
            raise ConfigError(f"{key}: {match[0]}: there is no such value")
        return found

    return _REFERENCE.sub(value_of, text)


def _provider(name: str, properties: Mapping[str, Any]) -> _Look:
    start = f"{LIST}.{name}"
    given = str(properties.get(f"{start}.class", "")).strip()
    kind = given.removeprefix(_PACKAGE) or {"file": "FileConfigProvider", "dir": "DirectoryConfigProvider"}.get(
        name, "EnvVarConfigProvider" if name == "env" else ""
    )
    allowed = _allowed_paths(properties.get(f"{start}.param.allowed.paths"))
    if kind == "FileConfigProvider":
        return _files(allowed)
    if kind == "DirectoryConfigProvider":
        return lambda path, key: _file_of(_permitted(path, allowed), key)
    if kind == "EnvVarConfigProvider":
        return _variables(properties.get(f"{start}.param.allowlist.pattern"))
    raise ConfigError(
        f"{start}.class={given}: expected one of FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider "
        f"of {_PACKAGE.rstrip('.')}"
    )


def _files(allowed: tuple[Path, ...]) -> _Look:
    @cache
    def load(path: Path) -> dict[str, str]:
        try:
            return load_properties(path)
        except PropertiesError as error:
            raise ConfigError(str(error)) from None

    return lambda path, key: load(_permitted(path, allowed)).get(key)


def _file_of(directory: Path, name: str) -> str | None:
    if not name or Path(name).name != name:
        raise ConfigError("expected the name of a file in the directory")
    try:
        return (directory / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot be read: {reason}") from None


def _variables(pattern: object) -> _Look:
    try:
        allowed = re.compile(str(pattern)) if pattern else None
    except re.error as error:
        raise ConfigError(f"{LIST}: the allowlist.pattern is no regular expression: {error}") from None

    def look(path: str, name: str) -> str | None:
        if path.strip():
            raise ConfigError("a reference to a variable has no path: ${env:NAME}")
        if allowed is not None and not allowed.fullmatch(name):
            raise ConfigError("allowlist.pattern does not allow this variable")
        return os.environ.get(name)

    return look


def _allowed_paths(text: object) -> tuple[Path, ...]:
    return tuple(Path(part.strip()).resolve() for part in str(text or "").split(",") if part.strip())


def _permitted(text: str, allowed: tuple[Path, ...]) -> Path:
    path = Path(text)
    if not text or not path.is_absolute():
        raise ConfigError("expected an absolute path")
    resolved = path.resolve()
    if allowed and not any(resolved.is_relative_to(each) for each in allowed):
        raise ConfigError("allowed.paths does not allow this path")
    return path
