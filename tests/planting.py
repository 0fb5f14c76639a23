"""Results of runs that a test makes up; everything but indexing and searching is done as ever."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from r2med_pyserini import results
from r2med_pyserini.conditions import Condition, load
from r2med_pyserini.evaluation import HEADLINE
from r2med_pyserini.plan import Cell, Plan, digest, prepare
from r2med_pyserini.report import table
from r2med_pyserini.results import Results

Runs = Mapping[str, Mapping[str, str]]  # condition -> dataset -> the text of its run

BM25 = "search: {model: bm25}"


def own_condition(folder: Path, name: str, title: str = "own", how: str = BM25) -> Condition:
    """A condition of a user, as its file describes it."""
    file = folder / f"{name}.yaml"
    file.write_text(f"title: {title}\nindex: {{kind: lucene}}\n{how}\n", encoding="utf-8")
    return load(str(file))


def run_of(ranked: Mapping[str, Iterable[str]]) -> str:
    """A run that lists documents for queries, best first."""
    return "".join(
        f"{query} Q0 {document} {rank} {-rank} t\n"
        for query, documents in ranked.items()
        for rank, document in enumerate(documents, 1)
    )


def planted(suite: Path | str, conditions: Iterable[Condition], runs: Runs, slugs: tuple[str, ...] = ()) -> Plan:
    """The plan of conditions whose runs, as far as there are any, are up to date."""
    plan = prepare(str(suite), slugs, conditions=conditions)
    texts = {cell.run_path: runs.get(cell.condition.name, {}).get(cell.dataset.slug) for cell in plan.cells}
    lacking = {cell.scores for cell in plan.cells if texts[cell.run_path] is None}
    for stage in plan.stages:
        if stage.verb in ("search", "evaluate"):
            stage.artifact.remove()  # what an earlier call left
        if stage.verb == "search" and (text := texts[stage.artifact.path]) is not None:
            replace(stage, build=lambda path, text=text: path.write_text(text), tools=()).make(plan.setting.hashes)
        elif stage.verb not in ("search", "index") and stage not in lacking:
            stage.make(plan.setting.hashes)
    return plan


def rows_of(plan: Plan) -> tuple[dict[Cell, table.Scores], list[table.Row]]:
    """The scores of the cells that have any, and the rows of the table."""
    scored = {cell: cell.read() for cell in plan.cells if cell.scores.is_current(plan.setting.hashes)}
    entries = [
        table.entry(
            cell.condition, plan.suite, cell.dataset, scored.get(cell), digest(cell.dataset, plan.setting.hashes)
        )
        for cell in plan.cells
    ]
    return scored, table.rows(entries)


def gathered(plan: Plan, measure: str = HEADLINE, baseline: str | None = None, recall: bool = True) -> Results:
    """The results of a plan."""
    return results.gather(plan, *rows_of(plan), measure, baseline, recall)
