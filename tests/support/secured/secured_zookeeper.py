"""A ZooKeeper with a port for TLS and one without, which knows one user."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from peers import require
from peers.security import certificates
from peers.security.certificates import Certificates, make_certificates
from peers.toolchains import java
from tests.support.command import command
from tests.support.member import READY

NAME, PASSWORD = "kafka", "open sesame"
JAAS = "kafkalog.zookeeper.sasl.jaas.config"


def login(password: str = PASSWORD) -> dict[str, str]:
    """Return the property of a login."""
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    return {JAAS: f'{module} required username="{NAME}" password="{password}";'}


class Secured(NamedTuple):
    """The addresses, and the certificates of the server and of its clients."""

    plain: str
    secure: str
    files: Certificates

    def tls(self) -> dict[str, str]:
        """Return the properties of TLS with a certificate."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": str(self.files.authority),
            "zookeeper.ssl.keystore.location": str(self.files.server),
            "zookeeper.ssl.keystore.type": "PEM",
        }


@contextmanager
def secured_zookeeper(directory: Path) -> Iterator[Secured]:
    """Run the server, as `kafkalog zookeeper start` does."""
    require(java.missing())
    require(certificates.missing())
    files = make_certificates(directory)
    jaas, config = directory / "jaas.conf", directory / "zookeeper.properties"
    jaas.write_text(
        f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_{NAME}="{PASSWORD}"; }};\n'
    )
    config.write_text(
        f"dataDir={directory}/data\n"
        "clientPort=0\n"
        "secureClientPort=0\n"
        f"ssl.keyStore.location={files.server}\n"
        f"ssl.trustStore.location={files.authority}\n"
        "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
        f"java.security.auth.login.config={jaas}\n"
    )
    process = subprocess.Popen(
        command("zookeeper", "start", "--config", str(config)), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), line
        plain, secure = line.removeprefix(READY).strip().split(", ")
        yield Secured(plain, secure, files)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
