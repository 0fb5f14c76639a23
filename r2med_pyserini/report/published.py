"""The published scores as a table like the paper's: a line a system, a column a dataset, the mean."""

import csv
import io

from ..errors import UsageError
from ..paths import Workspace
from ..published import SUITE, select, table
from ..suggest import did_you_mean
from ..suites import load_suite


def render(measure: str, form: str, **wanted: str | None) -> str:
    """The systems that `published.select(**wanted)` finds, best mean first. Raises UsageError for unknown words."""
    systems = select(**wanted)
    measures = sorted({name for system in systems for figures in table()[system].values() for name in figures})
    if measure not in measures:
        raise UsageError(f"no published {measure!r}{did_you_mean(measure, measures)}; there are {', '.join(measures)}")
    datasets = load_suite(SUITE, Workspace.default()).datasets
    rows = []
    for system in systems:
        values = [table()[system].get(dataset.slug, {}).get(measure) for dataset in datasets]
        if any(value is not None for value in values):
            whole = None not in values
            rows.append((sum(values) / len(values) if whole else -1.0, str(system), values))
    rows.sort(key=lambda row: (-row[0], row[1]))
    header = ["system", *(dataset.short if form == "text" else dataset.slug for dataset in datasets), "mean"]
    body = [[name, *map(_figure, values), _figure(mean) if mean >= 0 else ""] for mean, name, values in rows]
    if form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *body])
        return text.getvalue().rstrip("\n")
    from tabulate import tabulate

    style = "github" if form == "markdown" else "simple"
    align = ("left", *["right"] * (len(header) - 1))
    return f"{measure}, as published\n\n" + tabulate(
        body, header, tablefmt=style, disable_numparse=True, colalign=align
    )


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
