"""Altering and describing configurations of topics, brokers and groups (KIP-226, KIP-339, KIP-848).

A value's source is, from strongest to weakest: the topic's or the group's override, the broker's dynamic value, the
dynamic default for all brokers, the broker's file, the declared default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from broker.config.definition import ConfigDefinition, ConfigError, ConfigKey, Type, Update, Value
from broker.config.group import GROUP_CONFIG, parse_group_config
from broker.config.server import SERVER_CONFIG, BrokerConfig
from broker.config.topic import TOPIC_CONFIG, parse_topic_config
from broker.metadata.model import ClusterState, TopicState
from broker.metadata.store import Change, MetadataStore
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import (
    InvalidConfigError,
    InvalidRequestError,
    KafkaStorageError,
    UnknownTopicOrPartitionError,
)

ALL_BROKERS = ""


class Source(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs v1+."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Op(IntEnum):
    """Operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Described:
    """One key of a resource with its effective value and every place that gives one."""

    key: ConfigKey
    value: str | None
    source: Source
    read_only: bool
    synonyms: tuple[tuple[str, str | None, Source], ...]


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change of one key."""

    name: str
    op: Op
    value: str | None


def effective_config(static: BrokerConfig, state: ClusterState, broker_id: int) -> BrokerConfig:
    """The configuration of a broker's file with the dynamic values that ``state`` has for it on top."""
    dynamic = {**state.broker_config.get(ALL_BROKERS, {}), **state.broker_config.get(str(broker_id), {})}
    return static.with_dynamic(dynamic)


class ConfigController:
    """See the module."""

    def __init__(self, store: MetadataStore, replicas: ReplicaManager, static: BrokerConfig, broker_id: int) -> None:
        self._store = store
        self._replicas = replicas
        self._static = static
        self._broker_id = broker_id

    def effective(self, state: ClusterState) -> BrokerConfig:
        """The broker's configuration with the dynamic values of ``state`` on top."""
        return effective_config(self._static, state, self._broker_id)

    # -- describing

    def describe_topic(self, name: str) -> list[Described]:
        """Every key of the topic.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
        """
        state = self._store.state
        topic = state.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError
        overrides = parse_topic_config(topic.config)
        config = self.effective(state)
        result = []
        for key in TOPIC_CONFIG:
            value, synonym = config.topic_default(key.name)
            layers = self._broker_layers(key, value, synonym, state)
            if key.name in overrides:
                value = overrides[key.name]
                layers.insert(0, (key.name, key.format(value), Source.TOPIC))
            shown = tuple(layer for layer in layers if not _unset(layer))
            # What a broker key says in hours is told in the topic key's milliseconds.
            result.append(Described(key, key.format(value), layers[0][2], False, shown))
        return result

    def describe_broker(self, name: str) -> list[Described]:
        """Every key of this broker, or with an empty name the dynamic defaults of all brokers.

        Raises:
            InvalidRequestError: ``name`` is not this broker's id.
        """
        state = self._store.state
        if name == ALL_BROKERS:
            entries = state.broker_config.get(ALL_BROKERS, {})
            return [
                Described(SERVER_CONFIG[key], _shown(SERVER_CONFIG[key], value), Source.DYNAMIC_DEFAULT_BROKER, False,
                          ((key, _shown(SERVER_CONFIG[key], value), Source.DYNAMIC_DEFAULT_BROKER),))
                for key, value in entries.items()
            ]  # fmt: skip
        self._check_broker(name)
        result = []
        for key in SERVER_CONFIG:
            synonyms = self._server_layers(key, state)
            _, value, source = synonyms[0]
            result.append(Described(key, value, source, key.update is Update.READ_ONLY, tuple(synonyms)))
        return result

    def describe_group(self, name: str) -> list[Described]:
        """Every key of a group, whether or not there is such a group.

        Raises:
            InvalidRequestError: the name is empty.
        """
        _check_group(name)
        state = self._store.state
        overrides = state.group_config.get(name, {})
        result = []
        for key in GROUP_CONFIG:
            layers: list[tuple[str, str | None, Source]] = []
            if key.name in overrides:
                layers.append((key.name, overrides[key.name], Source.GROUP))
            layers += self._server_layers(SERVER_CONFIG[key.synonyms[0]], state)
            result.append(Described(key, layers[0][1], layers[0][2], False, tuple(layers)))
        return result

    def _broker_layers(
        self, key: ConfigKey, value: Value, synonym: str | None, state: ClusterState
    ) -> list[tuple[str, str | None, Source]]:
        """The layers of a topic's key in the broker key ``synonym``, or the declared default ``value``."""
        if synonym is None:
            return [(key.synonyms[0] if key.synonyms else key.name, key.format(value), Source.DEFAULT)]
        return self._server_layers(SERVER_CONFIG[synonym], state)

    def _server_layers(self, key: ConfigKey, state: ClusterState) -> list[tuple[str, str | None, Source]]:
        layers: list[tuple[str, str | None, Source]] = []
        own = state.broker_config.get(str(self._broker_id), {}).get(key.name)
        if own is not None:
            layers.append((key.name, _shown(key, own), Source.DYNAMIC_BROKER))
        common = state.broker_config.get(ALL_BROKERS, {}).get(key.name)
        if common is not None:
            layers.append((key.name, _shown(key, common), Source.DYNAMIC_DEFAULT_BROKER))
        if key.name in self._static.explicit:
            layers.append((key.name, _shown(key, key.format(self._static.explicit[key.name])), Source.STATIC_BROKER))
        layers.append((key.name, _shown(key, key.format(key.default)), Source.DEFAULT))
        return layers

    # -- altering

    async def replace_topic(self, name: str, config: Mapping[str, str | None], *, validate_only: bool) -> None:
        """AlterConfigs of a topic: ``config`` becomes all of its overrides.

        Raises:
            UnknownTopicOrPartitionError, InvalidConfigError, KafkaStorageError
        """
        await self._alter_topic(name, lambda _: _given(config), validate_only)

    async def alter_topic(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """IncrementalAlterConfigs of a topic.

        Raises:
            UnknownTopicOrPartitionError, InvalidConfigError, InvalidRequestError, KafkaStorageError
        """
        check_alterations(alterations)

        def altered(topic: TopicState) -> dict[str, str]:
            return _altered(topic.config, alterations, "topic", TOPIC_CONFIG, default)

        def default(key: ConfigKey) -> str | None:
            return key.format(self._replicas.config.topic_default(key.name)[0])

        await self._alter_topic(name, altered, validate_only)

    async def _alter_topic(self, name: str, make: Callable[[TopicState], dict[str, str]], validate_only: bool) -> None:
        def change(state: ClusterState) -> ClusterState:
            topic = state.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
            config = make(topic)
            try:
                parse_topic_config(config)
            except ConfigError as error:
                raise InvalidConfigError(str(error)) from error
            return state if validate_only else state.with_topics(replace(topic, config=config))

        state = await self._commit(change)
        if not validate_only:
            self._replicas.reconfigure(state.topics[name])

    async def replace_broker(self, name: str, config: Mapping[str, str | None], *, validate_only: bool) -> None:
        """AlterConfigs of a broker: ``config`` becomes all of its dynamic values."""
        await self._alter_broker(name, lambda _: _given(config), validate_only)

    async def alter_broker(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """IncrementalAlterConfigs of a broker, or with an empty name of all brokers.

        Raises:
            InvalidRequestError, InvalidConfigError, KafkaStorageError
        """
        check_alterations(alterations)

        def altered(present: dict[str, str]) -> dict[str, str]:
            return _altered(present, alterations, "broker", SERVER_CONFIG, default)

        def default(key: ConfigKey) -> str | None:
            return key.format(self._replicas.config[key.name])

        await self._alter_broker(name, altered, validate_only)

    async def _alter_broker(
        self, name: str, make: Callable[[dict[str, str]], dict[str, str]], validate_only: bool
    ) -> None:
        if name != ALL_BROKERS:
            self._check_broker(name)

        def change(state: ClusterState) -> ClusterState:
            config = make(state.broker_config.get(name, {}))
            _check_dynamic(config)
            changed = replace(state, broker_config={**state.broker_config, name: config})
            fault = self.effective(state).cleaner_config().fault_of_change(self.effective(changed).cleaner_config())
            if fault is not None:
                raise InvalidConfigError(fault)
            return state if validate_only else changed

        state = await self._commit(change)
        if not validate_only:
            self._replicas.reconfigure_all(self.effective(state), state)

    async def replace_group(self, name: str, config: Mapping[str, str | None], *, validate_only: bool) -> None:
        """AlterConfigs of a group: ``config`` becomes all of its overrides."""
        await self._alter_group(name, lambda _: _given(config), validate_only)

    async def alter_group(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """IncrementalAlterConfigs of a group, whether or not there is such a group.

        Raises:
            InvalidRequestError, InvalidConfigError, KafkaStorageError
        """
        check_alterations(alterations)

        def altered(present: dict[str, str]) -> dict[str, str]:
            return _altered(present, alterations, "group", GROUP_CONFIG, lambda key: None)

        await self._alter_group(name, altered, validate_only)

    async def _alter_group(
        self, name: str, make: Callable[[dict[str, str]], dict[str, str]], validate_only: bool
    ) -> None:
        _check_group(name)

        def change(state: ClusterState) -> ClusterState:
            config = make(state.group_config.get(name, {}))
            try:
                parse_group_config(config, self.effective(state).__getitem__)
            except ConfigError as error:
                raise InvalidConfigError(str(error)) from error
            others = {group: entry for group, entry in state.group_config.items() if group != name}
            return (
                state
                if validate_only
                else replace(state, group_config={**others, **({name: config} if config else {})})
            )

        await self._commit(change)

    def _check_broker(self, name: str) -> None:
        if name != str(self._broker_id):
            raise InvalidRequestError(f"Unexpected broker id, expected {self._broker_id} but received {name}")

    async def _commit(self, change: Change) -> ClusterState:
        try:
            return await self._store.commit(change)
        except OSError as error:
            raise KafkaStorageError(f"The cluster's registry cannot be stored: {error}") from error


def _check_group(name: str) -> None:
    if not name:
        raise InvalidRequestError("Default group resources are not allowed.")


def _shown(key: ConfigKey, text: str | None) -> str | None:
    return None if key.sensitive else text


def check_alterations(alterations: Iterable[Alteration]) -> None:
    """InvalidRequestError for a key that is there twice, and for a value that is missing."""
    seen: set[str] = set()
    for alteration in alterations:
        if alteration.name in seen:
            raise InvalidRequestError(f"Error due to duplicate config keys : {alteration.name}")
        seen.add(alteration.name)
        if alteration.op is not Op.DELETE and alteration.value is None:
            raise InvalidRequestError(f"Null value not supported for : {alteration.name}")


def _given(config: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}


def _altered(
    present: Mapping[str, str],
    alterations: Iterable[Alteration],
    kind: str,
    keys: ConfigDefinition,
    default: Callable[[ConfigKey], str | None],
) -> dict[str, str]:
    """The values of a ``kind`` of resource, whose ``keys`` are these, once they are altered.

    Args:
        default: the value in force of a key that is not among ``present``.

    Raises:
        InvalidConfigError
    """
    result = dict(present)
    for alteration in alterations:
        key = keys.get(alteration.name)
        if key is None:
            raise InvalidConfigError(f"Unknown {kind} config name: {alteration.name}")
        _apply(result, key, alteration, result[key.name] if key.name in result else default(key))
    return result


def _apply(config: dict[str, str], key: ConfigKey, alteration: Alteration, present: str | None) -> None:
    if alteration.op is Op.DELETE:
        config.pop(key.name, None)
        return
    value = alteration.value or ""
    if alteration.op is Op.SET:
        config[key.name] = value
        return
    if key.type is not Type.LIST:
        raise InvalidConfigError(f"Config value {alteration.op.name.lower()} is not allowed for config key: {key.name}")
    items = [item for item in (present or "").split(",") if item]
    named = [item.strip() for item in value.split(",")]
    if alteration.op is Op.APPEND:
        items += [item for item in named if item not in items]
    else:
        items = [item for item in items if item not in named]
    config[key.name] = ",".join(items)


def _check_dynamic(config: Mapping[str, str]) -> None:
    for name, text in config.items():
        key = SERVER_CONFIG.get(name)
        if key is None:
            raise InvalidConfigError(f"Unknown broker config name: {name}")
        if key.update is Update.READ_ONLY:
            raise InvalidRequestError(f"Cannot update these configs dynamically: {name}")
        try:
            key.parse(text)
        except ConfigError as error:
            raise InvalidConfigError(str(error)) from error


def _unset(layer: tuple[str, str | None, Source]) -> bool:
    """Whether a layer is the default of a broker key that has none (log.retention.ms): Kafka tells no such synonym."""
    name, _, source = layer
    return source is Source.DEFAULT and name in SERVER_CONFIG and SERVER_CONFIG[name].default is None
