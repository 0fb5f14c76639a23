"""The table that users want: condition x dataset, the mean, the verdict."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from .. import verdicts
from ..conditions import Condition
from ..evaluation import Scores
from ..published import figures
from ..suites import Dataset, Suite
from ..verdicts import Comparison
from .grid import CSV, MARKDOWN, TEXT, grid

JSON = "json"
FORMATS = (TEXT, MARKDOWN, CSV, JSON)
_MARKS = {verdicts.FAIL: "!", verdicts.OKISH: "~"}
_SAMPLE = "; NOT R2MED's scores: an embedded sample for trying the tool, not medical advice"


@dataclass(frozen=True)
class Entry:
    """One cell of the table: the scores (None if they are missing), and how they compare with every known figure."""

    condition: Condition
    dataset: Dataset
    scores: Scores | None
    recorded: tuple[Comparison, ...] = ()
    published: tuple[Comparison, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst verdict over all measures and figures."""
        if self.scores is None:
            return verdicts.MISSING
        return verdicts.worst(comparison.verdict for comparison in (*self.recorded, *self.published))

    def verdict_of(self, measure: str) -> str:
        """The worst verdict of one measure."""
        found = (*self.recorded, *self.published)
        return verdicts.worst(comparison.verdict for comparison in found if comparison.measure == measure)


def entry(condition: Condition, suite: Suite, dataset: Dataset, scores: Scores | None, data: str | None) -> Entry:
    """Hold the scores of a cell against every figure recorded and published for it.

    `data` is the digest of the dataset's raw files: figures that were recorded for other data do not count.
    """
    if scores is None:
        return Entry(condition, dataset, None)
    known = condition.recorded_scores(suite.name, dataset.slug, data)
    recorded = verdicts.compare(scores.mean, known, verdicts.against_recorded)
    counterpart = condition.published
    if counterpart is None:
        return Entry(condition, dataset, scores, recorded)
    theirs = figures(counterpart.system, suite.name, dataset.slug)
    rule = partial(verdicts.against_published, tolerance=counterpart.tolerance)
    return Entry(condition, dataset, scores, recorded, verdicts.compare(scores.mean, theirs, rule))


@dataclass
class Row:
    """One condition: its entries in the order of the datasets, the mean if the whole suite is there, the verdict."""

    condition: Condition
    entries: list[Entry] = field(default_factory=list)

    def mean(self, measure: str, suite: Suite) -> float | None:
        """Unweighted mean over the datasets; None unless all of the suite's datasets have this score."""
        values = [entry.scores.mean[measure] for entry in self.entries if entry.scores and measure in entry.scores.mean]
        return sum(values) / len(values) if len(values) == len(suite.datasets) else None

    @property
    def verdict(self) -> str:
        """The worst of the entries' verdicts."""
        return verdicts.worst(entry.verdict for entry in self.entries)


def rows(entries: Iterable[Entry]) -> list[Row]:
    """Group entries by condition, in the order of their first appearance."""
    grouped: dict[str, Row] = {}
    for item in entries:
        grouped.setdefault(item.condition.name, Row(item.condition)).entries.append(item)
    return list(grouped.values())


def report(table: list[Row], suite: Suite, measure: str, form: str) -> str:
    """All that is to be said of a table in one of FORMATS: for people with headings, counts and comparisons."""
    text = render(table, suite, measure, form)
    if form not in (TEXT, MARKDOWN):
        return text
    entries = [item for row in table for item in row.entries]
    heading = f"{measure} of suite {suite.name}{_SAMPLE if suite.sample else ''}"
    counts = evaluated(entries) + legend(entries, measure)
    details = filter(None, map(against_published, table))
    return "\n\n".join([heading, text, counts, *details])


def render(table: list[Row], suite: Suite, measure: str, form: str) -> str:
    """The table in one of FORMATS, for one measure."""
    if form == JSON:
        return json.dumps([_plain(row, suite) for row in table], indent=1)
    names = [item.dataset.short if form == TEXT else item.dataset.slug for item in table[0].entries]
    body = []
    for row in table:
        mean = row.mean(measure, suite)
        figures = [_figure(item, measure, form) for item in row.entries]
        body.append([row.condition.name, *figures, "" if mean is None else f"{mean:.4f}", row.verdict])
    return grid(["condition", *names, "mean", "verdict"], body, form, left=(0, -1))


def _figure(item: Entry, measure: str, form: str) -> str:
    if item.scores is None or measure not in item.scores.mean:
        return "" if form == CSV else "-"
    mark = _MARKS.get(item.verdict_of(measure), "") if form == TEXT else ""
    return f"{item.scores.mean[measure]:.4f}{mark}"


def _plain(row: Row, suite: Suite) -> dict:
    measures = next((list(item.scores.mean) for item in row.entries if item.scores), [])
    return {
        "condition": row.condition.name,
        "suite": suite.name,
        "sample": suite.sample,
        "verdict": row.verdict,
        "mean": {measure: row.mean(measure, suite) for measure in measures},
        "datasets": {
            item.dataset.slug: {
                "verdict": item.verdict,
                "judged": item.scores and item.scores.judged,
                "evaluated": item.scores and item.scores.evaluated,
                "scores": item.scores and item.scores.mean,
                "recorded": {comparison.measure: comparison.reference for comparison in item.recorded},
                "published": {comparison.measure: comparison.reference for comparison in item.published},
            }
            for item in row.entries
        },
    }


def evaluated(entries: Iterable[Entry]) -> str:
    """How many of how many judged queries the scores stand for, one figure a condition if they agree."""
    counts: dict[tuple[int, int], list[str]] = {}
    for row in rows(entries):
        scored = [item.scores for item in row.entries if item.scores]
        total = sum(scores.evaluated for scores in scored), sum(scores.judged for scores in scored)
        counts.setdefault(total, []).append(row.condition.name)
    if len(counts) == 1:
        (some, judged), _ = counts.popitem()
        return f"{some:,} of {judged:,} judged queries evaluated"
    return "\n".join(
        f"{some:,} of {judged:,} judged queries evaluated: {', '.join(names)}"
        for (some, judged), names in counts.items()
    )


def legend(entries: Iterable[Entry], measure: str) -> str:
    """What the marks behind figures mean, for those that occur."""
    verdict = {item.verdict_of(measure) for item in entries if item.scores}
    return "".join(f"; {mark} marks {name}" for name, mark in _MARKS.items() if name in verdict)


def against_published(row: Row) -> str:
    """Ours, theirs and the difference, for every measure that both have: one line a measure and dataset.

    Empty if nothing was published for the row's datasets.
    """
    lines = [
        [item.dataset.slug, c.measure, f"{c.measured:.4f}", f"{c.reference:.4f}", f"{c.difference:+.4f}", c.verdict]
        for item in row.entries
        for c in item.published
    ]
    if not lines:
        return ""
    counterpart = row.condition.published
    title = f"{row.condition.name} against {counterpart.system}, tolerance {counterpart.tolerance:g}"
    header = ("dataset", "measure", "ours", "theirs", "difference", "verdict")
    return f"{title}\n\n{grid(header, lines, left=(0, 1, -1))}"
