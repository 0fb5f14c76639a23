"""One query as a person reads it: its text, its relevant documents, and what several runs found, side by side.

In a terminal every line fits its width, and what a terminal would obey, or not show, is spelled out (`\\x1b`).
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .page import page, render

NARROWEST = 20  # columns of a terminal; one that says it has fewer is written to as if it had these
COLUMN = 34  # columns that a run has at the least, where several stand side by side
RELEVANT, NOT_RELEVANT, NOT_JUDGED = "+", "-", " "
_LEGEND = f"Hits ({RELEVANT} relevant, {NOT_RELEVANT} judged and not relevant, the others are not judged):"
SHORT, MEDIUM = 200, 400  # characters of a document: beside others, and alone
BEGINNING, LONG = 80, 4000  # on a page: before it is opened, and then
_GAP = "  "


@dataclass(frozen=True)
class Hit:
    """A document that a run found: its rank from 1, its score, its relevance (None: not judged), and its text."""

    rank: int
    document: str
    score: float
    grade: int | None
    text: str


@dataclass(frozen=True)
class Ranking:
    """What one condition's run has for the query.

    `hits` are the best few of `count`; `ranks` has the rank of every relevant document that is among the `count`.
    `scores` are the query's, by measure; empty if it is not judged.
    """

    condition: str
    title: str
    count: int
    hits: list[Hit]
    ranks: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Relevant:
    """A relevant document: its relevance, and its text (None: it is not in the corpus)."""

    document: str
    grade: int
    text: str | None


@dataclass(frozen=True)
class Shown:
    """All that is shown of a query.

    `about` has what else the dataset says of it, by name. `relevant` are the first few of `relevant_count`.
    """

    suite: str
    dataset: str
    query: str
    text: str
    judged: bool
    relevant: list[Relevant]
    relevant_count: int
    rankings: list[Ranking]
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """What it is, in one line."""
        return f"Query {self.query} of {self.dataset}, suite {self.suite}"

    @property
    def none_relevant(self) -> str:
        """What to say where no document is relevant."""
        return "None of its judged documents is relevant." if self.judged else "The query has no judgements."


def spelled(text: str) -> str:
    """A text in which letters that are no white space, and cannot be printed, stand as Python spells them."""
    return "".join(letter if letter.isprintable() or letter.isspace() else ascii(letter)[1:-1] for letter in text)


def printable(text: str) -> str:
    """A text on one line, safe for a terminal."""
    return spelled(" ".join(text.split()))


def cut(text: str, longest: int) -> str:
    """A text of at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3].rstrip()}..."


def width_of(text: str) -> int:
    """How many columns of a terminal a printable text takes: East Asian wide letters two, combining ones none."""
    return sum(map(_width, text))


def _width(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def wrap(text: str, width: int) -> list[str]:
    """A text, made printable, on lines of at most `width` (2 or more) columns; words that are longer are parted."""
    lines, line, taken = [], "", 0
    for word in printable(text).split(" "):
        long = width_of(word)
        if line and taken + 1 + long <= width:
            line, taken = f"{line} {word}", taken + 1 + long
            continue
        *whole, rest = _pieces(word, width)
        lines += [line, *whole] if line else whole
        line, taken = rest, width_of(rest)
    return [*lines, line] if line else lines


def _pieces(word: str, width: int) -> list[str]:
    pieces, taken = [""], 0
    for letter in word:
        if taken + _width(letter) > width:
            pieces.append("")
            taken = 0
        pieces[-1] += letter
        taken += _width(letter)
    return pieces


def as_text(shown: Shown, width: int) -> str:
    """What `r2med show` prints on a terminal of `width` columns."""
    width = max(width, NARROWEST)
    lines = [*wrap(shown.heading, width), "", *(_paragraphs(shown.text, width) or ["(the query is empty)"])]
    for name, value in shown.about.items():
        lines += ["", *wrap(f"{name}: {value}", width)]
    lines += ["", *_relevant(shown, width)]
    if any(ranking.hits for ranking in shown.rankings):
        lines += ["", *wrap(_LEGEND, width)]
    beside = max(1, (width + len(_GAP)) // (COLUMN + len(_GAP)))
    for start in range(0, len(shown.rankings), beside):
        lines += ["", *_side_by_side(shown.rankings[start : start + beside], width)]
    return "\n".join(line.rstrip() for line in lines)


def as_page(shown: Shown) -> str:
    """The same as a page."""
    body = render(
        "shown.html.jinja",
        shown=shown,
        text_of=lambda text: spelled(cut(text, LONG)),
        beginning_of=lambda text: cut(printable(text[:SHORT]), BEGINNING),
    )
    return page(spelled(shown.heading), body)


def _paragraphs(text: str, width: int) -> list[str]:
    """A text on lines of the terminal that keep the text's own."""
    blocks = [wrap(line, width) or [""] for line in text.strip().splitlines()]
    lines = [line for block in blocks for line in block]
    return [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]


def _relevant(shown: Shown, width: int) -> Iterator[str]:
    if not shown.relevant:
        yield from wrap(shown.none_relevant, width)
        return
    yield from wrap(f"{_counted(shown.relevant_count, 'relevant document')}:", width)
    for relevant in shown.relevant:
        named = relevant.document if relevant.grade == 1 else f"{relevant.document} (relevance {relevant.grade})"
        text = "(it is not in the corpus)" if relevant.text is None else cut(relevant.text, MEDIUM)
        yield from wrap(named, width)
        for part in ("; ".join(_places(relevant.document, shown.rankings)), text):
            yield from (f"  {line}" for line in wrap(part, width - 2))
    if shown.relevant_count > len(shown.relevant):
        yield f"and {shown.relevant_count - len(shown.relevant):,} more"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _places(document: str, rankings: Iterable[Ranking]) -> Iterator[str]:
    """Where the runs have a document; those that lack it stand last, together."""
    lacking = []
    for ranking in rankings:
        if document in ranking.ranks:
            yield f"{ranking.condition}: rank {ranking.ranks[document]:,}"
        else:
            lacking.append(ranking.condition)
    if lacking:
        yield f"not among the hits of {', '.join(lacking)}"


def _side_by_side(rankings: Sequence[Ranking], width: int) -> Iterator[str]:
    """Columns of equal width, in which the hits of one rank begin on the same line."""
    column = (width - len(_GAP) * (len(rankings) - 1)) // len(rankings)
    yield from _row(
        [[*wrap(ranking.condition, column), *wrap(_summary(ranking), column)] for ranking in rankings], column
    )
    yield _GAP.join(["-" * column] * len(rankings))
    for place in range(max(len(ranking.hits) for ranking in rankings)):
        found = [ranking.hits[place] if place < len(ranking.hits) else None for ranking in rankings]
        yield from _row([_hit(hit, column) if hit else [] for hit in found], column)


def _summary(ranking: Ranking) -> str:
    scores = [f"{measure} {value:.4f}" for measure, value in ranking.scores.items()]
    return ", ".join([*scores, _counted(ranking.count, "hit")])


def _hit(hit: Hit, column: int) -> list[str]:
    mark = NOT_JUDGED if hit.grade is None else RELEVANT if hit.grade > 0 else NOT_RELEVANT
    before = f"{hit.rank} {mark} "
    first, *others = wrap(hit.document, column - len(before))
    lines = [before + first, *(" " * len(before) + line for line in others)]
    return [*lines, *(f"  {line}" for line in wrap(f"{hit.score:g}: {cut(hit.text, SHORT)}", column - 2))]


def _row(cells: Sequence[list[str]], column: int) -> Iterator[str]:
    """Cells of lines, side by side; the shorter ones are filled up."""
    for at in range(max(map(len, cells))):
        lines = [cell[at] if at < len(cell) else "" for cell in cells]
        yield _GAP.join(line + " " * (column - width_of(line)) for line in lines)
