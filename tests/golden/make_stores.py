"""Make `tests/golden/stores`: stores that Java's keytool wrote, and what is in them as PEM.

    python -m tests.golden.make_stores java8=/opt/jdk8/bin/keytool java11=/opt/jdk11/bin/keytool …

`authority.pem` is the certificate in the stores of trusted certificates, `client.pem` the key (which a password opens)
and the certificate in the others; those of the name `two_keys` have both twice. The keytool of this machine writes the
stores beside them. Each keytool that is named writes what is its default into a directory of that name. The
certificates have expired; the tests only read them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from peers.security.certificates import make_certificates
from peers.security.stores import KEY_PASSWORD, STORE_PASSWORD, copy_key, make_stores

HERE = Path(__file__).parent / "stores"


def main(keytools: list[str]) -> None:
    """Write the files anew."""
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        certificates = make_certificates(Path(scratch))
        for file in (certificates.authority, certificates.client):
            shutil.copy(file, HERE / file.name)
        for store in make_stores(certificates, Path(scratch)):
            shutil.copy(store, HERE / store.name)
            store.unlink()
        for kind, suffix, password in (("JKS", "jks", KEY_PASSWORD), ("PKCS12", "p12", STORE_PASSWORD)):
            store = HERE / f"two_keys.{suffix}"
            store.unlink(missing_ok=True)
            for alias in ("client", "other"):
                copy_key(HERE / "key.p12", store, kind, alias, password)
        for name, _, keytool in (each.partition("=") for each in keytools):
            (HERE / name).mkdir(exist_ok=True)
            stores = make_stores(certificates, Path(scratch), keytool)
            for store in (stores.trust_jks, stores.trust_p12, stores.key_jks, stores.key_p12):
                shutil.copy(store, HERE / name / store.name)
            for store in stores:
                store.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
