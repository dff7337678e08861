"""Make an authority and its certificates with the openssl program, as an operator would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

PASSWORD = "of-the-key"


class Certificates(NamedTuple):
    """PEM files. `server` is for 127.0.0.1 and localhost, `elsewhere` for another host; both with their keys.

    `client` has a key that `PASSWORD` opens.
    """

    authority: Path
    stranger: Path
    server: Path
    elsewhere: Path
    client: Path


def missing() -> str | None:
    """Return why no certificates can be made here, or None."""
    return None if shutil.which("openssl") else "missing because there is no openssl program"


def make_certificates(directory: Path) -> Certificates:
    authority = _authority(directory, "authority")
    _authority(directory, "stranger")
    local = "IP:127.0.0.1,DNS:localhost"
    return Certificates(
        authority,
        directory / "stranger.pem",
        _signed(directory, "server", local),
        _signed(directory, "elsewhere", "DNS:elsewhere.example"),
        _signed(directory, "client", "DNS:client", PASSWORD),
    )


def _openssl(*args: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def _authority(directory: Path, name: str) -> Path:
    certificate = directory / f"{name}.pem"
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", directory / f"{name}.key", "-out", certificate),
    )
    return certificate


def _signed(directory: Path, name: str, alternatives: str, password: str | None = None) -> Path:
    """Make a file with a key and the certificate that the authority signed."""
    key, request, certificate = (directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
    _openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    extensions = directory / f"{name}.ext"
    extensions.write_text(f"subjectAltName={alternatives}\n")
    _openssl(
        *("x509", "-req", "-in", request, "-days", "2", "-CAcreateserial", "-extfile", extensions, "-out", certificate),
        *("-CA", directory / "authority.pem", "-CAkey", directory / "authority.key"),
    )
    if password is not None:
        locked = directory / f"{name}.locked"
        _openssl("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", key, "-out", locked, "-passout", f"pass:{password}")
        key = locked
    both = directory / f"{name}.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both
