"""Run source, stream, sink and load with secrets among their options, and write what is shown into a directory.

    python -m tests.spark_kafkalog.secured.secrets_program DIRECTORY < OPTIONS

OPTIONS is JSON: `bootstrap`, `topic`, `other`, the `master` and `settings` of the session, and `secret`: options with
values that nobody may see. They come by standard input, for the command line and the environment are searched, too.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import traceback
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_kafkalog import redaction
from spark_kafkalog.jobs import load

PAGES = ("jobs", "stages", "executors", "environment", "sql?details=true&planDescription=true", "streaming/statistics")


def explained(frame: DataFrame) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode=mode)
    return text.getvalue()


def loaded(directory: Path, options: dict[str, str], topic: str) -> dict[str, str]:
    """Load the topic by Spark, with the options in a file of properties; return what is printed."""
    properties = {name.removeprefix("kafka."): text.replace("\n", "\\n") for name, text in options.items()}
    shown = {}
    with tempfile.TemporaryDirectory() as elsewhere:
        file = Path(elsewhere) / "client.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        for name, servers in (("load", properties["bootstrap.servers"]), ("wrong load", "no.invalid:1")):
            words = ["--bootstrap-server", servers, "--topic", topic, "--to", (directory / "loads").as_uri()]
            text = io.StringIO()
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                code = load.main([*words, "--command-config", str(file)])
            assert code == (0 if name == "load" else 2), text.getvalue()
            shown[name] = text.getvalue()
    return shown


def before_the_line(spark: SparkSession, given: dict[str, Any]) -> str:
    """Run a stream, before secrets are hidden, with one that Spark does not know as such; return what is shown."""
    options = {"kafka.bootstrap.servers": given["bootstrap"]}
    options |= {"subscribe": given["topic"], "kafka.ssl.keystore.key": "the-private-key"}
    stream = spark.readStream.format("kafkalog").options(**options).load()
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    return explained(stream)


def run(spark: SparkSession, directory: Path, given: dict[str, Any]) -> dict[str, str]:
    """Run each kind of query; return what was shown, by names."""
    options = {"kafka.bootstrap.servers": given["bootstrap"], **given["secret"]}
    source = {**options, "subscribe": given["topic"]}
    shown = {} if given["settings"] else {"not hidden": before_the_line(spark, given)}
    redaction.hide_secrets(spark)
    batch = spark.read.format("kafkalog").options(**source).load()
    assert batch.count() == 1
    shown["batch"] = explained(batch)
    batch.select("value").write.format("kafkalog").options(**options, topic=given["topic"]).mode("append").save()
    stream = spark.readStream.format("kafkalog").options(**source, startingOffsets="earliest").load()
    shown["stream"] = explained(stream)
    registry = {
        "schemaRegistry.url": "http://u:s3cret-of-url@127.0.0.1:1",
        "schemaRegistry.basic.auth.user.info": "u:s3cret-of-user",
        "valueFormat": "avro",
        "valueSchema": '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',
    }
    shown["registry"] = explained(spark.readStream.format("kafkalog").options(**source, **registry).load())
    for name, writer in (
        ("to files", stream.select("value").writeStream.format("parquet").option("path", str(directory / "parquet"))),
        ("to the sink", stream.select("value").writeStream.format("kafkalog").options(**options, topic=given["other"])),
    ):
        query = (
            writer.option("checkpointLocation", str(directory / f"checkpoint {name}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            query.explain(True)
        shown[f"stream {name}"] = f"{text.getvalue()}\n{query.lastProgress}\n{query.status}"
    for name, wrong in (("option", {"startingOffsets": "no"}), ("broker", {"kafka.bootstrap.servers": "no.invalid:1"})):
        try:
            spark.read.format("kafkalog").options(**{**source, **wrong}).load().count()
        except Exception:
            shown[f"wrong {name}"] = traceback.format_exc()
    shown |= loaded(directory, options, given["topic"])
    url = spark.sparkContext.uiWebUrl
    application = spark.sparkContext.applicationId
    for page in PAGES:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{url}/api/v1/applications/{application}/{page}", timeout=60) as response,
        ):
            shown[f"page {page}"] = response.read().decode()
    for page in ("SQL/", "StreamingQuery/", "environment/", "jobs/"):
        with urllib.request.urlopen(f"{url}/{page}", timeout=60) as response:
            shown[f"page {page}"] = response.read().decode()
    number = 0
    while f"SQL/execution/?id={number}":
        try:
            with urllib.request.urlopen(f"{url}/SQL/execution/?id={number}", timeout=60) as response:
                text_of = response.read().decode()
        except OSError:
            break
        if "No information to display" in text_of:
            break
        shown[f"execution {number}"] = text_of
        number += 1
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                shown[f"{process.name} {name}"] = (process / name).read_bytes().decode("utf-8", "replace")
    return shown


def main() -> None:
    directory = Path(sys.argv[1])
    given = json.load(sys.stdin)
    (directory / "events").mkdir()
    builder = SparkSession.builder
    for name, text in given["settings"].items():
        builder = builder.config(name, text)
    spark = (
        builder.master(given["master"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.port", "0")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", (directory / "events").as_uri())
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.eventLog.compress", "false")
        .getOrCreate()
    )
    try:
        shown = run(spark, directory, given)
    finally:
        spark.stop()
    (directory / "shown.json").write_text(json.dumps(shown))


if __name__ == "__main__":
    main()
