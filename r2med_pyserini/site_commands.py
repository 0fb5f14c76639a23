"""The commands that the site shows for a cell of the matrix, and how the index keeps them all in little room.

Commands of two cells mostly differ in the names of suite and dataset alone. A `Template` is a text with PLACES for
these, from which a page's script makes the text of each cell.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import commands, models, weights
from .conditions import Condition
from .errors import R2medError
from .models import DOCUMENT, Model
from .paths import Workspace
from .site_facts import used
from .suites import Dataset, Suite

HERE = Workspace(Path())
SUITE, DATASET, PYSERINI = PLACES = ("SUITE-NAME", "DATASET-NAME", "PYSERINI-MODULE ")
Template = str | dict[str, str]  # the same for all datasets, or dataset -> text
_FOLDER = '"$MODEL"'
_MISREAD = " in a path for the name of another encoder"


@dataclass(frozen=True)
class Cell:
    """The commands for one condition on one dataset: ours, make's, and Pyserini's with our Java and plain."""

    run: str
    make: str
    data: str
    ours: str
    plain: str


def for_cell(condition: Condition, suite: Suite, dataset: Dataset) -> Cell:
    """All commands of a cell. Raises R2medError where this machine cannot tell them; see `pyserini`."""
    return Cell(
        run_line(condition, suite, dataset),
        make_line(condition, suite, dataset),
        data_line(suite, dataset),
        pyserini(condition, suite, dataset, commands.OURS),
        pyserini(condition, suite, dataset, commands.PLAIN),
    )


def run_line(condition: Condition, suite: Suite, dataset: Dataset | None = None) -> str:
    """`r2med run` for a dataset, or for the whole suite."""
    words = ["r2med", "run", condition.name, "--suite", suite.argument]
    words += ["--dataset", dataset.slug] if dataset else []
    return shlex.join([*words, *_consent(condition)])


def make_line(condition: Condition, suite: Suite, dataset: Dataset | None = None) -> str:
    """`make` for a dataset, or for the whole suite."""
    words = ["make", f"{condition.name}-{dataset.slug if dataset else 'all'}"]
    words += [] if suite.name == "r2med" else [f"SUITE={suite.argument}"]
    return shlex.join([*words, *(f"ARGS={word}" for word in _consent(condition))])


def data_line(suite: Suite, dataset: Dataset | None = None) -> str:
    """What makes the collections that Pyserini's commands read."""
    words = ["r2med", "data", "--suite", suite.argument]
    return shlex.join([*words, *(["--dataset", dataset.slug] if dataset else [])])


def _consent(condition: Condition) -> list[str]:
    """The option by which a user lets a model's own code run."""
    return ["--trust-remote-code"] if any(model.remote_code for model in used(condition)) else []


def pyserini(condition: Condition, suite: Suite, dataset: Dataset, prefix: str) -> str:
    """What `commands.for_cell` gives; but a model that a package carries is named in words that fit any machine.

    Raises R2medError if the package is not installed, or lies where Pyserini misreads its path.
    """
    lines = commands.for_cell(condition, suite, dataset, HERE, prefix)
    model = models.load(condition.encoder) if condition.encoder else None
    return "\n".join(_portable(model, lines) if model and model.package else lines)


def _portable(model: Model, lines: list[str]) -> list[str]:
    folder = shlex.quote(str(weights.folder(model, DOCUMENT)))
    if any(line.startswith("#") and _MISREAD in line for line in lines):
        raise R2medError(f"{folder}: Pyserini would misread this path, so its commands are not told; install elsewhere")
    if not any(folder in line for line in lines):
        return lines
    return [f"MODEL={_finder(model)}", *(line.replace(folder, _FOLDER) for line in lines)]


def _finder(model: Model) -> str:
    """Shell words that print the folder of a model that a package carries."""
    name = f'weights.folder(models.load("{model.name}"), "{DOCUMENT}")'
    return f"\"$(python -c 'from r2med_pyserini import models, weights; print({name})')\""


def templates(condition: Condition, suites: Iterable[Suite]) -> dict[str, Template]:
    """The commands of all cells of a condition in suites of the same datasets, by the names that `Cell` gives them.

    `pyserini` stands for both `ours` and `plain`, and for `make` there is one template a suite: `make r2med`.
    """
    suites = list(suites)
    nowhere = replace(suites[0].datasets[0], slug=DATASET)
    anywhere = replace(suites[0], name=SUITE, argument=SUITE)
    return {
        "run": run_line(condition, anywhere, nowhere),
        **{f"make {suite.name}": make_line(condition, suite, nowhere) for suite in suites},
        "data": data_line(anywhere, nowhere),
        "pyserini": _pyserini(condition, anywhere, nowhere),
    }


def _pyserini(condition: Condition, anywhere: Suite, nowhere: Dataset) -> Template:
    """One text for all datasets, unless a model is told something else of each."""
    general = pyserini(condition, anywhere, nowhere, PYSERINI)
    texts = {dataset.slug: pyserini(condition, anywhere, dataset, PYSERINI) for dataset in anywhere.datasets}
    same = all(general.replace(DATASET, slug) == text for slug, text in texts.items())
    return general if same else texts


def fill(text: Template, suite: str, dataset: str, prefix: str) -> str:
    """The text of one cell; the index's script does the same."""
    chosen: str = text[dataset] if isinstance(text, Mapping) else text
    for place, value in zip(PLACES, (suite, dataset, prefix), strict=True):
        chosen = chosen.replace(place, value)
    return chosen
