"""Values of `message.format.version`: Kafka's releases, and the message format that each writes.

They are read as by Kafka's ApiVersion (2.8) and MetadataVersion (3.x): `0.8.2`, `0.10.0-IV1`, `2.8`. Of longer
versions only the part that names a release counts (`0.10.2.1` is `0.10.2`).
"""

from __future__ import annotations

from broker.config.definition import ConfigError, Value, shown

_STEPS = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0, "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3, "1.0": 1,
    "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 2,
    "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1,
}  # fmt: skip
"""The number of internal versions (`-IV0`, `-IV1`, …) of each release."""


def _magic(release: str) -> int:
    if not release.startswith("0."):
        return 2
    minor = int(release.split(".")[1])
    return 0 if minor < 10 else 1 if minor == 10 else 2


_MAGICS = {
    name: _magic(release)
    for release, steps in _STEPS.items()
    for name in (release, *(f"{release}-IV{step}" for step in range(steps)))
}


def magic_of(version: str) -> int:
    """Return the message format that a release writes: 0 (before 0.10), 1 (0.10) or 2.

    Raises:
        ValueError: there is no such release.
    """
    parts = version.split(".")
    magic = _MAGICS.get(".".join(parts[: 3 if version.startswith("0.") else 2]))
    if magic is None:
        raise ValueError(f"Version `{shown(version)}` is not a valid version")
    return magic


def is_version(name: str, value: Value) -> None:
    """Validate a value of a key that names a release."""
    try:
        magic_of(value)
    except ValueError as error:
        raise ConfigError(f"Invalid value {shown(value)} for configuration {name}: {error}") from None
