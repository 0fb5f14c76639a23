"""The scores of one run, for a person or a program."""

import json
from dataclasses import asdict
from pathlib import Path

from ..evaluation import MEASURES, evaluate, nothing_judged
from ..trec import read_qrels, read_run


def evaluate_run(
    run: Path, qrels: Path, measures: tuple[str, ...], per_query: bool, as_json: bool
) -> tuple[str, str | None]:
    """What to print of a run, and a warning (or None). Raises BadInput and UsageError."""
    judged, retrieved = read_qrels(qrels), read_run(run)
    scores = evaluate(judged, retrieved, tuple(dict.fromkeys(measures)) or MEASURES)
    warning = None
    if nothing_judged(judged, retrieved):
        warning = f"{run} holds no judged document: do run and qrels belong to the same dataset?"
    if as_json:
        value = asdict(scores)
        if not per_query:
            del value["queries"]
        return json.dumps(value, indent=1, ensure_ascii=False), warning
    lines = []
    if per_query:
        lines += [
            f"{measure}\t{query}\t{value:.4f}"
            for query, values in scores.queries.items()
            for measure, value in values.items()
        ]
    lines += [f"{measure}\tall\t{value:.4f}" for measure, value in scores.mean.items()]
    return "\n".join([*lines, f"{scores.evaluated:,} of {scores.judged:,} judged queries evaluated"]), warning
