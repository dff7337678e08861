"""Make `tests/golden/stores`: stores that Java's keytool wrote, and what is in them as PEM.

    python -m tests.golden.make_stores

`authority.pem` is the certificate in the stores of trusted certificates, `client.pem` the key (which a password opens)
and the certificate in the others. The certificates have expired; the tests only read them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from peers.security.certificates import make_certificates
from peers.security.stores import make_stores

HERE = Path(__file__).parent / "stores"


def main() -> None:
    """Write the files anew."""
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        certificates = make_certificates(Path(scratch))
        for file in (certificates.authority, certificates.client):
            shutil.copy(file, HERE / file.name)
        for store in make_stores(certificates, Path(scratch)):
            shutil.copy(store, HERE / store.name)


if __name__ == "__main__":
    main()
