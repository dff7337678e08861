"""Make an authority and its certificates with the openssl program, as an operator would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

PASSWORD = "of-the-key"

_LOCAL = "IP:127.0.0.1,DNS:localhost"
_DAYS = 2
# Made in a moment, where each RSA key takes some tenths of a second.
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
# `openssl ca` is what can sign a certificate for a time in the past, in every release.
_CA = """[ca]
default_ca = default
[default]
new_certs_dir = {directory}
database = {directory}/issued
serial = {directory}/serial
default_md = sha256
policy = policy
unique_subject = no
copy_extensions = none
[policy]
commonName = supplied
"""


class Certificates(NamedTuple):
    """PEM files. All certificates but that of `stranger` are signed by `authority`."""

    authority: Path
    stranger: Path
    """An authority that has signed none of the others."""
    server: Path
    """Key and certificate for 127.0.0.1 and localhost."""
    elsewhere: Path
    """Key and certificate for another host."""
    expired: Path
    """Key and certificate for 127.0.0.1 and localhost, whose time is over."""
    client: Path
    """Certificate of `CN=client` with a key that `PASSWORD` opens."""
    intruder: Path
    """Key and certificate of `CN=client` that `stranger` has signed."""


def missing() -> str | None:
    """Return why no certificates can be made here, or None."""
    return None if shutil.which("openssl") else "missing because there is no openssl program"


def make_certificates(directory: Path) -> Certificates:
    """Make all files in `directory`.

    Raises:
        RuntimeError: The openssl program has failed. The text has what it wrote.
    """
    authority, stranger = _authority(directory, "authority"), _authority(directory, "stranger")
    return Certificates(
        authority=authority,
        stranger=stranger,
        server=_signed(authority, "server", _LOCAL),
        elsewhere=_signed(authority, "elsewhere", "DNS:elsewhere.example"),
        expired=_signed(authority, "expired", _LOCAL, ended=True),
        client=_signed(authority, "client", "DNS:client", password=PASSWORD),
        intruder=_signed(stranger, "intruder", "DNS:client", subject="client"),
    )


def _openssl(*args: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {args[0]} ended with {done.returncode}:\n{done.stderr}")


def _authority(directory: Path, name: str) -> Path:
    certificate = directory / f"{name}.pem"
    _openssl(
        *("req", "-x509", *_NEW_KEY, "-days", str(_DAYS), "-subj", f"/CN={name}"),
        # `ssl.create_default_context` of Python 3.13 asks for it.
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", directory / f"{name}.key", "-out", certificate),
    )
    return certificate


def _signed(
    authority: Path,
    name: str,
    alternatives: str,
    *,
    subject: str | None = None,
    password: str | None = None,
    ended: bool = False,
) -> Path:
    """Make a file with a key and the certificate that the authority signed; one whose time is over with `ended`."""
    directory = authority.parent
    key, request, certificate = (directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
    _openssl("req", "-new", *_NEW_KEY, "-subj", f"/CN={subject or name}", "-keyout", key, "-out", request)
    extensions = directory / f"{name}.ext"
    extensions.write_text(f"subjectAltName={alternatives}\nauthorityKeyIdentifier=keyid\n")
    with_key = ("-extfile", extensions, "-in", request, "-out", certificate)
    if ended:
        _sign_for_the_past(authority, with_key)
    else:
        _openssl(
            *("x509", "-req", "-days", str(_DAYS), "-CAcreateserial", *with_key),
            *("-CA", authority, "-CAkey", authority.with_suffix(".key")),
        )
    if password is not None:
        locked = directory / f"{name}.locked"
        _openssl("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", key, "-out", locked, "-passout", f"pass:{password}")
        key = locked
    both = directory / f"{name}.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both


def _sign_for_the_past(authority: Path, with_key: tuple[str | Path, ...]) -> None:
    ledger = authority.parent / "ledger"
    ledger.mkdir()
    (ledger / "issued").touch()
    (ledger / "serial").write_text("1000\n")
    (ledger / "openssl.cnf").write_text(_CA.format(directory=ledger))
    _openssl(
        *("ca", "-batch", "-notext", "-config", ledger / "openssl.cnf", *with_key),
        *("-cert", authority, "-keyfile", authority.with_suffix(".key")),
        *("-startdate", "20200101000000Z", "-enddate", "20200102000000Z"),
    )
