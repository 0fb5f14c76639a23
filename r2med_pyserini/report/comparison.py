"""Two systems compared query by query: for a person as tables of at most 100 columns, for a program as JSON or CSV."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from ..significance import CONFIDENCE, RESAMPLES, Difference, gain
from .grid import CSV, TEXT, grid

JSON = "json"
FORMATS = (TEXT, JSON, CSV)
DATASET, TASK, ALL, BODY_SYSTEM = "dataset", "task", "all", "body_system"
WIDTH = 100
_NARROWEST = 8  # that a column of names or texts may become
_GAP = 2  # blanks between two columns
_PADDING = 2  # by which tabulate makes a column wider than its header
_LONGEST = 16  # characters of a name in a list of queries
_NONE = "-"
_FEW = 20  # queries: with fewer, bootstrap intervals hold the true mean markedly less often than they promise


@dataclass(frozen=True)
class Question:
    """One judged query: what is known of it, and the scores of A and B by measure."""

    query: str
    a: dict[str, float]
    b: dict[str, float]
    dataset: str | None = None
    label: str | None = None
    task: str | None = None
    body_system: str | None = None
    text: str | None = None

    def gain(self, measure: str) -> float:
        """How much better A is."""
        return gain(self.a[measure], self.b[measure])


@dataclass(frozen=True)
class Row:
    """One measure over one group of queries, and the p-values adjusted for all tests that are shown.

    `by` says what makes the group, and `label` is its name for people. Groups that are not `tested` are described.
    """

    measure: str
    by: str
    group: str
    label: str
    tested: bool
    found: Difference
    holm_t: float | None = None
    holm_randomisation: float | None = None


@dataclass(frozen=True)
class Comparison:
    """All that is shown of A and B. `where` says in a few words which judgements they were scored with."""

    a: str
    b: str
    where: str
    measures: tuple[str, ...]
    questions: list[Question]
    rows: list[Row]


def render(comparison: Comparison, form: str, top: int) -> str:
    """The comparison in one of FORMATS; as text with the `top` queries of the largest gains and losses."""
    if form == JSON:
        return json.dumps(_plain(comparison), indent=1, ensure_ascii=False, allow_nan=False)
    if form == CSV:
        return _table(comparison)
    parts = ["\n".join((f"A: {comparison.a}", f"B: {comparison.b}", f"Judgements: {comparison.where}"))]
    for measure in comparison.measures:
        parts += _measured(comparison, measure, top)
    return "\n\n".join([*parts, _legend(comparison.rows)])


def _measured(comparison: Comparison, measure: str, top: int) -> Iterator[str]:
    """The parts of the text about one measure."""
    rows = [row for row in comparison.rows if row.measure == measure]
    yield f"{measure}\n{_tests(row for row in rows if row.tested)}"
    described = [row for row in rows if not row.tested]
    if described:
        yield f"{measure} by body system (not tested)\n{_descriptions(described)}"
    for sign, title in ((1, "A is better"), (-1, "B is better")):
        chosen = [question for question in comparison.questions if sign * question.gain(measure) > 0]
        chosen.sort(key=lambda question: -sign * question.gain(measure))  # stable: ties stay in their order
        if chosen[:top]:
            yield f"{measure}: where {title} by most\n{_examples(chosen[:top], measure)}"


def _tests(rows: Iterable[Row]) -> str:
    header = ("queries", "n", "A", "B", "A - B", "low", "high", "p(t)", "p(r)", "Holm", "+/=/-")
    body = []
    for row in rows:
        chances = map(_chance, (row.found.p_t, row.found.p_randomisation, row.holm_randomisation))
        body.append([row.label, *_means(row.found), *chances, _counts(row.found)])
    return grid(header, _fitted(header, body, 0))


def _descriptions(rows: Iterable[Row]) -> str:
    header = ("queries", "n", "A", "B", "A - B", "low", "high", "+/=/-")
    return grid(header, _fitted(header, [[row.label, *_means(row.found), _counts(row.found)] for row in rows], 0))


def _examples(questions: Iterable[Question], measure: str) -> str:
    header = ["query", "A", "B", "A - B", "text"]
    body = []
    for question in questions:
        name = " ".join(_cut(part, _LONGEST) for part in (question.label, question.query) if part)
        values = f"{question.a[measure]:.4f}", f"{question.b[measure]:.4f}", _signed(question.gain(measure))
        body.append([name, *values, question.text or ""])
    if not any(row[-1] for row in body):
        return grid(header[:-1], [row[:-1] for row in body])
    room = _room(header, body, 4)
    return grid(header, [[*row[:-1], _cut(row[-1], room)] for row in body], left=(0, -1))


def _means(found: Difference) -> tuple[str, ...]:
    signed = map(_signed, (found.difference, found.low, found.high))
    return (f"{found.n:,}", f"{found.a:.4f}", f"{found.b:.4f}", *signed)


def _counts(found: Difference) -> str:
    return f"{found.better}/{found.equal}/{found.worse}"


def _signed(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:+.4f}" if abs(value) >= 0.00005 else "0.0000"


def _chance(value: float | None) -> str:
    if value is None:
        return _NONE
    return "<.0001" if value < 0.00005 else f"{value:.4f}"


def printable(text: str) -> str:
    """A text on one line, without what a terminal would obey."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _cut(text: str, width: int) -> str:
    text = printable(text)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _room(header: Sequence[str], body: Sequence[Sequence[str]], column: int) -> int:
    """How wide a column may be, where the others need what they hold."""
    rows = [[title + " " * _PADDING for title in header], *body]
    others = [max(map(len, cells)) for index, cells in enumerate(zip(*rows, strict=True)) if index != column]
    return max(_NARROWEST, WIDTH - sum(others) - _GAP * len(others))


def _fitted(header: Sequence[str], body: list[list[str]], column: int) -> list[list[str]]:
    """The rows with the cells of one column on as many lines as they need."""
    room = _room(header, body, column)
    for row in body:
        row[column] = "\n".join(textwrap.wrap(printable(row[column]), room)) or _NONE
    return body


def _legend(rows: Sequence[Row]) -> str:
    sentences = [
        "A query counts 0 where a run lacks it; means are over the n queries, every one alike.",
        f"low, high: {CONFIDENCE:.0%} bootstrap interval (BCa, {RESAMPLES:,} resamples) of the mean difference.",
        f"p(t): paired t-test; p(r): paired randomisation test, exact, or of {RESAMPLES:,} draws, which tell no p below"
        " 0.0002. Both are two-sided.",
        f"Holm: p(r) adjusted by Holm-Bonferroni for the number of tests shown, {_tests_shown(rows)}.",
        "+/=/-: queries on which A is better, equal, worse.",
    ]
    if any(row.found.low is None or (row.tested and row.found.p_t is None) for row in rows):
        sentences.append(
            f"{_NONE}: not available: a single query tells nothing about chance, and the t-test nothing where all"
            " differences are the same."
        )
    if any(1 < row.found.n < _FEW for row in rows):
        sentences.append(f"With few queries (fewer than {_FEW}) the interval is too narrow; hold to the tests.")
    return "\n".join(textwrap.fill(sentence, WIDTH) for sentence in sentences)


def _tests_shown(rows: Iterable[Row]) -> int:
    return sum(row.holm_randomisation is not None for row in rows)


def _plain(comparison: Comparison) -> dict:
    """The comparison as JSON has it: every group and every query."""
    return {
        "a": comparison.a,
        "b": comparison.b,
        "judgements": comparison.where,
        "measures": list(comparison.measures),
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        "tests": _tests_shown(comparison.rows),
        "groups": [_figures(row) for row in comparison.rows],
        "queries": [_asked(question, comparison.measures) for question in comparison.questions],
    }


def _figures(row: Row) -> dict:
    measured = {"measure": row.measure, "by": row.by, "group": row.group}
    return measured | vars(row.found) | {"holm_t": row.holm_t, "holm_randomisation": row.holm_randomisation}


def _asked(question: Question, measures: Iterable[str]) -> dict:
    known = {name: getattr(question, name) for name in ("query", "dataset", "task", "body_system", "text")}
    return known | {"scores": {measure: _scores(question, measure) for measure in measures}}


def _scores(question: Question, measure: str) -> dict[str, float]:
    return {"a": question.a[measure], "b": question.b[measure], "difference": question.gain(measure)}


def _table(comparison: Comparison) -> str:
    """CSV: a line a group, then a line a query; what is not available is empty."""
    header = ["measure", "by", "dataset", "group", *(field.name for field in fields(Difference))]
    header += ["holm_t", "holm_randomisation"]
    lines = [_figures(row) | ({"dataset": row.group} if row.by == DATASET else {}) for row in comparison.rows]
    for measure in comparison.measures:
        for question in comparison.questions:
            named = {"measure": measure, "by": "query", "dataset": question.dataset, "group": question.query, "n": 1}
            lines.append(named | _scores(question, measure))
    return grid(header, [[line.get(name) for name in header] for line in lines], CSV)
