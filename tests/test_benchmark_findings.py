"""Test which results each benchmark returns, and that they replace every committed result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar

import pytest

from benchmarks import (
    cluster,
    cluster_growth,
    cold_executors,
    cold_reads,
    compaction,
    consume,
    consumer,
    load,
    log,
    metrics,
    mirror,
    produce,
    producer_client,
    protocol,
    records,
    refusals,
    scale,
    secured,
    spark_latency,
    spark_once,
    spark_read,
    spark_values,
    spark_write,
    stalls,
    startup,
)
from benchmarks.recording.findings import HIGHER, LOWER, Finding, compared, count, several, size, spanned
from benchmarks.recording.outcomes import Outcomes, load_all
from benchmarks.requests.cases import CASES
from benchmarks.requests.groups import GROUP_CASES

BROKERS = ("kafkalog", "Kafka 4.3.1", "Kafka 3.9.2")
Result = TypeVar("Result")


def runs_of(contestants: Sequence[str], make: Callable[[float], Result]) -> dict[str, list[Result]]:
    """Make the results of three runs of each contestant; the medians are 20, 40, 60 and so on."""
    return {name: [make(20.0 * at + run) for run in (-1, 0, 1)] for at, name in enumerate(contestants, 1)}


def rows(*names: str) -> dict[str, dict[str, list[float]]]:
    """Make the results of the rows of a table, by broker."""
    return {name: runs_of(BROKERS, float) for name in names}


def named(findings: Sequence[Finding], name: str, peer_name: str | None) -> Finding:
    """Find the result of a case; it is there once."""
    [found] = [each for each in findings if (each.name, each.peer_name) == (name, peer_name)]
    return found


def of_produce() -> list[Finding]:
    cases = [
        produce.Case(octets, acks, producers) for octets, acks, producers in product((100, 1000), ("1", "all"), (1, 3))
    ]
    cases += [produce.Case(octets, "all", producers, True) for octets, producers in product((100, 1000), (1, 3))]
    return produce.findings({case: runs_of(BROKERS, lambda n: produce.Result(n, n / 10, n * 10)) for case in cases})


def of_consume() -> list[Finding]:
    cases = [consume.Case(reader, octets) for reader, octets in product(consume.READERS, (100, 1000))]
    return consume.findings({case: runs_of(BROKERS, lambda n: consume.Result(n, n * 10, n / 10)) for case in cases})


def of_secured() -> list[Finding]:
    cases = [name(listener) for name, listener in product((secured.produced, secured.consumed), secured.WAYS)]
    return secured.findings(
        {case: runs_of(BROKERS, lambda n: secured.Result(n, n / 10)) for case in (*cases, secured.CONNECTED)}
    )


def of_consumer() -> list[Finding]:
    measured = {octets: runs_of(tuple(consumer.READERS), float) for octets in consumer.RECORDS}
    return consumer.findings(measured, measured)


def of_producer_client() -> list[Finding]:
    keys = {(run, keyed) for (_, keyed), by in producer_client.CASES.items() for run in by.values()}
    return producer_client.findings({key: [producer_client.Result(n, n / 10) for n in (1.0, 2.0)] for key in keys})


def of_startup() -> list[Finding]:
    kinds: tuple[str, ...] = (
        "start, warm, s",
        "start, cold page cache, s",
        "start, 1,000 partitions, s",
        "create 1,000 partitions, s",
    )
    kinds += tuple(
        row.format(state)
        for row in ("resident memory, {}, MB", "CPU, {}, % of a core")
        for state in ("idle", "1,000 partitions")
    )
    kinds += tuple(
        f"one record, {way}, {label}, us"
        for way in ("acks=1", "acks=all", "acks=1, confluent-kafka")
        for label in ("p50", "p99", "p99.9")
    )
    return startup.findings(rows(*kinds))


def of_cold_executors() -> list[Finding]:
    times = {state: [1.0, 2.0] for state in (cold_executors.NOTHING, cold_executors.AHEAD, cold_executors.BEFORE)}
    levels = dict.fromkeys(("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "generic"), 1.0)
    by_count = dict.fromkeys(cold_executors.AT_ONCE, times)
    return cold_executors.findings(by_count, by_count, levels)


def of_refusals() -> list[Finding]:
    return refusals.findings({name: {"admin": [0.3, 0.1], "producer": [0.4]} for name in refusals.REFUSALS})


def of_scale() -> list[Finding]:
    made = [row.format(number) for row in scale.PARTITION_FIGURES for number in (1, 1000, 10_000)]
    crashed = rows("start after kill -9, s", "start after a clean stop, s", "recovered, GB/s")
    looks = {"the first segment": [(1.0, 5.0), (1000.0, 6.0)], "the last": [(1.0, 2.0), (1000.0, 3.0)]}
    return [
        *scale.partition_findings(rows(*made, "a partition, KB")),
        *scale.recovery_findings(crashed, 2.0),
        *scale.segment_findings(1000, [(20.0, 9.0), (1000.0, 8.0)], looks),
    ]


def of_compaction() -> list[Finding]:
    made = runs_of(BROKERS, lambda n: compaction.Cleaned(250.0, n / 10, 37.0, 300_000, n))
    return compaction.findings(dict.fromkeys(("none", "lz4", "zstd"), made), 2_000_000)


def of_cold_reads() -> list[Finding]:
    spent = {
        (name, what, when): [at * n / 100 for n in range(1, 1001)]
        for at, name in enumerate(BROKERS, 1)
        for what in ("produce", "fetch")
        for when in cold_reads.WHEN
    }
    kinds = (cold_reads.COLD, cold_reads.ELSEWHERE, cold_reads.WARM)
    return cold_reads.findings(spent, {kind: runs_of(BROKERS, float) for kind in kinds})


def of_load() -> list[Finding]:
    names = [each.name for each in load.CONTESTANTS]
    made = runs_of(names, lambda n: load.Result(n / 100, n / 10, n))
    return [
        *load.findings({"plain": made, "lz4": made}, 10_000_000),
        *load.findings({"lz4": made}, 2_000_000),
    ]


def of_spark_read() -> list[Finding]:
    names = [each.name for each in spark_read.CONTESTANTS]
    made = runs_of(names, lambda n: spark_read.Result(n / 10, n))
    usual = [spark_read.Load(2, 100, codec, 10_000_000) for codec in spark_read.CODECS]
    found = spark_read.findings({(load, job): made for load in usual for job in spark_read.JOBS})
    # Those of the documentation's table of partitions.
    small = [
        spark_read.Load(partitions, octets, codec, 150_000_000 // octets)
        for partitions, octets, codec in product((1, 8, 64), (100, 1000), ("none", "lz4", "zstd"))
    ]
    found += spark_read.findings({(load, "batch"): made for load in small})
    # Small topics, few partitions of large records, and compressed ones.
    topics = [
        spark_read.Load(1, 100, "none", 40_000, 40),
        *(spark_read.Load(n, 1000, "none", 1_000_000) for n in (1, 2)),
    ]
    found += spark_read.findings({(load, job): made for load in topics for job in ("batch", "AvailableNow")})
    compressed = spark_read.Load(12, 200, "lz4", 10_000_000)
    return found + spark_read.findings({(compressed, job): made for job in ("batch", "count", "aggregate")})


def of_spark_write() -> list[Finding]:
    names = [each.name for each in spark_write.CONTESTANTS]
    made = runs_of(names, lambda n: spark_write.Result(n / 10, n, n / 10))
    cases = [spark_write.Case(columns, codec) for columns in spark_write.COLUMNS for codec in spark_write.CODECS]
    return spark_write.findings(dict.fromkeys(cases, made))


def of_spark_once() -> list[Finding]:
    return spark_once.findings(
        {case: runs_of(spark_once.MODES, lambda n: spark_once.Result(n, n / 2)) for case in spark_once.CASES}
    )


def of_spark_latency() -> list[Finding]:
    names = [each.name for each in spark_latency.SOURCES]
    return spark_latency.findings(runs_of(names, lambda n: (n, n * 2, n / 10)))


def of_spark_values() -> list[Finding]:
    return spark_values.findings(runs_of((spark_values.CONNECTOR, *spark_values.TITLES), float), 2_000_000)


def of_records() -> list[Finding]:
    kinds = [*(f"decode, {name}" for name in records.COLUMNS), "encode", "validate"]
    plain = [
        records.Plain(batch, what, 1e7 * at, 1000.0)
        for at, (batch, what) in enumerate(product(records.BATCHES, kinds), 1)
    ]
    coded = [
        records.Coded(batch, codec.name.lower(), direction, 1e6, 100.0 * at, 200.0 * at)
        for at, (batch, codec, direction) in enumerate(
            product(records.BATCHES, records.CODECS, ("decode", "encode")), 1
        )
    ]
    return records.findings(plain, coded)


def of_protocol(peer_decode: float | None = 24e-4) -> list[Finding]:
    costs = protocol.Costs(4e-4, 8e-4), protocol.Costs(16e-4, peer_decode)
    return protocol.findings({case.what: costs for case in protocol.cases()})


FETCH = stalls.Measured("Fetch, 1,000 partitions", 1_000_000, 0.02, False, 1.5, None, 90_000_000)


def of_stalls() -> list[Finding]:
    names = ("nothing", *(case.name for case in (*CASES, *GROUP_CASES)))
    return stalls.findings([FETCH._replace(name=name) for name in names])


def of_metrics() -> list[Finding]:
    return metrics.findings({count: [float(at) for at in range(8)] for count in (1, 1000)})


def of_cluster() -> list[Finding]:
    return cluster.findings({case: runs_of(("kafkalog", "Kafka 3.9.2"), float) for case in cluster.CASES})


def of_cluster_growth() -> list[Finding]:
    measured = cluster.Measured(cluster_growth.units_of(cluster_growth.COUNTS))
    measured.results |= {case: runs_of(("kafkalog", "Kafka 3.9.2"), float) for case in measured.units}
    return cluster_growth.findings(measured)


def of_mirror() -> list[Finding]:
    measured = mirror.Measured()
    for title, (what, figures) in product(("kafkalog", "Apache Kafka 4.3.1"), mirror.FIGURES.items()):
        for figure in figures:
            case = mirror.named(what, title, figure)
            measured.kinds[case] = figure
            measured.results[case] = runs_of(mirror.MIRRORS, float)
    return mirror.findings(measured)


ALL: dict[str, Callable[[], list[Finding]]] = {
    "cluster": of_cluster,
    "cluster_growth": of_cluster_growth,
    "produce": of_produce,
    "consume": of_consume,
    "secured": of_secured,
    "consumer": of_consumer,
    "producer_client": of_producer_client,
    "startup": of_startup,
    "cold_executors": of_cold_executors,
    "refusals": of_refusals,
    "scale": of_scale,
    "compaction": of_compaction,
    "cold_reads": of_cold_reads,
    "load": of_load,
    "spark_read": of_spark_read,
    "spark_write": of_spark_write,
    "spark_once": of_spark_once,
    "spark_latency": of_spark_latency,
    "spark_values": of_spark_values,
    "records": of_records,
    "protocol": of_protocol,
    "stalls": of_stalls,
    "metrics": of_metrics,
    "mirror": of_mirror,
}


@pytest.mark.parametrize("results", list(load_all()), ids=lambda results: results.benchmark)
def test_a_benchmark_hands_over_every_case_that_is_committed(results: Outcomes) -> None:
    found = {(each.name, each.peer_name, each.unit, each.better) for each in ALL[results.benchmark]()}
    committed = {(each.name, each.peer_name, each.unit, each.better) for each in results.results}
    assert committed <= found


@pytest.mark.parametrize("benchmark", ALL)
def test_no_two_findings_are_of_the_same_case(benchmark: str) -> None:
    times = Counter((each.name, each.peer_name) for each in ALL[benchmark]())
    assert [case for case, number in times.items() if number > 1] == []


def test_produce_compares_rate_cpu_and_latency_with_each_peer() -> None:
    found = of_produce()
    rate = named(found, "100 B, acks=1, one producer", "Apache Kafka 4.3.1")
    assert (rate.ours, rate.peer, rate.ratio, rate.better, rate.runs) == (20, 40, 0.5, HIGHER, 3)
    cost = named(found, "100 B, acks=1, one producer: broker CPU for a GB", "Apache Kafka 3.9.2")
    assert (cost.ours, cost.peer, cost.unit, cost.better) == (2, 6, "s", LOWER)
    span = named(found, "1 KB, all cases: broker CPU for a GB", "Apache Kafka 4.3.1")
    assert (span.ours, span.peer, span.ratio) == ([2, 2], [4, 4], [0.5, 0.5])


def test_produce_sums_up_no_cases_that_were_left_out() -> None:
    case = produce.Case(1000, "1", 1)
    found = produce.findings({case: runs_of(BROKERS, lambda n: produce.Result(n, n, n))})
    assert {each.name.split(":")[0] for each in found} == {"1 KB, acks=1, one producer"}


def test_a_bare_fetch_is_told_in_gigabytes() -> None:
    found = named(of_consume(), "1 KB, fetched and not decoded", "Apache Kafka 4.3.1")
    assert (found.ours, found.peer, found.unit) == (0.02, 0.04, "GB/s")


def test_the_python_consumer_is_compared_with_the_peer_s_default_and_with_its_longer_queue() -> None:
    found = of_consumer()
    assert named(found, "`poll`, 100 B", "confluent-kafka").ratio == round(40 / 60, 4)
    assert named(found, "`read_arrow`, 1 KB, beside a peer with a longer queue", "confluent-kafka").peer == 80


def test_the_cold_reader_s_rate_and_the_exchanges_percentiles_are_results() -> None:
    found = of_cold_reads()
    assert named(found, "the cold reader", "Apache Kafka 4.3.1").ours == 0.02
    p99 = named(found, "produce p99 beside the cold reader", "Apache Kafka 4.3.1")
    assert (p99.ours, p99.ratio, p99.runs) == (9.91, 0.5, 3)


def test_spark_s_json_is_compared_with_the_connector() -> None:
    found = named(of_spark_values(), "`valueFormat=json`", "from_json over Spark's connector")
    assert (found.unit, found.better) == ("rows/s", HIGHER)
    # In seconds the medians are 20 and 40.
    assert (found.peer, found.ours, found.ratio) == (100_000, 50_000, 0.5)


def test_compaction_counts_the_runs_that_there_was_time_for() -> None:
    made = compaction.Cleaned(250.0, 2.0, 37.0, 300_000, 3.0)
    found = compaction.findings({"none": {"kafkalog": [made] * 3, "Kafka 3.9.2": [made]}}, 2_000_000)
    assert [(each.runs, each.ours, each.ratio) for each in found] == [(1, 1e6, 1), (1, 1.5, 1)]


def test_a_refusal_has_the_range_over_the_clients_in_milliseconds() -> None:
    found = named(of_refusals(), "an expired certificate", None)
    assert (found.ours, found.unit, found.better, found.runs) == ([200, 400], "ms", LOWER, 1)


def test_scale_names_one_partition_in_the_singular() -> None:
    found = of_scale()
    assert named(found, "resident memory, 1 partition", "Apache Kafka 4.3.1").unit == "MB"
    assert named(found, "look-up in the last, 1,000 segments", None).ours == 3


def test_records_are_summed_up_and_told_one_by_one() -> None:
    found = of_records()
    assert named(found, "validate", None).ours == [6e7, 12e7]
    assert named(found, "decode to Arrow, offset, batches of 1 MiB", None).ours == 10e7
    span = named(found, "decode lz4, snappy, zstd and gzip in batches of 16 KiB and 1 MiB", "the codec alone")
    assert (span.ratio, span.ours) == ([0.5, 0.5], [100, 1500])


def test_the_protocol_without_its_peer_has_no_ratio() -> None:
    found = of_protocol(peer_decode=None)
    assert named(found, "encode Fetch v17 request", "kio").ratio == 0.25
    assert named(found, "decode Fetch v17 request", None).ours == 800


def test_a_broker_that_died_of_a_request_has_no_result() -> None:
    found = stalls.findings([FETCH, FETCH._replace(name="another", died=True)])
    assert [(each.name, each.ours) for each in found] == [
        ("Fetch, 1,000 partitions: a probe's longest wait", 20),
        ("Fetch, 1,000 partitions: time to the answer", 1.5),
        ("Fetch, 1,000 partitions: largest resident memory", 90),
    ]


def test_a_scrape_has_a_result_for_each_number_of_partitions() -> None:
    found = of_metrics()
    assert named(found, "produce p99 while scraped, 1,000 partitions", None).ours == 5


def test_costs_of_the_log_are_results_in_the_unit_of_their_rows(capsys: pytest.CaptureFixture[str]) -> None:
    costs = log.Costs()
    costs.add("append", 2e-6, size=1000)
    costs.add("  beyond writing", 1e-6, of="append: ")
    costs.add("flush", 0.5, unit="ms")
    assert [(each.name, each.ours, each.unit) for each in costs.found] == [
        ("append", 2, "µs"),
        ("append: beyond writing", 1, "µs"),
        ("flush", 500, "ms"),
    ]
    assert "500 MB/s" in capsys.readouterr().out


def test_a_contestant_that_was_left_out_is_no_peer() -> None:
    assert compared("case", "s", {"Kafka": [1.0]}, {"Kafka": "Kafka"}) == []
    [alone] = compared("case", "s", {"kafkalog": [1.0, 3.0], "Kafka": []}, {"Kafka": "Kafka"})
    assert (alone.ours, alone.peer, alone.peer_name, alone.ratio, alone.runs) == (2, None, None, None, 2)


def test_a_peer_whose_figure_is_zero_gives_no_ratio() -> None:
    [found] = compared("case", "s", {"kafkalog": [1.0], "Kafka": [0.0]}, {"Kafka": "Apache Kafka"})
    assert (found.peer, found.ratio) == (0, None)


def test_one_case_is_no_span() -> None:
    assert spanned("all", compared("case", "s", {"kafkalog": [1.0]}, {})) == []


def test_names_of_sizes_and_numbers() -> None:
    assert [size(100), size(1000), size(1500)] == ["100 B", "1 KB", "1.5 KB"]
    assert [count(900), count(150_000), count(1_500_000), count(10_000_000)] == ["900", "150 K", "1.5 M", "10 M"]
    assert [several(1, "producer"), several(3, "producer"), several(12, "producer")] == [
        "one producer",
        "three producers",
        "12 producers",
    ]
