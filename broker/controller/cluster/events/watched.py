"""Map each event of a watch to the decision that follows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from broker.controller.cluster.events import brokers, elections, isr, topics
from broker.controller.cluster.machine import reassignment
from broker.controller.cluster.model.effects import Decide
from broker.controller.cluster.watching import Event


def decision_for(event: Event, subjects: Callable[[], list[Any]], chance: random.Random) -> Decide:
    """Return the decision for an event.

    Args:
        event: what may have changed.
        subjects: returns the brokers, topics or partitions that the event concerns; called when its turn comes.
        chance: makes ids of topics.
    """
    decisions: Mapping[Event, Decide] = {
        Event.BROKERS: brokers.brokers_changed,
        Event.REGISTRATION: lambda context: brokers.registration_changed(context, subjects()),
        Event.TOPICS: lambda context: topics.topics_changed(context, chance),
        Event.PARTITIONS: lambda context: topics.partitions_changed(context, subjects()),
        Event.DELETIONS: topics.deletions_changed,
        Event.STATE: lambda context: isr.states_changed(context, subjects()),
        Event.ISR_NOTICES: isr.isr_noticed,
        Event.LOG_DIRS: brokers.log_dirs_failed,
        Event.REASSIGNMENT_ORDER: reassignment.by_order,
        Event.ELECTION_ORDER: elections.by_order,
    }
    return decisions[event]
