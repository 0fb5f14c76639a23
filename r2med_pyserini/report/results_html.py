"""Results as one page in HTML: scores beside known ones, plots with their tables, break-downs, times, versions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from markupsafe import Markup

from .. import __version__
from ..evaluation import MEASURES
from ..results import LEVEL, Contrast, Question, Results
from ..significance import CONFIDENCE, gain
from ..suites import Dataset
from ..verdicts import FAIL, MISSING, NEW, OK, OKISH, Comparison
from . import plots
from .comparison import BODY_SYSTEM, TASK, printable
from .page import page, render
from .table import Entry, Row, evaluated

RANKS = (1, 5, 10, 20, 50, 100, 200, 500, 1000)  # of the tables of recall
RECORDED, PUBLISHED = "recorded", "published"
EXAMPLES = 5  # queries of largest gain, and of largest loss
_LONGEST = 280  # characters of a query
_VERBS = ("fetch", "convert", "encode", "index", "search", "fuse", "rerank", "evaluate")  # in the order of work
_SIZES = {"encode": "vectors", "index": "index"}  # what stages leave on disk that is large
_MARKS = {1: "†", -1: "‡", 0: ""}
_GROUPS = {TASK: "By task", BODY_SYSTEM: "By body system"}
_VERDICTS = {
    OK: "equal to the recorded figure to four decimals, or within the tolerance of the published one",
    OKISH: "within 0.0005 of the recorded, or within five tolerances of the published one",
    FAIL: "farther off, above as well as below",
    NEW: "nothing to compare with",
    MISSING: "no current run",
}


@dataclass(frozen=True)
class _Cell:
    """A figure of a table: None where there is none. `sign` says whether it differs significantly, and how."""

    value: float | None
    best: bool = False
    sign: int = 0
    verdict: str = ""


@dataclass(frozen=True)
class _Matrix:
    """A table of figures, a row a condition; with the verdicts of the conditions if `verdicts`."""

    caption: str
    columns: list[str]
    rows: list[tuple[Row, list[_Cell]]]
    verdicts: bool = False


@dataclass(frozen=True)
class _Line:
    """One condition and measure on one dataset, beside what is known: by kind, RECORDED or PUBLISHED."""

    row: Row
    measure: str
    value: float | None
    known: dict[str, Comparison]
    verdict: str
    queries: str
    counterpart: str


@dataclass(frozen=True)
class _Lines:
    """A table of lines."""

    caption: str
    lines: list[_Line]

    @property
    def kinds(self) -> list[str]:
        """The kinds of figures that are known."""
        return [kind for kind in (RECORDED, PUBLISHED) if any(kind in line.known for line in self.lines)]


@dataclass(frozen=True)
class _Of:
    """All that is shown of one dataset."""

    dataset: Dataset
    lines: _Lines
    others: _Lines
    bars: Markup | None
    curve: Markup | None
    recall: _Matrix | None


@dataclass(frozen=True)
class _Example:
    """A query that gains or loses much."""

    question: Question
    a: float
    b: float
    difference: float
    text: str


@dataclass(frozen=True)
class _Versus:
    """A condition against the baseline."""

    row: Row
    contrasts: list[tuple[str, Contrast]]
    scatter: Markup | None
    gains: Markup | None
    examples: list[tuple[str, list[_Example]]]
    queries: int


def render_page(results: Results) -> str:
    """The page, which needs nothing but itself."""
    keys = (f"plot-{number}" for number in count(1))
    entries = [entry for row in results.rows for entry in row.entries]
    body = render(
        "results.html.jinja",
        results=results,
        plots=plots.available(),
        evaluated=evaluated(entries).splitlines(),
        verdicts=[(verdict, _VERDICTS[verdict]) for verdict in _VERDICTS if verdict in _used(results.rows)],
        scores=_scores(results, results.measure),
        others=[_scores(results, measure) for measure in _measures(results) if measure != results.measure],
        datasets=[_of_dataset(results, dataset, keys) for dataset in results.datasets],
        versus=list(_versus(results, keys)),
        shares=[(_GROUPS[by], _by(results, by)) for by in _GROUPS if any(share.by == by for share in results.shares)],
        work=_work(results),
        marks=_MARKS,
        level=LEVEL,
        confidence=CONFIDENCE,
        printable=printable,
    )
    counts = _counted(len(results.rows), "condition"), _counted(len(results.datasets), "dataset")
    lead = f"{results.measure} of {counts[0]} on {counts[1]}"
    return page(f"Results on {results.suite.name}", body, lead=lead, footer=f"Written by r2med-pyserini {__version__}.")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _used(rows: Iterable[Row]) -> set[str]:
    return {entry.verdict for row in rows for entry in row.entries}


def _measures(results: Results) -> list[str]:
    """The measures that any run tells."""
    told = {measure for row in results.rows for entry in row.entries if entry.scores for measure in entry.scores.mean}
    return [measure for measure in MEASURES if measure in told]


def _column(values: Iterable[float | None], details: Iterable[tuple[int, str]] | None = None) -> list[_Cell]:
    """The cells of a column; what is best as it is printed is marked, where there are several."""
    printed = [None if value is None else round(value, 4) for value in values]
    best = max((value for value in printed if value is not None), default=None) if len(printed) > 1 else None
    known = details or [(0, "")] * len(printed)
    return [
        _Cell(value, value is not None and value == best, *detail) for value, detail in zip(printed, known, strict=True)
    ]


def _matrix(
    caption: str, rows: Sequence[Row], columns: Sequence[tuple[str, list[_Cell]]], verdicts: bool = False
) -> _Matrix:
    body = [(row, [cells[place] for _, cells in columns]) for place, row in enumerate(rows)]
    return _Matrix(caption, [name for name, _ in columns], body, verdicts)


def _value(entry: Entry, measure: str) -> float | None:
    return entry.scores.mean.get(measure) if entry.scores else None


def _scores(results: Results, measure: str) -> _Matrix:
    """Conditions by datasets, and the mean; with significance for the measure shown."""
    shown = measure == results.measure

    def details(slug: str | None) -> Iterator[tuple[int, str]]:
        for row in results.rows:
            contrast = results.contrast(row.condition.name, slug) if shown else None
            entry = next((entry for entry in row.entries if entry.dataset.slug == slug), None)
            verdict = entry.verdict_of(measure) if entry and entry.scores else ""
            yield contrast.sign if contrast else 0, verdict if verdict in (OKISH, FAIL) else ""

    columns = []
    for place, dataset in enumerate(results.datasets):
        values = [_value(row.entries[place], measure) for row in results.rows]
        columns.append((dataset.short, _column(values, list(details(dataset.slug)))))
    means = [row.mean(measure, results.suite) for row in results.rows]
    if len(results.suite.datasets) > 1 and any(mean is not None for mean in means):
        columns.append(("mean", _column(means, list(details(None)))))
    return _matrix(f"{measure} of every condition on every dataset", results.rows, columns, verdicts=shown)


def _of_dataset(results: Results, dataset: Dataset, keys: Iterator[str]) -> _Of:
    entries = [(row, next(entry for entry in row.entries if entry.dataset == dataset)) for row in results.rows]
    lines = [_line(row, entry, results.measure) for row, entry in entries]
    others = [
        _line(row, entry, measure)
        for row, entry in entries
        for measure in dict.fromkeys(one.measure for one in (*entry.recorded, *entry.published))
        if measure != results.measure
    ]
    values = {line.row.condition.name: line.value for line in lines if line.value is not None}
    references = {
        kind: {line.row.condition.name: line.known[kind].reference for line in lines if kind in line.known}
        for kind in (PUBLISHED, RECORDED)
    }
    recall = results.recall.get(dataset.slug, {})
    curves = {row.condition.name: recall[row.condition.name] for row, _ in entries if row.condition.name in recall}
    title = f"{results.measure} on {dataset.name}"
    return _Of(
        dataset,
        _Lines(title, lines),
        _Lines(f"Other measures on {dataset.name}", others),
        _plot(keys, bool(values), plots.bars, title, results.measure, values, references, results.baseline),
        _plot(keys, bool(curves), plots.recall, f"Recall on {dataset.name}", curves),
        _recall(results, dataset, curves) if curves else None,
    )


def _plot(keys: Iterator[str], wanted: bool, draw: Callable[..., str], *words: object) -> Markup | None:
    return Markup(draw(next(keys), *words)) if wanted and plots.available() else None


def _line(row: Row, entry: Entry, measure: str) -> _Line:
    kinds = {RECORDED: entry.recorded, PUBLISHED: entry.published}
    known = {kind: one for kind, found in kinds.items() for one in found if one.measure == measure}
    scores, counterpart = entry.scores, row.condition.published
    verdict = entry.verdict_of(measure) if scores else MISSING
    queries = f"{scores.evaluated:,} of {scores.judged:,}" if scores else ""
    name = f"{counterpart.system}, tolerance {counterpart.tolerance:g}" if PUBLISHED in known else ""
    return _Line(row, measure, _value(entry, measure), known, verdict, queries, name)


def _recall(results: Results, dataset: Dataset, curves: dict[str, list[float]]) -> _Matrix:
    rows = [row for row in results.rows if row.condition.name in curves]
    deepest = max(map(len, curves.values()))
    found = [curves[row.condition.name] for row in rows]
    columns = [
        (f"R@{rank}", _column([curve[rank - 1] if rank <= len(curve) else None for curve in found]))
        for rank in RANKS
        if rank <= deepest
    ]
    return _matrix(f"Mean recall on {dataset.name}", rows, columns)


def _versus(results: Results, keys: Iterator[str]) -> Iterator[_Versus]:
    """Every condition that can be held against the baseline."""
    names = {dataset.slug: dataset.name for dataset in results.datasets} | {None: "mean"}
    for row in results.rows:
        a, b = row.condition.name, results.baseline
        contrasts = [(names[one.dataset], one) for one in results.contrasts if one.condition == a]
        asked = [question for question in results.questions if {a, b} <= question.scores.keys()]
        if not contrasts or not asked:
            continue
        pairs = [(question.scores[a], question.scores[b]) for question in asked]
        title = f"{a} and {b}, query by query"
        scatter = _plot(keys, True, plots.scatter, title, results.measure, a, b, pairs)
        differences = [gain(*pair) for pair in pairs]
        title = f"Gains and losses of {a} against {b}"
        bars = _plot(keys, True, plots.gains, title, results.measure, differences)
        yield _Versus(row, contrasts, scatter, bars, list(_examples(asked, a, b)), len(asked))


def _examples(asked: Iterable[Question], a: str, b: str) -> Iterator[tuple[str, list[_Example]]]:
    """The queries of the largest gains and losses."""
    found = [
        _Example(
            question, question.scores[a], question.scores[b], gain(question.scores[a], question.scores[b]),
            _cut(question.text or ""),
        )
        for question in asked
    ]  # fmt: skip
    for sign, title in ((1, f"Where {a} is better by most"), (-1, f"Where {b} is better by most")):
        chosen = [example for example in found if sign * example.difference > 0]
        chosen.sort(key=lambda example: -sign * example.difference)  # stable: ties stay in their order
        if chosen:
            yield title, chosen[:EXAMPLES]


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _by(results: Results, by: str) -> _Matrix:
    shares = [share for share in results.shares if share.by == by]
    rows = [row for row in results.rows if any(row.condition.name in share.means for share in shares)]
    columns = [
        (f"{printable(share.name)} ({share.queries:,})", _column([share.means.get(row.condition.name) for row in rows]))
        for share in shares
    ]
    return _matrix(f"{results.measure} {_GROUPS[by].lower()} (queries)", rows, columns)


def _work(results: Results) -> tuple[list[str], list[tuple[Row, list[str]]]]:
    """Headings, and for each condition the seconds by kind of stage and the sizes of what they left."""
    verbs = [verb for verb in _VERBS if any(step.verb == verb for step in results.steps)]
    sizes = [verb for verb in _SIZES if verb in verbs]
    rows = []
    for row in results.rows:
        steps = [step for step in results.steps if step.condition == row.condition.name]
        if steps:
            seconds = [_sum([step.seconds for step in steps if step.verb == verb], _seconds) for verb in verbs]
            bytes_ = [_sum([step.size for step in steps if step.verb == verb], _size) for verb in sizes]
            rows.append((row, [*seconds, *bytes_]))
    return [*(f"{verb}, s" for verb in verbs), *(f"{_SIZES[verb]} on disk" for verb in sizes)], rows


def _sum(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """The sum of what is known: "> " before it where something is not, "–" where nothing is, "" where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return "–" if values else ""
    return ("> " if len(known) < len(values) else "") + shown(sum(known))


def _seconds(value: float) -> str:
    return f"{value:,.1f}" if value >= 0.05 or not value else "< 0.1"


def _size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
