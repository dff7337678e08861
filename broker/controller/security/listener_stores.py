"""Changes of what belongs to one listener in a broker's configuration: the stores of its certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker.config.definition import LISTENER_PREFIX
from broker.config.server import BrokerConfig
from broker.metadata.model import ClusterState
from broker.metadata.operations import ConfigResource, SetConfig
from kafkalog.protocol.errors import InvalidRequestError


class ListenerStores(Protocol):
    """The stores of certificates of a broker's listeners."""

    async def check(self, config: BrokerConfig, /) -> None:
        """Check that the stores of a configuration can be used.

        Raises:
            ConfigError: they cannot.
        """

    async def use(self) -> None:
        """Use the stores of the configuration that is in force."""


def changes_listener(state: ClusterState, operation: SetConfig) -> bool:
    """Return whether an operation changes what belongs to one listener."""
    if operation.resource is not ConfigResource.BROKER:
        return False
    return _of_listeners(state.broker_config.get(operation.name, {})) != _of_listeners(operation.config)


def check_no_listener(config: Mapping[str, str]) -> None:
    """Check that nothing belongs to one listener, which only one broker has.

    Raises:
        InvalidRequestError: something does.
    """
    names = ", ".join(_of_listeners(config))
    if names:
        raise InvalidRequestError(
            f"Cannot update these configs at default cluster level, broker id must be specified: {names}"
        )


def _of_listeners(config: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in config.items() if name.startswith(LISTENER_PREFIX)}
