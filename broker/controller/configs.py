"""Alters and describes the configurations of topics, brokers and groups (KIP-226, KIP-339, KIP-848).

A value comes from the first of these sources that has one: the topic's or the group's override, the broker's dynamic
value, the dynamic default of all brokers, the broker's file, the declared default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from broker.config.definition import LISTENER_PREFIX, ConfigError, ConfigKey, Type, Update, Value
from broker.config.group import GROUP_CONFIG, parse_group_config
from broker.config.server import SERVER_CONFIG, BrokerConfig, dynamic_fault, is_static
from broker.config.stored_topic import REPAIR, UNREADABLE, read_topic_config, removal_keys
from broker.config.topic import TOPIC_CONFIG, parse_topic_config
from broker.controller.alterations import Alteration, Op, altered, check_alterations
from broker.controller.decisions.planning import check_topic_name
from broker.controller.security.listener_stores import ListenerStores, changes_listener, check_no_listener
from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState
from broker.metadata.operations import ConfigResource, SetConfig, apply
from broker.metadata.store import MetadataStore
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import (
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    UnknownTopicOrPartitionError,
)

ALL_BROKERS = ""
_UNREADABLE = ConfigKey(UNREADABLE, Type.STRING, None, "Why the topic's configuration cannot be read.")
CHANGES_A_TURN = 100
"""The number of changes that are checked before other requests get their turn."""
ATTEMPTS = 5
"""The number of times that the changes of a request are checked. The last check is a part of the commit, so no other
commit can come between."""


class Source(IntEnum):
    """The source of a value; the numbers are those of DescribeConfigs v1+."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ResourceKind(IntEnum):
    """The kinds of resources with configurations in the registry; the numbers are those of the protocol."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32

    @property
    def resource(self) -> ConfigResource:
        """The kind as the registry names it."""
        return ConfigResource[self.name]


@dataclass(frozen=True, slots=True)
class Described:
    """One key of a resource, with its effective value and all sources that have a value."""

    key: ConfigKey
    value: str | None
    source: Source
    read_only: bool
    synonyms: tuple[tuple[str, str | None, Source], ...]


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change of one resource: `make` returns the new overrides, given the current ones, or raises a KafkaError."""

    kind: ResourceKind
    name: str
    make: Callable[[Mapping[str, str]], dict[str, str]]


class _ChangedError(Exception):
    """The registry has changed since the changes were checked."""


def effective_config(
    static: BrokerConfig, state: ClusterState, broker_id: int, in_force: BrokerConfig | None = None
) -> BrokerConfig:
    """Return the configuration of the broker's file, overridden by the dynamic values in `state` that can be used.

    Defaults of topics that cannot be read keep the value that they have `in_force`.
    """
    config = static
    for broker in (ALL_BROKERS, str(broker_id)):
        config = config.with_dynamic(state.broker_config.get(broker, {}), broker, in_force)
    return config


class ConfigController:
    """Alters and describes configurations.

    Args:
        store: gets the changes.
        cache: is read for descriptions.
        replicas: has the configuration of the broker that is in force.
        static: the configuration of the broker's file.
        broker_id: the id of this broker.
        in_force: waits until what was committed is in force here (`ConfigPublisher.settled`).
        has_groups: whether groups have configurations. In a cluster over ZooKeeper they do not, as in Kafka 3.9.

    Attributes:
        stores: the stores of listeners; None if no listener has one.
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        replicas: ReplicaManager,
        static: BrokerConfig,
        broker_id: int,
        in_force: Callable[[], Awaitable[None]],
        *,
        has_groups: bool = True,
    ) -> None:
        self._store = store
        self._cache = cache
        self._in_force = in_force
        self._replicas = replicas
        self._static = static
        self._broker_id = broker_id
        self._has_groups = has_groups
        self.stores: ListenerStores | None = None

    def effective(self, state: ClusterState) -> BrokerConfig:
        """Return the broker's configuration, overridden by the dynamic values in `state`."""
        return effective_config(self._static, state, self._broker_id, self._replicas.config)

    # -- describing

    def describe_topic(self, name: str) -> list[Described]:
        """Describe every key of a topic; if its configuration cannot be read, only that, as the entry UNREADABLE.

        It is no error, because kafka-configs describes a topic before it alters it.

        Raises:
            InvalidTopicError: no topic can have that name.
            UnknownTopicOrPartitionError: there is no such topic.
        """
        topic = self._cache.image.topics.get(name)
        if topic is None:
            check_topic_name(name)
            raise UnknownTopicOrPartitionError
        return self.describe_overrides(topic.config)

    def describe_overrides(self, config: Mapping[str, str]) -> list[Described]:
        """Describe every key of a topic that has these overrides; see `describe_topic`."""
        if UNREADABLE in config:
            # The defaults would pass for the topic's own values.
            why = f"{config[UNREADABLE]}. Set it anew, and name {REPAIR}"
            return [Described(_UNREADABLE, why, Source.TOPIC, False, ((UNREADABLE, why, Source.TOPIC),))]
        state = self._cache.image
        overrides = read_topic_config(config)
        of_broker = self.effective(state)
        result = []
        for key in TOPIC_CONFIG:
            value, synonym = of_broker.topic_default(key.name)
            layers = self._broker_layers(key, value, synonym, state)
            # The value of a broker key in hours is shown in the topic key's milliseconds.
            text = key.format(value)
            if key.name in config:
                # A value that cannot be read is shown, so that it can be found and corrected.
                is_read = key.name not in overrides.faults
                text = key.format(overrides.values[key.name]) if is_read else config[key.name]
                layers.insert(0, (key.name, text, Source.TOPIC))
            shown = tuple(layer for layer in layers if not _unset(layer))
            result.append(Described(key, text, layers[0][2], False, shown))
        # As in Kafka, unknown names are shown without their values, which may be secrets.
        unknown = [(_unknown(name), ((name, None, Source.TOPIC),)) for name in overrides.unknown]
        return [*result, *(Described(key, None, Source.TOPIC, False, layers) for key, layers in unknown)]

    def describe_broker(self, name: str) -> list[Described]:
        """Describe every key of this broker or, if the name is empty, the dynamic defaults of all brokers.

        Raises:
            InvalidRequestError: `name` is not this broker's id.
        """
        state = self._cache.image
        if name == ALL_BROKERS:
            entries = [
                (SERVER_CONFIG.get(key) or _unknown(key), value)
                for key, value in state.broker_config.get(ALL_BROKERS, {}).items()
            ]
            return [
                Described(key, _shown(key, value), Source.DYNAMIC_DEFAULT_BROKER, key.type is Type.UNKNOWN,
                          ((key.name, _shown(key, value), Source.DYNAMIC_DEFAULT_BROKER),))
                for key, value in entries
            ]  # fmt: skip
        self._check_broker(name)
        result = []
        dynamic = (*state.broker_config.get(name, {}), *state.broker_config.get(ALL_BROKERS, {}))
        stored = (*dict.fromkeys(dynamic), *self._static.unknown)
        unknown = [_unknown(other) for other in dict.fromkeys(stored) if other not in SERVER_CONFIG]
        given = dict.fromkeys((*self._static.explicit, *dynamic))
        of_listeners = [
            SERVER_CONFIG[each] for each in given if each.startswith(LISTENER_PREFIX) and each in SERVER_CONFIG
        ]
        for key in (*SERVER_CONFIG, *of_listeners, *unknown):
            synonyms = self._server_layers(key, state)
            _, value, source = synonyms[0]
            shown = tuple(layer for layer in synonyms if not _unset(layer))
            result.append(Described(key, value, source, key.update is Update.READ_ONLY, shown))
        return result

    def describe_group(self, name: str) -> list[Described]:
        """Describe every key of a group, even if the group does not exist.

        Raises:
            InvalidRequestError: the name is empty.
        """
        _check_group(name)
        state = self._cache.image
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
        """Return the layers of the broker key `synonym` of a topic's key, or its declared default `value`."""
        if synonym is None:
            return [(key.synonyms[0] if key.synonyms else key.name, key.format(value), Source.DEFAULT)]
        return self._server_layers(SERVER_CONFIG[synonym], state)

    def _server_layers(self, key: ConfigKey, state: ClusterState) -> list[tuple[str, str | None, Source]]:
        layers: list[tuple[str, str | None, Source]] = []
        levels = ((str(self._broker_id), Source.DYNAMIC_BROKER), (ALL_BROKERS, Source.DYNAMIC_DEFAULT_BROKER))
        for broker, source in levels:
            text = state.broker_config.get(broker, {}).get(key.name)
            if text is None:
                continue
            kept = self._replicas.config.dynamic.get(broker, {})
            if dynamic_fault(key.name, text) is None:
                layers.append((key.name, _shown(key, text), source))
            elif key.name in kept:
                layers.append((key.name, _shown(key, key.format(kept[key.name])), source))
        if key.name in self._static.unknown:
            layers.append((key.name, None, Source.STATIC_BROKER))
        elif key.name in self._static.explicit:
            layers.append((key.name, _shown(key, key.format(self._static.explicit[key.name])), Source.STATIC_BROKER))
        if key.type is not Type.UNKNOWN:
            layers.append((key.name, _shown(key, key.format(key.default)), Source.DEFAULT))
        return layers

    # -- altering

    def replacement(self, kind: ResourceKind, name: str, config: Sequence[tuple[str, str | None]]) -> ResourceChange:
        """Make the change of AlterConfigs: `config` replaces all overrides of the resource.

        Raises:
            InvalidRequestError: a key is repeated, or has no value.
        """
        check_alterations(Alteration(key, Op.SET, value) for key, value in config)
        given = {key: value for key, value in config if value is not None}
        return ResourceChange(kind, name, lambda _: given)

    def alteration(self, kind: ResourceKind, name: str, alterations: Sequence[Alteration]) -> ResourceChange:
        """Make the change of IncrementalAlterConfigs; a broker with an empty name stands for all brokers.

        Raises:
            InvalidRequestError: a key is repeated, or has no value.
        """
        check_alterations(alterations)
        keys, default = {
            ResourceKind.TOPIC: (TOPIC_CONFIG, self._topic_default),
            ResourceKind.BROKER: (SERVER_CONFIG, self._broker_default),
            ResourceKind.GROUP: (GROUP_CONFIG, _no_default),
        }[kind]
        kind_name = kind.name.lower()
        return ResourceChange(kind, name, lambda present: altered(present, alterations, kind_name, keys, default))

    def _topic_default(self, key: ConfigKey) -> str | None:
        return key.format(self._replicas.config.topic_default(key.name)[0])

    def _broker_default(self, key: ConfigKey) -> str | None:
        return key.format(self._replicas.config[key.name])

    async def alter(self, changes: Sequence[ResourceChange], *, validate_only: bool) -> list[Exception | None]:
        """Commit all valid changes at once; return None for each, or the error that prevented it.

        Other requests get their turn while many changes are checked. If the registry has changed meanwhile, the changes
        are checked again.
        """
        outcomes: list[SetConfig | Exception] = []

        def decide(state: ClusterState) -> Sequence[SetConfig]:
            nonlocal outcomes
            outcomes = [self._outcome(state, change) for change in changes]
            return _valid(outcomes)

        for attempt in range(ATTEMPTS):
            seen = self._store.state
            outcomes = []
            for number, change in enumerate(changes, 1):
                outcomes.append(await self._with_stores(seen, self._outcome(seen, change)))
                if number % CHANGES_A_TURN == 0:
                    await asyncio.sleep(0)
            if validate_only or not _valid(outcomes):
                break
            is_last = attempt == ATTEMPTS - 1
            try:
                await self._store.commit(decide if is_last else partial(_unless_changed, seen, _valid(outcomes)))
            except _ChangedError:
                continue
            except KafkaError as error:
                if len(_valid(outcomes)) > 1:
                    # The store refuses one of them, perhaps: its node would be too large.
                    return [(await self.alter([each], validate_only=False))[0] for each in changes]
                return [each if isinstance(each, Exception) else error for each in outcomes]
            except OSError as error:
                failure = KafkaStorageError(f"The cluster's registry cannot be stored: {error}")
                return [each if isinstance(each, Exception) else failure for each in outcomes]
            await self._in_force()
            if self.stores is not None and any(changes_listener(seen, each) for each in _valid(outcomes)):
                await self.stores.use()
            break
        return [each if isinstance(each, Exception) else None for each in outcomes]

    def _outcome(self, state: ClusterState, change: ResourceChange) -> SetConfig | Exception:
        """Return the operation of a change, or the error that prevents it in `state`."""
        try:
            return self._checked_one(state, change)
        except Exception as error:
            return error

    async def _with_stores(self, state: ClusterState, outcome: SetConfig | Exception) -> SetConfig | Exception:
        """Return the outcome of a change, after stores of listeners that it names were read."""
        if self.stores is None or not isinstance(outcome, SetConfig):
            return outcome
        if not changes_listener(state, outcome):
            return outcome
        try:
            await self.stores.check(self.effective(apply(state, [outcome])))
        except ConfigError as error:
            return InvalidRequestError(str(error))
        return outcome

    def _checked_one(self, state: ClusterState, change: ResourceChange) -> SetConfig:
        """Return the operation of a valid change.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
            InvalidConfigError: a key of a topic or group is unknown, or cannot have that value.
            InvalidRequestError: the name of a topic or group is empty; the name is not this broker's; or a key of a
                broker cannot be changed, or cannot have that value.
        """
        kind, name = change.kind, change.name
        try:
            if kind is ResourceKind.TOPIC:
                _check_topic(name)
                topic = state.topics.get(name)
                if topic is None:
                    raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
                config = change.make(topic.config)
                _check_repair(name, topic.config, config)
                parse_topic_config(config)
            elif kind is ResourceKind.BROKER:
                if name != ALL_BROKERS:
                    self._check_broker(name)
                present = state.broker_config.get(name, {})
                config = change.make(present)
                if name == ALL_BROKERS:
                    check_no_listener(config)
                _check_dynamic({key: text for key, text in config.items() if text != present.get(key)})
                self._check_cleaner(state, name, config)
            else:
                if not self._has_groups:
                    raise InvalidRequestError(
                        "Only topics and brokers have configurations in a cluster over ZooKeeper; set the "
                        "group.consumer.* keys of the brokers"
                    )
                _check_group(name)
                config = change.make(state.group_config.get(name, {}))
                parse_group_config(config, self.effective(state).__getitem__)
        except ConfigError as error:
            # Kafka answers the two kinds differently (`ConfigAdminManager.validateBrokerConfigChange`).
            refusal = InvalidRequestError if kind is ResourceKind.BROKER else InvalidConfigError
            raise refusal(str(error)) from error
        return SetConfig(kind.resource, name, config)

    def _check_cleaner(self, state: ClusterState, name: str, config: dict[str, str]) -> None:
        changed = apply(state, [SetConfig(ConfigResource.BROKER, name, config)])
        fault = self.effective(state).cleaner_config().fault_of_change(self.effective(changed).cleaner_config())
        if fault is not None:
            raise InvalidRequestError(fault)

    def _check_broker(self, name: str) -> None:
        if name != str(self._broker_id):
            raise InvalidRequestError(f"Unexpected broker id, expected {self._broker_id} but received {name}")


def _valid(outcomes: Iterable[SetConfig | Exception]) -> list[SetConfig]:
    return [each for each in outcomes if isinstance(each, SetConfig)]


def _unless_changed(seen: ClusterState, wanted: Sequence[SetConfig], state: ClusterState) -> Sequence[SetConfig]:
    if state is not seen:
        raise _ChangedError
    return wanted


def _check_repair(topic: str, present: Mapping[str, str], config: dict[str, str]) -> None:
    """Check what replaces a configuration that cannot be read, and take the mark of it out.

    Raises:
        InvalidConfigError: keys whose defaults may remove records are missing.
        ConfigError: `cleanup.policy` cannot have that value.
    """
    if UNREADABLE not in present:
        return
    config.pop(UNREADABLE, None)
    policy = TOPIC_CONFIG["cleanup.policy"].parse(config.get("cleanup.policy", ""))
    missing = [key for key in removal_keys(policy) if key not in config]
    if missing:
        raise InvalidConfigError(
            f"The present configuration of topic {topic} cannot be read: {present[UNREADABLE]}. Set it anew, and name "
            f"{REPAIR}. Missing: {', '.join(missing)}. Their defaults may remove records"
        )


def _no_default(key: ConfigKey) -> str | None:
    return None


def _check_topic(name: str) -> None:
    if not name:
        raise InvalidRequestError("Default topic resources are not allowed.")


def _check_group(name: str) -> None:
    if not name:
        raise InvalidRequestError("Default group resources are not allowed.")


def _unknown(name: str) -> ConfigKey:
    """Make a key for an undeclared broker configuration. Its value is kept, but never shown."""
    return ConfigKey(name, Type.UNKNOWN, None, "")


def _shown(key: ConfigKey, text: str | None) -> str | None:
    return None if key.sensitive else text


def _check_dynamic(config: Mapping[str, str]) -> None:
    """Check what a request changes. What is stored already may be what other brokers use.

    Raises:
        InvalidRequestError: a key cannot be changed while the broker runs.
        ConfigError: a value does not fit its key.
    """
    for name, text in config.items():
        key = SERVER_CONFIG.get(name)
        if is_static(name):
            raise InvalidRequestError(f"Cannot update these configs dynamically: {name}")
        if key is None:
            # Kept without effect, as in Kafka, because it may belong to a plugin.
            continue
        key.parse(text)


def _unset(layer: tuple[str, str | None, Source]) -> bool:
    """Return whether a layer is the default of a broker key without a default, or of no key: Kafka hides both."""
    name, _, source = layer
    return source is Source.DEFAULT and (name not in SERVER_CONFIG or SERVER_CONFIG[name].default is None)
