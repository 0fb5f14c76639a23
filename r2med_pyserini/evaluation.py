"""Scores of a run against qrels, as `trec_eval -c` computes them. No JVM.

Measures are named as their users write them: nDCG@10, R@100, P@10, MAP@100, MAP, MRR, nDCG. Every query with
judgements counts: one that the run lacks scores 0. Documents are ranked by score, ties by document id descending,
as trec_eval does; the rank column of a run is not looked at. Negative relevance counts as not relevant. nDCG is
trec_eval's: the gain is the relevance, the discount log2(rank + 1). MRR looks at the whole ranking.
"""

import re
from dataclasses import dataclass

from .errors import BadInput, UsageError
from .suggest import did_you_mean
from .trec import Qrels, Run

HEADLINE = "nDCG@10"
MEASURES = (HEADLINE, "nDCG@100", "R@10", "R@100", "R@1000", "MAP@100", "MRR", "P@10")

_WITH_CUTOFF = {"nDCG": "ndcg_cut", "R": "recall", "P": "P", "MAP": "map_cut"}
_WHOLE = {"nDCG": "ndcg", "MAP": "map", "MRR": "recip_rank"}


@dataclass(frozen=True)
class Scores:
    """Per query and mean scores. `judged` queries have qrels, `evaluated` of them are in the run."""

    judged: int
    evaluated: int
    mean: dict[str, float]
    queries: dict[str, dict[str, float]]


def kept(hits: int) -> tuple[str, ...]:
    """The measures of MEASURES that a run of so many hits a query can tell: none that looks deeper."""
    return tuple(measure for measure in MEASURES if int(measure.partition("@")[2] or 1) <= hits)


def trec_eval_name(measure: str) -> str:
    """trec_eval's name of a measure ("nDCG@10" -> "ndcg_cut.10"). Raises UsageError for one it does not have."""
    stem, _, cutoff = measure.partition("@")
    exact = {name.lower(): name for name in (*_WITH_CUTOFF, *_WHOLE)}.get(stem.lower())
    if cutoff and exact in _WITH_CUTOFF and re.fullmatch(r"[1-9][0-9]{0,5}", cutoff):
        return f"{_WITH_CUTOFF[exact]}.{cutoff}"
    if not cutoff and "@" not in measure and exact in _WHOLE:
        return _WHOLE[exact]
    raise UsageError(
        f"no measure {measure!r}{did_you_mean(measure, MEASURES)} (nDCG@k, R@k, P@k, MAP@k, nDCG, MAP, MRR)"
    )


def evaluate(qrels: Qrels, run: Run, measures: tuple[str, ...] = MEASURES, foreign: bool = True) -> Scores:
    """Score `run`; the queries come in the order of `qrels`. A run without any hit scores 0.

    Raises UsageError for an unknown measure; and BadInput if a `foreign` run has hits, but for none of the judged
    queries, since it seems to belong to another dataset.
    """
    import pytrec_eval

    names = {measure: trec_eval_name(measure) for measure in measures}
    shared = [query for query in qrels if run.get(query)]
    if foreign and any(run.values()) and not shared:
        example = f"the run has {next(iter(run), 'none')!r}, the qrels {next(iter(qrels), 'none')!r}"
        raise BadInput(f"run and qrels share no query ({example}): do they belong to the same dataset?")
    # pytrec_eval 0.5 writes beyond its memory at a relevance below -1; to trec_eval all negative ones are alike
    clamped = {query: {doc: max(grade, -1) for doc, grade in judged.items()} for query, judged in qrels.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(clamped, set(names.values()))
    found = evaluator.evaluate({query: run[query] for query in shared})
    queries = {
        query: {
            measure: found[query][name.replace(".", "_")] if query in found else 0.0 for measure, name in names.items()
        }
        for query in qrels
    }
    mean = {measure: sum(scores[measure] for scores in queries.values()) / len(queries) for measure in measures}
    return Scores(len(qrels), len(shared), mean, queries)


def nothing_judged(qrels: Qrels, run: Run) -> bool:
    """Whether the run holds no judged document at all: a hint that it belongs to another dataset."""
    return not any(qrels[query].keys() & documents.keys() for query, documents in run.items() if query in qrels)
