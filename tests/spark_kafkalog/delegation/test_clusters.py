"""Tests of the settings `spark.kafka.clusters.…`, which are those of Spark's own connector."""

from __future__ import annotations

import logging

import pytest

from kafkalog.client.admin.security.delegation_tokens import DelegationToken, Principal
from kafkalog.client.config import ClientConfig
from spark_kafkalog.delegation.clusters import TokenCluster, cluster_for
from spark_kafkalog.offline.offline_options import OfflineOptions
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.sink.sink_options import SinkOptions

QUERY = {"bootstrap.servers": "kafka1:9093,kafka2:9093"}
ONE = {"spark.kafka.clusters.one.auth.bootstrap.servers": "login:9093"}
OWNER = Principal("User", "alice")
TOKEN = DelegationToken("the-id", b"the-hmac", OWNER, OWNER, 0, 1000, 2000)


def cluster(settings: dict[str, str], query: dict[str, str] = QUERY) -> TokenCluster:
    found = cluster_for(query, settings)
    assert found is not None
    return found


def of_one(**settings: str) -> dict[str, str]:
    return ONE | {f"spark.kafka.clusters.one.{name.replace('_', '.')}": value for name, value in settings.items()}


def test_without_settings_there_is_no_token() -> None:
    assert cluster_for(QUERY, {"spark.kerberos.keytab": "k"}) is None


def test_defaults_are_those_of_spark() -> None:
    found = cluster(ONE)
    assert (found.security_protocol, found.token_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    login = dict(found.login)
    assert login["bootstrap.servers"] == "login:9093"
    assert login["security.protocol"] == "SASL_SSL"
    assert login["sasl.mechanism"] == "GSSAPI"
    assert login["sasl.kerberos.service.name"] == "kafka"
    assert "useTicketCache=true" in login["sasl.jaas.config"]
    ClientConfig.from_dict(login)


def test_the_application_logs_in_by_its_keytab() -> None:
    keytab = {"spark.kerberos.keytab": '/k/"a".keytab', "spark.kerberos.principal": "alice@EXAMPLE.COM"}
    login = dict(cluster(of_one(sasl_kerberos_service_name="broker") | keytab).login)
    jaas = ClientConfig.from_dict(login).jaas
    assert jaas is not None
    assert jaas.options["keyTab"] == '/k/"a".keytab'
    assert jaas.options["principal"] == "alice@EXAMPLE.COM"
    assert jaas.options["serviceName"] == "broker"


def test_further_properties_come_first() -> None:
    given = {"kafka_sasl_mechanism": "PLAIN", "kafka_sasl_username": "alice", "kafka_sasl_password": "secret"}
    config = ClientConfig.from_dict(dict(cluster(of_one(**given)).login))
    assert (config.sasl_mechanism, config.credentials) == ("PLAIN", ("alice", "secret"))


def test_a_key_store_is_for_tls_without_sasl() -> None:
    stores = {"ssl_truststore_location": "/t", "ssl_keystore_location": "/k", "ssl_key_password": "secret"}
    query = QUERY | {"security.protocol": "SASL_SSL"}
    by_tls = dict(cluster(of_one(security_protocol="SSL", **stores), query).login)
    assert (by_tls["ssl.truststore.location"], by_tls["ssl.keystore.location"]) == ("/t", "/k")
    assert "sasl.jaas.config" not in by_tls
    by_sasl = dict(cluster(of_one(**stores)).login)
    assert by_sasl["ssl.truststore.location"] == "/t"
    assert "ssl.keystore.location" not in by_sasl


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(cluster(of_one(ssl_truststore_password="s3cret")))


@pytest.mark.parametrize(
    "own",
    [
        {"sasl.jaas.config": "…"},
        {"sasl.username": "u", "sasl.password": "p"},
        {"sasl.mechanism": "GSSAPI"},
        {"sasl.oauthbearer.token.endpoint.url": "https://idp"},
        {"security.protocol": "PLAINTEXT"},
        {"security.protocol": "SSL"},
    ],
)
def test_a_query_with_a_login_of_its_own_takes_no_token(own: dict[str, str]) -> None:
    assert cluster_for(QUERY | own, ONE) is None


def test_servers_choose_the_cluster() -> None:
    two = {
        "spark.kafka.clusters.two.auth.bootstrap.servers": "other:9093",
        "spark.kafka.clusters.two.target.bootstrap.servers.regex": r"other\d:909[0-9]",
    }
    one = of_one(target_bootstrap_servers_regex=r"\p{L}+[\w&&[12]]:\d+")
    assert cluster(one | two).alias == "one"
    assert cluster(one | two, {"bootstrap.servers": "elsewhere:1, other7:9093"}).alias == "two"
    assert cluster_for({"bootstrap.servers": "other7:90933"}, one | two) is None
    with pytest.raises(OptionsError, match=r"More than one delegation token matches .* kafka1:9093"):
        cluster_for(QUERY, ONE | two | {"spark.kafka.clusters.two.target.bootstrap.servers.regex": ".*"})


def test_what_is_incomplete_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert cluster_for(QUERY, {"spark.kafka.clusters.one.security.protocol": "SASL_SSL"}) is None
    assert "spark.kafka.clusters.one.auth.bootstrap.servers is missing" in caplog.text
    assert cluster_for(QUERY, of_one(security_protocol="SSL")) is None
    assert "set kafka.security.protocol=SASL_SSL" in caplog.text
    assert cluster_for(QUERY, of_one(security_protocol="PLAINTEXT")) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security_protocol": "SASL-SSL"}, r"one.security.protocol=SASL-SSL is unknown; expected SASL_SSL"),
        ({"sasl_token_mechanism": "PLAIN"}, "sasl.token.mechanism=PLAIN: Delegation token works only with SCRAM"),
        ({"target_bootstrap_servers_regex": "("}, r"regex=\( is no regular expression"),
        ({"target_bootstrap_servers_regex": r"\p{Greek}+"}, "the property Greek; name the characters"),
    ],
)
def test_wrong_settings(settings: dict[str, str], said: str) -> None:
    with pytest.raises(OptionsError, match=said):
        cluster_for(QUERY, of_one(**settings))


def test_a_token_is_a_login_by_scram() -> None:
    query = QUERY | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "SCRAM-SHA-512"}
    found = cluster(of_one(sasl_token_mechanism="scram-sha-256"), query)
    config = ClientConfig.from_dict(found.with_token(query, TOKEN))
    assert config.security_protocol == "SASL_PLAINTEXT"
    assert config.sasl_mechanism == "SCRAM-SHA-256"
    assert config.credentials == ("the-id", TOKEN.password)


def test_settings_of_other_clusters_do_not_matter() -> None:
    other = of_one(security_protocol="SASL-SSL", target_bootstrap_servers_regex="elsewhere:.*")
    assert cluster_for(QUERY, other) is None


def test_queries_without_a_broker_need_no_token() -> None:
    """Both clusters are for all servers, so that a query that reads from brokers would be refused."""
    two = ONE | {"spark.kafka.clusters.two.auth.bootstrap.servers": "login:9094"}
    for protocol in ({}, {"Kafka.Security.Protocol": "SASL_SSL"}):
        assert OfflineOptions.parse(two | protocol | {"path": "/logs"}).source.token_cluster is None


def test_options_of_queries(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    options = ONE | {"kafka.bootstrap.servers": "kafka1:9093", "kafka.security.protocol": "SASL_SSL"}
    source = SourceOptions.parse(options | {"subscribe": "t"})
    assert source.token_cluster is not None
    assert source.client.credentials == ("", "")
    assert source.with_token(TOKEN).client.credentials == ("the-id", TOKEN.password)
    assert SinkOptions.parse(options).token_cluster == source.token_cluster
    assert caplog.text == ""
