"""What commands of the command line end with: printing an outcome, and progress while there is none yet."""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from .outcome import Observer, Outcome


def progress() -> "Observer":
    """Shows stages on standard error."""
    from .report.progress import Printer

    return Printer(sys.stderr)


def finish(outcome: "Outcome") -> None:
    """Print what a command found, and end with its exit status."""
    if outcome.text:
        click.echo(outcome.text)
    for warning in outcome.warnings:
        click.echo(f"Warning: {warning}", err=True)
    for error in outcome.errors:
        click.echo(f"Error: {error}", err=True)
    if outcome.errors or not outcome.good:
        sys.exit(1)
