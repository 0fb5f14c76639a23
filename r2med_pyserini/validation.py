"""Every fault of a run file in one go, with line numbers."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from .errors import cut
from .textio import lines
from .trec import RUN_COLUMNS, number

_LONGEST_RANK = 9  # digits


@dataclass(frozen=True)
class Fault:
    """One fault: its kind (a short, stable word for programs), the line (None for the whole file), and a sentence."""

    kind: str
    line: int | None
    text: str


@dataclass(frozen=True)
class _Row:
    line: int
    document: str
    rank: int
    score: float


def faults(path: Path, queries: Collection[str], documents: Collection[str], hits: int) -> list[Fault]:
    """All faults of a TREC run, in the order of its lines; then the queries that it lacks.

    `queries` and `documents` are the ids that exist, `hits` how many documents a query may have. Raises BadInput only
    if the file cannot be read at all.
    """
    found: list[Fault] = []
    rows: dict[str, list[_Row]] = {}
    for line_number, line in lines(path):
        query, row = _parse(line_number, line, found)
        if row is None:
            continue
        if query not in queries:
            found.append(Fault("unknown-query", line_number, f"query {query!r} is not among the topics"))
        if row.document not in documents:
            found.append(Fault("unknown-document", line_number, f"document {row.document!r} is not in the collection"))
        rows.setdefault(query, []).append(row)
    for query, ranking in rows.items():
        found += _ranking(query, ranking, hits)
    found.sort(key=lambda fault: fault.line or 0)
    found += [Fault("missing-query", None, f"query {query!r} has no row") for query in queries if query not in rows]
    return [replace(fault, text=cut(fault.text)) for fault in found]


def _parse(line_number: int, line: bytes, found: list[Fault]) -> tuple[str, _Row | None]:
    fields = line.split()
    if len(fields) != len(RUN_COLUMNS.split()):
        found.append(Fault("columns", line_number, f"{len(fields)} columns; wanted are 6: {RUN_COLUMNS}"))
        return "", None
    try:
        query, _, document, rank, score, _ = (field.decode("utf-8") for field in fields)
    except UnicodeDecodeError:
        found.append(Fault("encoding", line_number, "not UTF-8"))
        return "", None
    good = True
    value = number(score)
    if value is None:
        found.append(Fault("score", line_number, f"score {score!r} is not a finite number"))
        good = False
    if not rank.isascii() or not rank.isdigit() or len(rank) > _LONGEST_RANK:
        found.append(Fault("rank", line_number, f"rank {rank!r} is not a whole number"))
        good = False
    return query, _Row(line_number, document, int(rank), value) if good else None


def _ranking(query: str, ranking: list[_Row], hits: int) -> Iterator[Fault]:
    """The faults of one query's rows, seen together."""
    first: dict[str, int] = {}
    ranks: dict[int, int] = {}
    for row in ranking:
        if first.setdefault(row.document, row.line) != row.line:
            text = f"query {query!r}: document {row.document!r} stands on line {first[row.document]} already"
            yield Fault("duplicate", row.line, text)
        if ranks.setdefault(row.rank, row.line) != row.line:
            yield Fault("rank", row.line, f"query {query!r}: rank {row.rank} stands on line {ranks[row.rank]} already")
    for before, row in pairwise(ranking):
        if row.score > before.score:
            text = f"query {query!r}: score {row.score:g} is higher than that of the line before, {before.score:g}"
            yield Fault("unsorted", row.line, text)
    by_rank = sorted(ranking, key=lambda row: row.rank)
    for better, worse in pairwise(by_rank):
        if better.rank < worse.rank and better.score < worse.score:
            text = f"query {query!r}: rank {worse.rank} has a higher score than rank {better.rank} (line {better.line})"
            yield Fault("rank-score", worse.line, text)
    if len(ranking) > hits:
        text = f"query {query!r}: {len(ranking):,} documents, but at most {hits:,} are kept"
        yield Fault("too-many", ranking[hits].line, text)
