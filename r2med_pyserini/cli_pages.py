"""Commands of the command line that write pages."""

import sys
from pathlib import Path

import click


@click.command()
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("docs"),
    show_default=True,
    help="Folder for the pages; its logs and documents are linked.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 if the pages are out of date.")
def docs(output: Path, check: bool) -> None:
    """Write the site: scores to expect and commands to copy for every condition and dataset. Nothing is run."""
    from . import site

    pages = site.build(output)
    if check:
        difference = site.compare(pages, output)
        for name in (*difference.outdated, *difference.unwanted):
            click.echo(f"out of date: {output / name}")
        if difference:
            click.echo("`r2med docs` writes them anew", err=True)
            sys.exit(1)
        click.echo(f"{len(pages)} pages in {output} are up to date")
        return
    difference = site.write(pages, output)
    changed, removed = len(difference.outdated), len(difference.unwanted)
    click.echo(f"{output / 'index.html'}: {len(pages)} pages, {changed} written, {removed} removed")
