"""Tests of quota entities: valid names and values, and the results of filters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.metadata.json_form import from_json, to_json
from broker.metadata.model import ClusterState, MetadataError
from broker.quota.entities import EntityType, Match, QuotaEntity, QuotaKey, quota_filter
from broker.quota.limits import ClientLimits
from kafkalog.protocol.errors import InvalidRequestError, UnsupportedVersionError

USER, CLIENT_ID, IP = EntityType
NAMES = st.none() | st.sampled_from(("a", "b", "c"))
CLIENTS = st.one_of(
    st.tuples(NAMES).map(lambda names: ((USER, names[0]),)),
    st.tuples(NAMES).map(lambda names: ((CLIENT_ID, names[0]),)),
    st.tuples(NAMES, NAMES).map(lambda names: ((CLIENT_ID, names[1]), (USER, names[0]))),
)
ENTITIES = CLIENTS.map(QuotaEntity.of)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "a"), ("user", "b")], "duplicate entity entry user"),
        ([("user", "")], "Empty user not supported"),
        ([("ip", "1.2.3.4"), ("user", "a")], "IP entity should not be combined"),
    ],
)
def test_entities_that_are_none(parts: list[tuple[str, str | None]], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        QuotaEntity.of(parts)


def test_the_order_of_types_does_not_matter() -> None:
    assert QuotaEntity.of([("user", "a"), ("client-id", None)]) == QuotaEntity.of([("client-id", None), ("user", "a")])


@pytest.mark.parametrize(
    ("parts", "key", "value", "text"),
    [
        ([("user", "a")], "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        ([("ip", None)], "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        ([("user", "a")], "no_such_rate", 1, "Invalid configuration key no_such_rate"),
        ([("user", "a")], "producer_byte_rate", 0, "must be greater than 0"),
        ([("user", "a")], "request_percentage", -1, "must be greater than 0"),
        ([("user", "a")], "consumer_byte_rate", float("nan"), "must be a number"),
        ([("user", "a")], "consumer_byte_rate", 1.5, "cannot be a fractional value"),
        ([("user", "a")], "consumer_byte_rate", 1e19, "too large for a LONG"),
        ([("user", "a")], "request_percentage", float("inf"), "must be a finite number"),
        ([("ip", "::1")], "connection_creation_rate", 2.0**31, "too large for an INT"),
    ],
)
def test_values_that_are_refused(parts: list[tuple[str, str | None]], key: str, value: float, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        QuotaEntity.of(parts).check(key, value)


def test_values_that_are_taken() -> None:
    client = QuotaEntity.of([(CLIENT_ID, "c")])
    for inexact in (1024.0000001, 1023.9999999):
        client.check(QuotaKey.PRODUCER_BYTE_RATE, inexact)
    client.check(QuotaKey.REQUEST_PERCENTAGE, 0.5)
    client.check(QuotaKey.CONTROLLER_MUTATION_RATE, 0.01)
    QuotaEntity.of([(IP, "10.0.0.1")]).check(QuotaKey.CONNECTION_CREATION_RATE, 2.0**31 - 1)


@pytest.mark.parametrize(
    ("components", "text"),
    [
        ([("", Match.EXACT, "a")], "Invalid empty entity type"),
        ([("user", Match.EXACT, "a"), ("user", Match.ANY, None)], "cannot appear more than once"),
        ([("user", Match.EXACT, None)], "set match string to null"),
        ([("user", Match.DEFAULT, "a")], "MATCH_TYPE_DEFAULT, but also"),
        ([("user", Match.ANY, "a")], "MATCH_TYPE_SPECIFIED, but also"),
        ([("user", 3, None)], "Unknown match type 3"),
        ([("ip", Match.ANY, None), ("user", Match.ANY, None)], "IP filter component should not be used"),
    ],
)
def test_filters_that_are_none(components: list[tuple[str, int, str | None]], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        quota_filter(components, strict=False)


def test_a_filter_of_an_unknown_type() -> None:
    with pytest.raises(UnsupportedVersionError, match="Unsupported entity type group"):
        quota_filter([("group", Match.ANY, None)], strict=False)


def test_what_filters_find() -> None:
    all_of = [
        QuotaEntity.of(parts)
        for parts in (
            [(USER, "a")], [(USER, None)], [(USER, "a"), (CLIENT_ID, "c")], [(USER, None), (CLIENT_ID, None)],
            [(CLIENT_ID, "c")], [(IP, None)], [(IP, "::1")],
        )
    ]  # fmt: skip

    def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[int]:
        names: Callable[[QuotaEntity], bool] = quota_filter(components, strict=strict)
        return [at for at, entity in enumerate(all_of) if names(entity)]

    assert found() == [0, 1, 2, 3, 4, 5, 6]
    assert found(strict=True) == []
    assert found((USER, Match.ANY, None)) == [0, 1, 2, 3]
    assert found((USER, Match.ANY, None), strict=True) == [0, 1]
    assert found((USER, Match.DEFAULT, None)) == [1, 3]
    assert found((USER, Match.EXACT, "a")) == [0, 2]
    assert found((USER, Match.EXACT, "a"), (CLIENT_ID, Match.ANY, None), strict=True) == [2]
    assert found((IP, Match.ANY, None), strict=True) == [5, 6]
    assert found((IP, Match.EXACT, "::1")) == [6]


LEVELS = (
    (("user", "{u}"), ("client-id", "{c}")), (("user", "{u}"), ("client-id", None)), (("user", "{u}"),),
    (("user", None), ("client-id", "{c}")), (("user", None), ("client-id", None)), (("user", None),),
    (("client-id", "{c}"),), (("client-id", None),),
)  # fmt: skip
"""Kafka's documentation, "Client quotas": the order in which quotas are looked for."""


@given(st.dictionaries(ENTITIES, st.floats(1, 1e9), max_size=12), st.sampled_from("abc"), st.sampled_from("abc"))
def test_the_first_of_the_documented_order_holds(values: dict[QuotaEntity, float], user: str, client: str) -> None:
    limits = ClientLimits({entity: {QuotaKey.PRODUCER_BYTE_RATE: value} for entity, value in values.items()},
                          QuotaKey.PRODUCER_BYTE_RATE)  # fmt: skip
    named = [
        QuotaEntity.of([(kind, name and name.format(u=user, c=client)) for kind, name in level]) for level in LEVELS
    ]
    first = next((entity for entity in named if entity in values), None)
    found = limits.of(user, client)
    assert found.value == (None if first is None else values[first])
    if first is not None:
        kinds = [kind for kind, _ in first]
        assert found.share == (user if USER in kinds else "", client if CLIENT_ID in kinds else "")
    assert bool(limits) == bool(values)


def test_quotas_of_other_keys_do_not_hide_one() -> None:
    quotas = {
        QuotaEntity.of([(USER, "u"), (CLIENT_ID, "c")]): {"consumer_byte_rate": 1.0},
        QuotaEntity.of([(CLIENT_ID, None)]): {"producer_byte_rate": 2.0},
    }
    assert ClientLimits(quotas, QuotaKey.PRODUCER_BYTE_RATE).of("u", "c") == (("", "c"), 2.0)
    assert ClientLimits(quotas, QuotaKey.CONSUMER_BYTE_RATE).of("u", "c") == (("u", "c"), 1.0)
    assert ClientLimits(quotas, QuotaKey.PRODUCER_BYTE_RATE).of("u", "") == (("", ""), None)


@given(st.dictionaries(ENTITIES, st.just({"request_percentage": 12.5, "producer_byte_rate": 1024.0}), max_size=8))
def test_the_registry_keeps_them(quotas: dict[QuotaEntity, dict[str, float]]) -> None:
    state = ClusterState("cluster", client_quotas=quotas)
    assert from_json(to_json(state), "here") == state


@pytest.mark.parametrize(
    "damage",
    [
        ('"user": "a"', '"userr": "a"'),
        ('"user": "a"', '"user": ""'),
        ('"producer_byte_rate": 1024.0', '"producer_byte_rate": -1'),
        ('"producer_byte_rate": 1024.0', '"producer_byte_rate": "x"'),
        ('"producer_byte_rate": 1024.0', '"rate": 1024.0'),
    ],
)
def test_a_damaged_registry_is_told(damage: tuple[str, str]) -> None:
    text = to_json(ClusterState("cluster", client_quotas={QuotaEntity.of([(USER, "a")]): {"producer_byte_rate": 1024}}))
    text = text.replace("1024", "1024.0")
    assert damage[0] in text
    with pytest.raises(MetadataError, match=r"here is damaged .* restore it from a copy"):
        from_json(text.replace(*damage), "here")


def test_a_registry_of_before_has_none() -> None:
    text = to_json(ClusterState("cluster")).replace('"client_quotas": [],\n', "")
    assert "client_quotas" not in text
    assert from_json(text, "here").client_quotas == {}
