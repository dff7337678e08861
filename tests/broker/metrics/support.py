"""The samples that a broker serves."""

from __future__ import annotations

import re
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tests.support.kafkalog_broker import KafkalogBroker

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def url(broker: KafkalogBroker) -> str:
    # The last one, where the broker was started again.
    return str(re.findall(r"metrics are served on (http\S+)", broker.logged())[-1])


def scrape(broker: KafkalogBroker, query: str = "") -> Samples:
    with urllib.request.urlopen(f"{url(broker)}?{query}", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]
