"""The clients' own test suites, run against the broker: `python -m conformance`.

Unit tests say what we believe; these say what users of Kafka's clients find. Each suite is a module of `suites`: where
its tests come from, how they are run, which of them are left out and why. The same is run against Apache Kafka, with
one broker as ours, to know what such a broker passes. Results are kept (`results`), and `report` makes them a page.

Tests of foreign projects are fetched when they are needed and never become part of this one.
"""
