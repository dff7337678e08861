"""`kafkalog spark pack`: the command's options (`spark_kafkalog.cluster.pack`)."""

from __future__ import annotations

import argparse
from pathlib import Path

from kafkalog.cli.shared.client_options import add_repeated

EXAMPLES = """\
examples:
  kafkalog spark pack
  kafkalog spark pack -o environment.tgz --package pandas --base /usr/local/bin/python3.12
  kafkalog spark pack -o kafkalog.zip

An archive (.tar.gz, .tgz) has kafkalog, its compiled kernels and what it needs, but no PySpark and no interpreter:
each host runs its own Python, of the same minor version. A .zip has kafkalog and its kernels alone, for --py-files.
Exit codes: 0 done, 1 failed, 2 wrong usage.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `pack`."""
    parser = commands.add_parser(
        "pack",
        help="make an archive of this environment for executors",
        description="Make an archive of this environment that spark-submit ships to executors.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("kafkalog-env.tar.gz"), metavar="FILE",
        help="default: %(default)s",
    )  # fmt: skip
    package = "an installed package to add, with what it needs"
    add_repeated(parser, "--package", metavar="NAME", purpose=package)
    parser.add_argument(
        "--base", metavar="PYTHON",
        help="the interpreter's path on the hosts (default: python3.X, this Python's minor version)",
    )  # fmt: skip
    processor = "the processor that kernels are compiled for, as for `kafkalog spark warm`"
    add_repeated(parser, "--cpu", metavar="CPU", purpose=processor)
    parser.add_argument(
        "--compression-level",
        type=int,
        choices=range(10),
        default=6,
        metavar="0-9",
        help="of gzip: 0 for none, 9 for the smallest archive (default: 6)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the archive; return the exit code."""
    # Not above: it imports what no other command needs.
    from spark_kafkalog.cluster import pack

    return pack.run(arguments)
