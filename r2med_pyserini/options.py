"""Options that several commands of the command line share."""

import os

import click

SUITE = click.option(
    "--suite",
    default="r2med",
    show_default=True,
    metavar="NAME|FOLDER",
    help="Set of datasets: r2med, mini, or a folder in R2MED's layout.",
)
DATASET = click.option(
    "--dataset", "datasets", multiple=True, metavar="NAME", help="Only this dataset (may be repeated)."
)
CONDITIONS = click.argument("conditions", nargs=-1)
EVERYTHING = click.option(
    "--all", "everything", is_flag=True, help="Every condition that needs no more than what is installed."
)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = click.option(
    "--threads",
    type=click.IntRange(1, 256),
    default=processors,
    show_default="all processors",
    help="How many stages and searches run at once.",
)


def MODELS(command):
    """The options of commands that run models."""
    for option in (
        click.option("--trust-remote-code", is_flag=True, help="Allow code of a model's repository to run."),
        click.option(
            "--dtype",
            type=click.Choice(("auto", "float32", "bfloat16", "float16")),
            default="auto",
            show_default=True,
            help="What models compute in; auto: half precision on a GPU, else float32.",
        ),
        click.option(
            "--device",
            default="auto",
            show_default=True,
            metavar="NAME[,NAME...]",
            help="Where models run: cpu, cuda, cuda:1, mps; auto: every GPU, else the processors.",
        ),
    ):
        command = option(command)
    return command


def form_of(*forms: str):
    """The option --format with its choices, the first of which is the default."""
    return click.option("--format", "form", type=click.Choice(forms), default=forms[0], show_default=True)
