"""Commands of the command line for reading what a query found, for reproduction logs, and for regressions.

cli.py adds them to `r2med`.
"""

import shutil
from pathlib import Path

import click

from .options import CONDITIONS, DATASET, MODELS, SUITE, THREADS
from .printing import finish, progress

DOCS = click.option(
    "--docs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where the log lies, instead of docs/ of the checkout.",
)


@click.command()
@SUITE
@click.option("--dataset", required=True, metavar="NAME", help="Dataset that the query belongs to.")
@click.option("--query", required=True, metavar="ID", help="Query to show.")
@click.option(
    "--condition", "names", multiple=True, metavar="NAME", help="Only this condition's run (may be repeated)."
)
@click.option("--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="Hits to show of each run.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it as a page."
)
def show(suite: str, dataset: str, query: str, names: tuple[str, ...], top: int, page: Path | None) -> None:
    """Show a query, its relevant documents, and what the current runs of conditions found, side by side."""
    from .showing import show as shown

    click.echo(shown(suite, dataset, query, names, top, shutil.get_terminal_size().columns, page))


@click.command()
@click.argument("handle")
@CONDITIONS
@SUITE
@DOCS
@click.option("--okish", is_flag=True, help="Log verdicts of OKish too; the log says so.")
def log(handle: str, conditions: tuple[str, ...], suite: str, docs: Path | None, okish: bool) -> None:
    """Log that the GitHub user HANDLE has reproduced CONDITIONS, or all whose runs here are verified OK."""
    from .logbook import log as add

    finish(add(handle, suite, conditions, docs, okish))


@click.command("verify-log")
@click.argument("record", type=click.Path(dir_okay=False, path_type=Path))
def verify_log(record: Path) -> None:
    """Hold the RECORD (JSON) of a log against the runs here; exit status 1 if they differ."""
    from .records import verify

    finish(verify(record))


@click.command()
@SUITE
@DATASET
@click.option("--with-services", "services", is_flag=True, help="Run conditions that ask services too.")
@click.option("--dry-run", is_flag=True, help="Show what would be left out, and the stages; do nothing.")
@MODELS
@THREADS
def regressions(suite: str, datasets: tuple[str, ...], services: bool, dry_run: bool, threads: int, **how) -> None:
    """Run every condition that this machine can run as it is, and say which it leaves out and why."""
    from .encoders.base import Settings
    from .regressions import run

    finish(run(suite, datasets, services, Settings(threads=threads, **how), progress(), dry_run))
