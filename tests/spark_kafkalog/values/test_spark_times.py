"""Test that texts become the dates, timestamps and numbers that Spark's `from_json` makes of them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_kafkalog.values.ddl import parse_ddl
from spark_kafkalog.values.from_json import JsonDecoder

pytestmark = pytest.mark.spark

DDL = "d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, k DECIMAL(12,3), f DOUBLE, g FLOAT"
DAYS = [
    *("2020-01-02", "2020-1-2", "2020-01", "2020", "020-01-02", "2020-W01-1", "0000-01-01", "10000-01-01", "18000"),
    *("-2020-01-02", "+12020-01-02", "1234567-01-01", "294247-01-10", "294248-01-01", "2020-02-30", "2020-13-01"),
    *("5881580-07-11", "5881580-07-12", "6000000-01-01", "-5877641-06-23", "-5877641-06-22", "-9999999-01-01"),
    *("2020-01-02x", " 2020-01-02\t", "", " ", "2020-", "2020/01/02", "20200102", "\u0662020-01-02"),
]
OF_DAYS = ["7", "-7", "+7", "007", "-999", "123456789", "2147483647", "2147483648", " 7", "7.0", "7x", "+", "1_0"]
JULIAN = ["-20200102", "-10000000", "-10000001", "-900000000", "-2147440000", "-2147483648", "-2147483649"]
"""Numbers of days by the Julian calendar. Those with fewer digits are years."""
TIMES = ["03:04:05", "T03:04:05", "T03:04:05Z", "3:4", "T3"]
CLOCKS = [
    *("T", " ", "t03:04:05", "T03", "T3:4", "T03:04:05", " 3:4:5", "  03:04:05", "T0304", "T030405", "T03:04:05."),
    *("T03:04:05.6", "T03:04:05.6789012", "T03:04:05,6", "T24:00:00", "T23:60:00", "T23:59:60", "T03:04:"),
    *("T003:04:05", "T03:04:05.6.7"),
]
ZONES = [
    *("Z", "z", " Z", "+02:00", "-2:00", "+02", "+2", "+0200", "+020030", "+02:00:30", "+2:0", "+02:0", "+2:00:5"),
    *("+18:00", "+18:01", "+02:60", " UTC", "UTC+2", "GMT+02:00", " UT-0200", " utc", "GMT", "UTC+", "[UTC]"),
    *("\u00a0Z", "x"),
]
TEXTS = [
    *DAYS,
    *(f"2020-07-02{clock}" for clock in CLOCKS),
    *(f"2020-07-02{clock}{zone}" for clock in ("", "T03", "T03:04", "T03:04:05", "T03:04:05.6") for zone in ZONES),
]
NUMBERS = [
    *("1_0", " 1", "1e2", "1E+2", "1.", "+1", ".5", "1,000", "1f", "0x1", "1e", "", "\u0663", "inf", "NaN", "+NaN"),
    *("INF", "+INF", "-INF", "Infinity", "+Infinity", "1.5", "1e400", "1e-400"),
]


def test_texts(spark: SparkSession) -> None:
    documents = [json.dumps({name: text}) for name in "dtn" for text in TEXTS]
    documents += [json.dumps({"d": text}) for text in OF_DAYS + JULIAN]
    documents += [json.dumps({name: text}) for name in "dn" for text in TIMES]
    documents += [json.dumps({name: text}) for name in "kfg" for text in NUMBERS]
    frame = spark.createDataFrame([(each,) for each in documents], "j STRING").coalesce(1)
    shown = ["unix_date(v.d)", "unix_micros(v.t)", "unix_micros(CAST(v.n AS TIMESTAMP))", "v.k", "v.f", "v.g"]
    rows = frame.select("j", F.from_json("j", DDL).alias("v")).selectExpr("j", *shown).collect()
    theirs = {row[0]: repr(tuple(row[1:])) for row in rows}
    found, _ = JsonDecoder(parse_ddl(DDL)).decode(pa.array([each.encode() for each in documents], pa.binary()))
    plain = [pa.int32(), pa.int64(), pa.int64(), None, None, None]
    columns = [found.field(at) if kind is None else found.field(at).cast(kind) for at, kind in enumerate(plain)]
    nulls = found.is_null().to_pylist()
    ours = {
        each: repr(tuple(None if nulls[at] else column[at].as_py() for column in columns))
        for at, each in enumerate(documents)
    }
    assert ours == theirs


IN_ZONES = [
    *("2020-03-29T01:59:59.9", "2020-03-29T02:00:00", "2020-03-29T02:30:00.5", "2020-03-29T03:00:00"),
    *(
        "2020-10-25T02:30:00",
        "2020-10-25T03:00:00",
        "2020-03-08 02:30:00",
        "2020-11-01 01:30:00",
        "2020-10-04 02:15:00",
    ),
    *("1883-11-18 12:05:00", "1800-01-01", "0001-01-01", "-0400-07-01 12", "0000-12-31 23:59:59", "1582-10-15"),
    *("9999-12-31 23:59:59", "9999-07-01", "10000-01-01", "12020-07-02", "12020-12-02", "294247-01-01", "294248-01-01"),
    *("2020-07-02T03:04:05Z", "2020-07-02T03:04:05+02:00", "2020-07", "2020-12-02 3:4"),
]
"""Timestamps around changes of clocks, and where these have no rules."""


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe", "-03:30", "GMT+2", "UTC"]
)
def test_the_time_zone_of_texts_without_one(spark: SparkSession, zone: str) -> None:
    documents = [json.dumps({"t": text}) for text in IN_ZONES] + ['{"t": 1600000000}', '{"n": "2020-07-02T03:04:05"}']
    frame = spark.createDataFrame([(each,) for each in documents], "j STRING").coalesce(1)
    parsed = frame.select(F.from_json("j", DDL, {"timeZone": zone}).alias("v"))
    theirs = [tuple(row) for row in parsed.selectExpr("unix_micros(v.t)", "CAST(v.n AS STRING)").collect()]
    found, _ = JsonDecoder(parse_ddl(DDL), zone).decode(pa.array([each.encode() for each in documents], pa.binary()))
    nulls = found.is_null().to_pylist()
    times, local = found.field("t").cast(pa.int64()).to_pylist(), found.field("n").to_pylist()
    ours = [
        (None, None) if nulls[at] else (times[at], None if local[at] is None else str(local[at]))
        for at in range(len(documents))
    ]
    assert dict(zip(documents, ours, strict=True)) == dict(zip(documents, theirs, strict=True))


def test_texts_that_are_refused(spark: SparkSession) -> None:
    """A text that only Spark reads makes the whole record corrupt; it never becomes another time."""
    texts = [
        "03:04:05",
        "T03:04:05",
        "2020-07-02 03:04:05 Europe/Berlin",
        "2020-07-02T03:04:05 CET",
        "2020-07-02T1:2:3EST",
    ]
    documents = [json.dumps({"t": text}) for text in texts]
    frame = spark.createDataFrame([(each,) for each in documents], "j STRING").coalesce(1)
    theirs = frame.select(F.from_json("j", DDL).alias("v")).where("v.t IS NOT NULL").count()
    found, bad = JsonDecoder(parse_ddl(DDL)).decode(pa.array([each.encode() for each in documents], pa.binary()))
    assert theirs == len(texts)
    assert (found.null_count, bad.to_pylist()) == (len(texts), [True] * len(texts))
