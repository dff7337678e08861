"""Run an MIT Kerberos key distribution centre (KDC) in a directory, as an ordinary process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from peers.process import Process, free_port
from peers.server import Server

REALM = "PEERS.EXAMPLE"
START_DEADLINE_S = 30.0
_SYSTEM_PATHS = ("/usr/sbin", "/usr/lib/mit/sbin", "/opt/homebrew/opt/krb5/sbin", "/usr/local/opt/krb5/sbin")
_INSTALL = "apt-get install krb5-kdc krb5-admin-server krb5-user, brew install krb5"

# Java and MIT's library read the same file. Names of hosts are taken as they are written, whatever DNS says.
_CLIENT = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
kdc_timesync = 0
[realms]
{realm} = {{
    kdc = 127.0.0.1:{port}
}}
"""
_KDC = """[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    acl_file = {directory}/kadm5.acl
    max_life = 10h
    max_renewable_life = 7d
}}
[logging]
kdc = FILE:{directory}/kdc.log
"""


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(_SYSTEM_PATHS))


def missing() -> str | None:
    """Return why no KDC can run here, or None."""
    absent = [name for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit") if _program(name) is None]
    return f"missing because there is no program {', '.join(absent)} ({_INSTALL})" if absent else None


class Kdc(Server):
    """A KDC with its own realm, as a context manager.

    Args:
        directory: Where its database, its log and the keytabs go.
        config: Where to write the `krb5.conf` that clients read, also by the environment variable KRB5_CONFIG.

    Attributes:
        config: That file.
    """

    def __init__(self, directory: Path, config: Path) -> None:
        super().__init__(directory)
        self.config = config
        self._profile = directory / "kdc.conf"
        self._port = free_port()
        self._process: Process | None = None
        self._added: set[str] = set()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of programs that use the KDC."""
        return {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self._profile)}

    def keytab(self, name: str, *principals: str) -> Path:
        """Add the principals that are new, with random keys; return a keytab with the keys of all."""
        keytab = self.directory / f"{name}.keytab"
        queries = [f"addprinc -randkey {principal}" for principal in principals if principal not in self._added]
        self._added.update(principals)
        self._administer([*queries, *(f"ktadd -norandkey -k {keytab} {principal}" for principal in principals)])
        return keytab

    def change_keys(self, principal: str) -> None:
        """Give a principal another random key, so that its keytabs no longer fit."""
        self._administer([f"cpw -randkey {principal}"])

    def delete(self, principal: str) -> None:
        """Delete a principal."""
        self._administer([f"delprinc -force {principal}"])
        self._added.discard(principal)

    def ticket_cache(self, name: str, principal: str, keytab: Path, *options: str) -> Path:
        """Obtain a ticket as `kinit` does with these options; return the file with it."""
        cache = self.directory / f"{name}.cache"
        self._run("kinit", "-c", str(cache), "-k", "-t", str(keytab), *options, principal)
        return cache

    def start(self) -> None:
        """Make the database if it is new, and start the KDC; return when it listens."""
        self.directory.mkdir(parents=True, exist_ok=True)
        names = {"realm": REALM, "port": self._port, "directory": self.directory}
        self.config.write_text(_CLIENT.format(**names))
        self._profile.write_text(_KDC.format(**names))
        if not (self.directory / "principal").exists():
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-database")
        command = [_needed("krb5kdc"), "-n", "-P", str(self.directory / "kdc.pid")]
        self._process = Process(command, self.directory / "out.log", env=self.environment)
        self._process.wait_until(self._listens, START_DEADLINE_S)

    def stop(self) -> None:
        """End the process; the database stays."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1.0).close()
        except OSError:
            return False
        return True

    def _administer(self, queries: Sequence[str]) -> None:
        said = self._run("kadmin.local", "-r", REALM, stdin="".join(f"{query}\n" for query in queries))
        # It ends with 0 whatever fails.
        if " while " in said:
            raise RuntimeError(f"kadmin.local: {said}")

    def _run(self, program: str, *args: str, stdin: str = "") -> str:
        """Run a program of Kerberos; return what it wrote to standard error."""
        done = subprocess.run(
            [_needed(program), *args],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}:\n{done.stderr}")
        return done.stderr


def _needed(name: str) -> str:
    found = _program(name)
    if found is None:
        raise FileNotFoundError(str(missing()))
    return found
