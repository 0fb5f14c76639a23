"""Gathers what `r2med show` shows of a query: its text, its relevant documents, and the current runs' best hits."""

import shlex
from collections.abc import Container, Mapping
from pathlib import Path

from . import conditions, evaluation, trec
from .artifacts import replace_text
from .collection import documents
from .errors import R2medError, UsageError
from .jsonl import Faults, objects
from .paths import QUERY_FILE, Collection
from .plan import Cell, Plan, prepare
from .rawfiles import locate
from .report.shown import Hit, Ranking, Relevant, Shown, as_page, as_text
from .stages import DONE
from .suggest import did_you_mean

MOST = 50  # relevant documents that are shown
_MEASURES = (evaluation.HEADLINE, "R@100")
_ABOUT = {"answer": "Answer", "body_system": "Body system"}  # what R2MED's queries have besides their text
_PAGES = (".html", ".htm")


def show(
    suite: str, dataset: str, query: str, names: tuple[str, ...], top: int, width: int, page: Path | None = None
) -> str:
    """What is printed of a query, on `width` columns; or, with `page`, the path of the page that is written.

    `names` are conditions, each of which must have a current run of the dataset; without any, all that have one are
    shown. Ranks are those that evaluation goes by: by score, ties by document id, descending. Runs nothing. Raises
    UsageError and R2medError.
    """
    if page is not None and page.suffix.lower() not in _PAGES:
        raise UsageError(f"--html {page}: a file that ends in .html is wanted, which is written anew")
    chosen = conditions.load_all(names or conditions.names())
    plan = prepare(suite, (dataset,), conditions=chosen, need_data=False)
    shown = _gather(plan, _cells(plan, names, suite, dataset), query, top)
    if page is None:
        return as_text(shown, width)
    try:
        replace_text(page, as_page(shown))
    except OSError as error:
        raise R2medError(f"cannot write {page}: {error.strerror or error}") from error
    return str(page)


def _cells(plan: Plan, names: tuple[str, ...], suite: str, dataset: str) -> list[Cell]:
    """The cells with current runs. Raises R2medError if there is none, or one that is named has none."""
    state = plan.preview()
    cells = [cell for cell in plan.cells if state[cell.scores] == DONE]
    lacking = [cell.condition.name for cell in plan.cells if cell not in cells]
    if (names and lacking) or not cells:
        missing = [name for name in names if conditions.load(name).name in lacking] or ["bm25"]
        what = f" of {', '.join(lacking)}" if names else ""
        command = shlex.join(["r2med", "run", *missing, "--suite", suite, "--dataset", dataset])
        raise R2medError(f"no current run{what} on {dataset}; make it with `{command}`")
    return cells


def _gather(plan: Plan, cells: list[Cell], query: str, top: int) -> Shown:
    dataset = cells[0].dataset
    files = plan.setting.workspace.collection(plan.suite.name, dataset.slug)
    topics, judged = trec.read_topics(files.topics), trec.read_qrels(files.qrels)
    if query not in topics:
        some = "" if len(topics) > MOST else f" (there are {', '.join(topics)})"
        raise UsageError(f"no query {query!r} in {dataset.slug}{did_you_mean(query, topics)}{some}")
    grades = judged.get(query, {})
    relevant = sorted((name for name in grades if grades[name] > 0), key=lambda name: (-grades[name], name))
    found = {cell: _ranked(trec.read_run(cell.run_path).get(query, {})) for cell in cells}
    named = {name for hits in found.values() for name, _ in hits[:top]}
    texts = _texts(files, named.union(relevant[:MOST]))
    sample = " (a sample: not R2MED's)" if plan.suite.sample else ""
    return Shown(
        suite=f"{plan.suite.name}{sample}",
        dataset=dataset.slug,
        query=query,
        text=topics[query],
        judged=bool(grades),
        relevant=[Relevant(name, grades[name], texts.get(name)) for name in relevant[:MOST]],
        relevant_count=len(relevant),
        rankings=[_ranking(cell, hits, top, query, grades, texts) for cell, hits in found.items()],
        about=_about(dataset.raw, query),
    )


def _ranked(hits: Mapping[str, float]) -> list[tuple[str, float]]:
    """A run's hits for a query in trec_eval's order: by score in single precision, ties by id, descending."""
    import numpy as np

    single = np.fromiter(hits.values(), np.float32, len(hits)).tolist()
    return [(name, hits[name]) for _, name in sorted(zip(single, hits, strict=True), reverse=True)]


def _ranking(
    cell: Cell,
    found: list[tuple[str, float]],
    top: int,
    query: str,
    grades: Mapping[str, int],
    texts: Mapping[str, str],
) -> Ranking:
    ranks = {name: rank for rank, (name, _) in enumerate(found, 1) if grades.get(name, 0) > 0}
    hits = [
        Hit(rank, name, score, grades.get(name), texts.get(name, ""))
        for rank, (name, score) in enumerate(found[:top], 1)
    ]
    known = cell.read().queries.get(query, {})
    scores = {measure: known[measure] for measure in _MEASURES if measure in known}
    return Ranking(cell.condition.name, cell.condition.title, len(found), hits, ranks, scores)


def _texts(files: Collection, wanted: Container[str]) -> dict[str, str]:
    return {name: text for name, text in documents(files.docs) if name in wanted}


def _about(raw: Path, query: str) -> dict[str, str]:
    """What the dataset's file says of a query besides its text, where it is text."""
    for _, row in objects(locate(raw)[QUERY_FILE], Faults()):
        if trec.identifier(row.get("id")) == query:
            return {name: row[key].strip() for key, name in _ABOUT.items() if _says_something(row.get(key))}
    return {}


def _says_something(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
