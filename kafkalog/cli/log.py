"""``kafkalog log dump``: what is in a log's files, as kafka-dump-log.sh prints it."""

from __future__ import annotations

import argparse

EXAMPLES = """\
examples:
  kafkalog log dump data/words-0/00000000000000000000.log
  kafkalog log dump --print-data-log data/words-0/*.log
  kafkalog log dump --index-sanity-check data/words-0/*.index

Knows .log, .index, .timeindex, .txnindex and .snapshot files, leader-epoch-checkpoint and the offset checkpoints.
Indexes are compared with the log beside them. Exit code 1 tells that something in a file does not fit.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``log`` and its commands."""
    parser = subparsers.add_parser("log", help="look into log files")
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    dump = commands.add_parser(
        "dump",
        help="print the content of log, index and checkpoint files",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    dump.add_argument("file", nargs="*", metavar="FILE", help="a file of a partition's directory")
    dump.add_argument("--files", default="", metavar="FILE[,FILE…]", help="the same, as kafka-dump-log.sh takes them")
    dump.add_argument("--deep-iteration", action="store_true", help="print every record, not batches alone")
    dump.add_argument("--print-data-log", action="store_true", help="print keys and values; implies --deep-iteration")
    dump.add_argument("--skip-record-metadata", action="store_true", help="leave out offsets, timestamps and sizes")
    dump.add_argument("--verify-index-only", action="store_true", help="compare an index with its log, print no more")
    dump.add_argument("--index-sanity-check", action="store_true", help="only say whether an index could be one")
    dump.add_argument(
        "--max-bytes", type=int, default=(1 << 31) - 1, metavar="N", help="read so much of a .log file at most"
    )
    dump.set_defaults(run=run_dump, parser=dump)


def run_dump(arguments: argparse.Namespace) -> int:
    """Print every file; 1 where one cannot be read or something in it does not fit."""
    import sys

    from broker.log.checkpoints import CorruptCheckpointError
    from broker.log.dump import dump_file
    from kafkalog.records.errors import RecordsError

    files = [*arguments.file, *filter(None, arguments.files.split(","))]
    if not files:
        arguments.parser.error("name a FILE to dump")
    failed = False
    for file in files:
        problems: list[str] = []
        try:
            for line in dump_file(
                file,
                deep_iteration=arguments.deep_iteration,
                print_data_log=arguments.print_data_log,
                skip_record_metadata=arguments.skip_record_metadata,
                verify_index_only=arguments.verify_index_only,
                index_sanity_check=arguments.index_sanity_check,
                max_bytes=arguments.max_bytes,
                problems=problems,
            ):
                print(line)
        except BrokenPipeError:
            raise
        except OSError as error:
            problems.append(f"{error.filename or file}: {error.strerror}")
        except (CorruptCheckpointError, RecordsError) as error:
            problems.append(f"{file}: {error}")
        sys.stdout.flush()
        for problem in problems:
            print(problem, file=sys.stderr)
        failed |= bool(problems)
    return int(failed)
