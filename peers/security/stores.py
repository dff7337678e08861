"""Make stores of certificates with Java's keytool, as an operator would: JKS and PKCS #12, modern and legacy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from peers.security.certificates import PASSWORD, Certificates
from peers.toolchains import java

STORE_PASSWORD = "of-the-store"
KEY_PASSWORD = "of-the-entry"
"""The password of the private key in `key_jks`; in PKCS #12 a key has the store's password."""
LEGACY = "-J-Dkeystore.pkcs12.legacy"
"""keytool's option for the ciphers that Java 8 wrote: 40 bits of RC2, and triple DES."""


class Stores(NamedTuple):
    """Stores, all with STORE_PASSWORD. Those of the key have its chain, up to the authority."""

    trust_jks: Path
    trust_p12: Path
    trust_legacy_p12: Path
    key_jks: Path
    key_p12: Path
    key_legacy_p12: Path


def missing() -> str | None:
    """Return why no stores can be made here, or None."""
    return java.missing() or (None if _keytool() else "missing because there is no keytool beside java")


def make_stores(certificates: Certificates, directory: Path, keytool: str | None = None) -> Stores:
    """Make all stores in `directory`: of the authority's certificate, and of the client's with its key.

    Args:
        certificates: What the stores contain.
        directory: Where the stores are written.
        keytool: The path of a keytool; by default the one beside java.

    Raises:
        RuntimeError: A program has failed. The text has what it wrote.
    """
    stores = Stores(*(directory / f"{field.rpartition('_')[0]}.{field.rpartition('_')[2]}" for field in Stores._fields))
    source = directory / "exported.p12"
    keytool = keytool or _keytool()
    _run(
        *("openssl", "pkcs12", "-export", "-in", certificates.client, "-certfile", certificates.authority),
        *("-name", "client", "-out", source, "-passin", f"pass:{PASSWORD}", "-passout", f"pass:{STORE_PASSWORD}"),
    )
    for store, kind, legacy in (
        (stores.trust_jks, "JKS", ()),
        (stores.trust_p12, "PKCS12", ()),
        (stores.trust_legacy_p12, "PKCS12", (LEGACY,)),
    ):
        _run(
            *(keytool, *legacy, "-importcert", "-noprompt", "-alias", "authority", "-file", certificates.authority),
            *("-keystore", store, "-storetype", kind, "-storepass", STORE_PASSWORD),
        )
    for store, kind, legacy, password in (
        (stores.key_jks, "JKS", (), KEY_PASSWORD),
        (stores.key_p12, "PKCS12", (), STORE_PASSWORD),
        (stores.key_legacy_p12, "PKCS12", (LEGACY,), STORE_PASSWORD),
    ):
        copy_key(source, store, kind, "client", password, (keytool, *legacy))
    source.unlink()
    return stores


def copy_key(
    source: Path, store: Path, kind: str, alias: str, password: str, keytool: Sequence[str] | None = None
) -> None:
    """Copy the key `client` of a PKCS #12 store into a store, which may have keys already, with another alias.

    Args:
        source: The store with the key.
        store: The store to write; it is made if it does not exist.
        kind: Its type, JKS or PKCS12.
        alias: The name of the key there.
        password: The password of the key there.
        keytool: The command of a keytool; by default the one beside java.
    """
    _run(
        *(keytool or (_keytool(),)),
        *("-importkeystore", "-noprompt", "-srckeystore", source),
        *("-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD, "-srcalias", "client", "-destalias", alias),
        *("-destkeystore", store, "-deststoretype", kind, "-deststorepass", STORE_PASSWORD, "-destkeypass", password),
    )


def _keytool() -> str:
    """Return the path of keytool, which is beside java; an empty text if there is none."""
    command = java.java_command()
    beside = Path(command).with_name("keytool") if command else None
    return str(beside) if beside is not None and os.access(beside, os.X_OK) else shutil.which("keytool") or ""


def _run(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
