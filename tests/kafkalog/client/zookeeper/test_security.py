"""The properties that secure a client's session with ZooKeeper. `tests/broker/modes` has those of a broker."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkalog.client.connector import ConnectorConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import declared
from kafkalog.client.zookeeper.security import DIGEST, SecurityOptions, read_security
from kafkalog.zookeeper.security import JAAS_KEY, PLAIN, Login

SECRET = "xyzzy"
TLS = {"zookeeper.ssl.client.enable": "true"}


def test_nothing_is_secured_unless_it_is_asked_for() -> None:
    options, rest = read_security({"zookeeper.ssl.truststore.location": "/nowhere", "group.id": "g"})
    assert options.security() == PLAIN
    assert rest == {"group.id": "g"}


def test_the_connector_takes_them() -> None:
    jaas = f'{DIGEST} required username="kafka" password="{SECRET}";'
    config = ConnectorConfig.from_dict({"zookeeper.connect": "z:1", "group.id": "g", JAAS_KEY: jaas, **TLS})
    found = config.zookeeper_security.security()
    assert found.login == Login("kafka", SECRET)
    assert found.tls is not None
    assert found.tls().verify_mode is ssl.CERT_REQUIRED
    assert config.unknown == {}
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"zookeeper.set.acl": "true", **TLS}, "zookeeper.set.acl is true, and there is no identity"),
        ({**TLS, "zookeeper.ssl.keystore.location": "/nowhere"}, "zookeeper.ssl.keystore.location=/nowhere: cannot"),
        ({**TLS, "zookeeper.ssl.cipher.suites": "NONSENSE"}, "zookeeper.ssl.cipher.suites"),
        ({"zookeeper.ssl.crl.enable": "true"}, "revoked certificates are not looked for"),
        ({"zookeeper.ssl.endpoint.identification.algorithm": "x"}, "expected HTTPS, or nothing"),
        ({JAAS_KEY: f'PlainLoginModule required password="{SECRET}";'}, "the login module is not known"),
        ({JAAS_KEY: f'{DIGEST} required username="a" password="{SECRET}'}, "close the quotes"),
    ],
)
def test_mistakes_name_the_property_and_no_secret(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_security(properties)[0].security()
    assert told in str(caught.value)
    assert SECRET not in str(caught.value)


def test_files_have_the_names_that_brokers_have() -> None:
    """A broker's configuration is a file for `--zk-tls-config-file`, too."""
    from broker.config.zookeeper import ZOOKEEPER_KEYS

    keys = {key.name for key in ZOOKEEPER_KEYS}
    others = {each for each in keys if each.endswith((".connect", ".timeout.ms", ".in.flight.requests"))}
    assert declared(SecurityOptions).keys() == keys - others


def test_properties_of_others_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kafkalog.cli.shared.client_options import zookeeper_properties

    file = tmp_path / "broker.properties"
    file.write_text(
        "broker.id=1\nzookeeper.connect=z\nzookeeper.ssl.client.enable=true\nzookeeper.ssl.trustsore.type=x\n"
    )
    found = zookeeper_properties(SimpleNamespace(zk_tls_config_file=str(file)))  # type: ignore[arg-type]
    assert found == TLS
    assert "zookeeper.ssl.trustsore.type is not known" in capsys.readouterr().err
