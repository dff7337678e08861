"""Test that the properties on the page about secured clusters are accepted, and that none of them is unknown."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.security.mechanisms import make_mechanisms
from kafkalog.client.security.tls import make_ssl_context
from kafkalog.java_properties import load_properties
from peers.security.certificates import PASSWORD
from peers.security.stores import KEY_PASSWORD, STORE_PASSWORD
from tests.support.sources.pages import DOCS

PAGE = (DOCS / "how-to/secured-clusters.md").read_text()
SECTIONS = ("OAUTHBEARER", "Amazon MSK", "Delegation tokens", "GSSAPI")
_BLOCK = re.compile(r"^```properties\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks() -> list[str]:
    """Return the blocks of properties in SECTIONS."""
    parts = [part for part in PAGE.split("\n## ") if part.startswith(SECTIONS)]
    assert len(parts) == len(SECTIONS)
    return [block for part in parts for block in _BLOCK.findall(part)]


class EventHubs:
    """Stands for the class of the page, which needs Azure's package."""

    def configure(self, options: dict[str, str]) -> None:
        assert options["scope"].startswith("https://")

    def token(self) -> str:
        return "opaque"


@pytest.mark.parametrize("block", blocks())
def test_the_properties_are_accepted(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_module")
    monkeypatch.setattr(module, "EventHubs", EventHubs, raising=False)
    monkeypatch.setitem(sys.modules, "my_module", module)
    file = tmp_path / "client.properties"
    file.write_text(block)
    config = ClientConfig.from_dict(load_properties(file))
    assert config.unknown == {}
    assert config.uses_sasl
    if config.sasl_mechanism == "GSSAPI":
        pytest.importorskip("gssapi", reason="the package gssapi is not installed")
    assert make_mechanisms(config) is not None


STORES = Path(__file__).parents[3] / "golden" / "stores"
FOR_THE_PAGE = {
    "/etc/kafkalog/": f"{STORES}/",
    "my-store-password": STORE_PASSWORD,
    "my-key-password": KEY_PASSWORD,
    "my-pem-password": PASSWORD,
}


def blocks_with_files() -> list[str]:
    """Return the blocks of properties that name certificates."""
    parts = [part for part in PAGE.split("\n## ") if part.startswith(("TLS", "PLAIN and SCRAM", "Secrets"))]
    assert len(parts) == 3
    return [block for part in parts for block in _BLOCK.findall(part)]


@pytest.mark.parametrize("block", blocks_with_files())
def test_the_stores_are_read(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUSTSTORE_PASSWORD", STORE_PASSWORD)
    (tmp_path / "secrets.properties").write_text("alice=of-alice\n")
    block = block.replace("/etc/kafkalog/secrets.properties", str(tmp_path / "secrets.properties"))
    for text, value in FOR_THE_PAGE.items():
        block = block.replace(text, value)
    file = tmp_path / "client.properties"
    file.write_text(block)
    config = ClientConfig.from_dict(load_properties(file))
    assert config.unknown == {}
    context = make_ssl_context(config.tls)
    assert context.get_ca_certs()
    assert config.uses_sasl == (make_mechanisms(config) is not None)
