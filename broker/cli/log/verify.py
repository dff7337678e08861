"""`kafkalog log verify`: read everything, and say what is wrong."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from broker.cli.log.common import (
    PATHS,
    Progress,
    add_command,
    add_progress,
    add_threads,
    find,
    reporting,
    size_text,
)
from kafkalog.cli.shared.client_options import print_json

if TYPE_CHECKING:
    from broker.log.tools.checks.partition_check import PartitionReport
    from broker.log.tools.verify import Report

EXAMPLES = """\
examples:
  kafkalog log verify data
  kafkalog log verify data/words-0 --json
  kafkalog log verify --crc-only --threads 8 /var/lib/kafka

Reads every batch: checksum, offsets, and (unless --crc-only) every record within, decompressed. Compares the offset and
time indexes, transaction indexes, producer snapshots and leader epochs with the log, and checkpoints with its end.
Changes nothing, and may be run beside a broker: batches that are being written are then left out. Exit code 1: there
are errors; notes are no errors. `kafkalog log repair` repairs what it can.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `verify`."""
    parser = add_command(commands, "verify", "check the files of log directories", "Check log directories.", EXAMPLES)
    parser.add_argument("path", nargs="+", metavar="PATH", help=PATHS)
    parser.add_argument("--crc-only", action="store_true", help="check checksums and headers, not the records within")
    add_threads(parser)
    parser.add_argument("--json", action="store_true", help="one object a line: each finding, a partition, the summary")
    parser.add_argument("--quiet", "-q", action="store_true", help="no notes and no summary")
    add_progress(parser)
    parser.set_defaults(run=run_verify)


@reporting
def run_verify(arguments: argparse.Namespace) -> int:
    """Check and print; 1 where something is wrong."""
    from broker.log.tools import verify

    found = find(arguments.path)
    began = time.monotonic()
    with Progress(verify.total_bytes(found), arguments.json) as progress:

        def done(report: PartitionReport) -> None:
            progress.clear()
            show_partition(arguments, report)

        report = verify.verify(
            found, threads=arguments.threads, records=not arguments.crc_only, progress=progress, done=done
        )
    for finding in report.findings:
        show_finding(arguments, finding)
    _summary(arguments, report, time.monotonic() - began)
    return int(report.wrong)


def show_finding(arguments: argparse.Namespace, finding: object) -> None:
    """Print one finding, unless it is a note that was not asked for."""
    from broker.log.tools.checks.findings import Finding, Level

    assert isinstance(finding, Finding)
    if arguments.json:
        print_json({"type": "finding", **finding.row()})
    elif finding.level is Level.ERROR or not arguments.quiet:
        print(finding)


def show_partition(arguments: argparse.Namespace, report: PartitionReport) -> None:
    """Print the findings of a partition, and in JSON what it has."""
    for finding in report.findings:
        show_finding(arguments, finding)
    if arguments.json:
        print_json(
            {
                "type": "partition",
                "path": report.partition.path,
                "segments": len(report.segments),
                "bytes": report.size,
                "batches": sum(segment.batches for segment in report.segments),
                "next_offset": report.next_offset,
                "damaged": report.damaged,
            }
        )


def _summary(arguments: argparse.Namespace, report: Report, seconds: float) -> None:
    from broker.log.tools.checks.findings import Level

    partitions = report.partitions.values()
    size = sum(partition.size for partition in partitions)
    segments = sum(len(partition.segments) for partition in partitions)
    batches = sum(segment.batches for partition in partitions for segment in partition.segments)
    errors = sum(finding.level is Level.ERROR for finding in report.all_findings)
    notes = sum(finding.level is Level.NOTE for finding in report.all_findings)
    if arguments.json:
        print_json(
            {
                "type": "summary", "partitions": len(partitions), "segments": segments, "batches": batches,
                "bytes": size, "seconds": round(seconds, 3), "errors": errors, "notes": notes,
            }
        )  # fmt: skip
    elif not arguments.quiet:
        speed = f", {size_text(size / seconds)}/s" if seconds > 0.1 else ""
        verdict = f"{errors} errors" if errors else "nothing wrong"
        print(
            f"{len(partitions)} partitions, {segments} segments, {batches} batches, {size_text(size)} in "
            f"{seconds:.1f} s{speed}: {verdict}, {notes} notes"
        )
