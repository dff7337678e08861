"""The configuration of one listener: `listener.name.<listener>.<key>` counts before `<key>` (KIP-103).

A SASL mechanism of a listener has keys of its own: `listener.name.<listener>.<mechanism>.<key>`. Names of listeners and
mechanisms are written in lower case. Other listeners' values have no effect here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.config.definition import LISTENER_PREFIX, ConfigDefinition, Scope, Value

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
"""The SASL mechanisms that keys may be set for."""


class ListenerConfig:
    """The values in force for a listener, or for one of its mechanisms.

    Args:
        definition: the broker's keys.
        explicit: the values that are set, by their whole names.
        listener: the listener's name.
        mechanism: the SASL mechanism; empty for what belongs to no mechanism.

    Attributes:
        listener: the listener's name.
    """

    __slots__ = ("_definition", "_explicit", "_prefixes", "listener")

    def __init__(
        self, definition: ConfigDefinition, explicit: Mapping[str, Value], listener: str, mechanism: str = ""
    ) -> None:
        self._definition = definition
        self._explicit = explicit
        self.listener = listener
        prefix = prefix_of(listener)
        self._prefixes = (f"{prefix}{mechanism.lower()}.", prefix) if mechanism else (prefix,)
        """The prefixes of names, the one that counts first first."""

    def __getitem__(self, key: str) -> Value:
        """Return the value of a key: the listener's own, the broker's, or the default."""
        name = self.name_of(key)
        return self._explicit[name] if name in self._explicit else self._definition[key].default

    def own(self, key: str) -> Value:
        """Return the value that has the first prefix, or None if it is not set: others' and defaults do not count."""
        return self._explicit.get(self._prefixes[0] + key)

    def is_set(self, key: str) -> bool:
        """Return whether a value is set, for the listener or for the broker."""
        return self.name_of(key) in self._explicit

    def name_of(self, key: str) -> str:
        """Return the name under which a key's value is set, for messages; the plain name if it is not set."""
        names = (prefix + key for prefix in self._prefixes)
        return next((name for name in names if name in self._explicit), key)

    def name_to_set(self, key: str) -> str:
        """Return the name under which to set a key for this listener or mechanism alone, for messages."""
        return self._prefixes[0] + key

    def of_mechanism(self, mechanism: str) -> ListenerConfig:
        """Return what is in force for a SASL mechanism of the listener, such as `SCRAM-SHA-256`."""
        return ListenerConfig(self._definition, self._explicit, self.listener, mechanism)


def prefix_of(listener: str) -> str:
    """Return what the names of a listener's own keys begin with."""
    return f"{LISTENER_PREFIX}{listener.lower()}."


def without_listener(definition: ConfigDefinition, names: Iterable[str], listeners: Iterable[str]) -> list[str]:
    """Return those of `names` that are known, but have the prefix of no listener or mechanism that there is.

    Args:
        definition: the broker's keys.
        names: the names of keys that are set.
        listeners: the names of the listeners.
    """
    prefixes = [prefix_of(listener) for listener in listeners]
    return [
        name
        for name in names
        if name.startswith(LISTENER_PREFIX)
        and name in definition
        and not any(_applies(definition, name, prefix) for prefix in prefixes)
    ]


def _applies(definition: ConfigDefinition, name: str, prefix: str) -> bool:
    """Return whether a name is one that a listener with this prefix looks up."""
    if not name.startswith(prefix):
        return False
    rest = name.removeprefix(prefix)
    mechanism, _, key = rest.partition(".")
    return definition.scope_of(rest) is not Scope.BROKER or (
        definition.scope_of(key) is Scope.MECHANISM and mechanism.upper() in MECHANISMS
    )
