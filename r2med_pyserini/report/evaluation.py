"""The scores of one run, alone or beside another's, for a person or a program."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from .. import published, verdicts
from ..conditions import DEFAULT_TOLERANCE
from ..errors import BadInput, UsageError
from ..evaluation import MEASURES, Scores, evaluate, nothing_judged
from ..outcome import Outcome
from ..trec import RUN_COLUMNS, Qrels, read_qrels, read_run
from .grid import grid

JSON = "json"
_EQUAL = 1e-9  # scores nearer than this count as a tie


def judge(
    qrels_file: Path,
    suite: str,
    dataset: str | None,
    run_file: Path,
    measures: tuple[str, ...],
    per_query: bool,
    form: str,
    compare: str | None,
    tolerance: float | None,
) -> Outcome:
    """What `r2med eval` prints of a run. Raises BadInput and UsageError."""
    if compare is not None and (per_query or form == JSON):
        raise UsageError("--compare prints a table; leave --per-query and --format json away")
    with_run = compare is not None and (Path(compare).exists() or ":" not in compare)
    if tolerance is not None and (compare is None or with_run):
        raise UsageError("--tolerance is for --compare with a published system")
    qrels, warnings = read_qrels(qrels_file), []
    scores = _evaluate(run_file, qrels, measures, warnings)
    if compare is None:
        return Outcome(_render(scores, per_query, form), warnings=warnings)
    if with_run:
        other = _evaluate(Path(compare), qrels, measures, warnings)
        return Outcome(_against_run(scores, other), warnings=warnings)
    text, good = _against_figures(
        scores, _published(compare, suite, dataset), DEFAULT_TOLERANCE if tolerance is None else tolerance
    )
    return Outcome(text, good, warnings=warnings)


def _evaluate(run: Path, qrels: Qrels, measures: tuple[str, ...], warnings: list[str]) -> Scores:
    retrieved = read_run(run)
    if not retrieved:
        raise BadInput(f"{run}: holds no row; a run has lines of 6 columns: {RUN_COLUMNS}")
    if nothing_judged(qrels, retrieved):
        warnings.append(f"{run} holds no judged document: do run and qrels belong to the same dataset?")
    return evaluate(qrels, retrieved, tuple(dict.fromkeys(measures)) or MEASURES)


def _render(scores: Scores, per_query: bool, form: str) -> str:
    """The scores as text (measure, query or "all", value), or as JSON."""
    if form == JSON:
        value = asdict(scores)
        if not per_query:
            del value["queries"]
        return json.dumps(value, indent=1, ensure_ascii=False)
    lines = []
    if per_query:
        lines += [
            f"{measure}\t{query}\t{value:.4f}"
            for query, values in scores.queries.items()
            for measure, value in values.items()
        ]
    lines += [f"{measure}\tall\t{value:.4f}" for measure, value in scores.mean.items()]
    return "\n".join([*lines, f"{scores.evaluated:,} of {scores.judged:,} judged queries evaluated"])


def _against_run(ours: Scores, theirs: Scores) -> str:
    """Means beside those of another run, the difference, and on how many queries each is better."""
    rows = []
    for measure, value in ours.mean.items():
        gains = [values[measure] - theirs.queries[query][measure] for query, values in ours.queries.items()]
        better, worse = sum(gain > _EQUAL for gain in gains), sum(gain < -_EQUAL for gain in gains)
        other = theirs.mean[measure]
        figures = f"{value:.4f}", f"{other:.4f}", f"{value - other:+.4f}"
        rows.append([measure, *figures, better, worse, len(gains) - better - worse])
    return grid(("measure", "ours", "theirs", "difference", "better", "worse", "equal"), rows)


def _against_figures(ours: Scores, figures: Mapping[str, float], tolerance: float) -> tuple[str, bool]:
    """Means beside published figures, with verdicts; and whether all verdicts pass."""

    def rule(measured: float, reference: float) -> str:
        return verdicts.against_published(measured, reference, tolerance)

    found = verdicts.compare(ours.mean, figures, rule)
    if not found:
        raise UsageError(f"nothing to compare: published are {', '.join(figures)}")
    rows = [[c.measure, f"{c.measured:.4f}", f"{c.reference:.4f}", f"{c.difference:+.4f}", c.verdict] for c in found]
    text = grid(("measure", "ours", "theirs", "difference", "verdict"), rows, left=(0, -1))
    return text, all(verdicts.passes(comparison.verdict) for comparison in found)


def _published(name: str, suite: str, dataset: str | None) -> Mapping[str, float]:
    """The figures of the plain system that `source:retriever` names, on a dataset. Raises UsageError."""
    source, _, retriever = name.partition(":")
    if dataset is None:
        raise UsageError(f"--compare {name}: published figures belong to a dataset; say --dataset")
    systems = published.select(source=source, retriever=retriever, gar_method="", reranker="")
    figures = published.figures(systems[0], suite, dataset) if systems else {}
    if not figures:
        raise UsageError(f"--compare {name}: nothing was published for it on {suite}/{dataset}; see `r2med published`")
    return figures
