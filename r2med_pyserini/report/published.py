"""The published scores as a table like the paper's: a line a system, a column a dataset, the mean."""

from ..errors import UsageError
from ..paths import Workspace
from ..published import SUITE, select, table
from ..suggest import did_you_mean
from ..suites import load_suite
from .grid import CSV, TEXT, grid


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
            mean = None if None in values else sum(values) / len(values)
            rows.append((str(system), values, mean))
    rows.sort(key=lambda row: (row[2] is None, -(row[2] or 0), row[0]))
    names = [dataset.short if form == TEXT else dataset.slug for dataset in datasets]
    body = [[name, *map(_figure, values), _figure(mean)] for name, values, mean in rows]
    text = grid(["system", *names, "mean"], body, form)
    return text if form == CSV else f"{measure}, as published\n\n{text}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
