"""Reranking a run: which pairs are scored, and where every document stands afterwards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..composites import RERANKED, RerankSpec
from ..encoders.base import Advance
from ..trec import Run
from .base import Pair, Ranker, Scorer
from .cache import ScoreCache

AT_ONCE = 1024  # pairs that are scored between two moments at which scores are kept

Hits = tuple[str, list[str], list[float]]  # query id, document ids, scores


@dataclass
class Notes:
    """What is to be told of a reranking: pairs in all, those that were cut, those that could not be scored."""

    pairs: int = 0
    cut: int = 0
    failed: int = 0
    others: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """What a user should know."""
        found = [f"{self.cut:,} of {self.pairs:,} pairs cut at the reranker's length"] if self.cut else []
        if self.failed:
            found.append(
                f"{self.failed:,} of {self.pairs:,} pairs could not be scored; their documents keep their place"
            )
        return [*found, *self.others]


def candidates(run: Run, spec: RerankSpec) -> Run:
    """The documents of a run that are reranked: the best `depth` of each query."""
    return {query: dict(list(hits.items())[: spec.depth]) for query, hits in run.items()}


def score(
    pairs: Sequence[Pair], scorer: Scorer, cache: ScoreCache, dataset: str, notes: Notes, advance: Advance
) -> dict[Pair, float]:
    """The score of every pair, from the cache or from the scorer; without those that could not be scored.

    Raises R2medError; what has been scored until then is kept.
    """
    wanted = list(dict.fromkeys(pairs))
    known = dict(zip(wanted, cache.get(wanted), strict=True))
    found = {pair: entry for pair, entry in known.items() if entry is not None}
    advance(len(found))
    left = [pair for pair in wanted if pair not in found]
    for start in range(0, len(left), AT_ONCE):
        some = left[start : start + AT_ONCE]
        scored = scorer.score(some, dataset, advance)
        entries = {
            pair: (score, cut)
            for pair, score, cut in zip(some, scored.scores, scored.cut, strict=True)
            if score == score  # NaN stands for a pair that could not be scored
        }
        cache.put(list(entries), [score for score, _ in entries.values()], [cut for _, cut in entries.values()])
        notes.failed += len(some) - len(entries)
        found |= entries
    notes.pairs += len(wanted)
    notes.cut += sum(cut for _, cut in found.values())
    return {pair: score for pair, (score, _) in found.items()}


def by_score(hits: Mapping[str, float], scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """Documents with their scores, best first, equal ones by id.

    A document without a score keeps its place among the others, with a score between its neighbours'.
    """
    ranked = sorted(scores, key=lambda document: (-scores[document], document))
    if len(ranked) == len(hits):
        return [(document, scores[document]) for document in ranked]
    waiting = iter(ranked)
    order = [document if document not in scores else next(waiting) for document in hits]
    return _descending(order, scores)


def _descending(order: list[str], scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """An order as scores that fall strictly: those that are known as far as they do, and else the place."""
    if not scores:
        return [(document, float(len(order) - place)) for place, document in enumerate(order)]
    top, low = max(scores.values()), min(scores.values())
    step = (top - low) / len(order) or 1.0
    return [(document, top - place * step) for place, document in enumerate(order)]


def assemble(query: str, reranked: list[tuple[str, float]], hits: Mapping[str, float], spec: RerankSpec) -> Hits:
    """A query's hits: those that were reranked, and below them, unless they are left out, the others in their order.

    The others have strictly smaller scores, one less from each to the next.
    """
    seen = {document for document, _ in reranked}
    rest = [] if spec.keep == RERANKED else [document for document in hits if document not in seen]
    lowest = min((score for _, score in reranked), default=0.0)
    below = [(document, lowest - place) for place, document in enumerate(rest, start=1)]
    whole = [*reranked, *below]
    return query, [document for document, _ in whole], [score for _, score in whole]


def rerank(
    run: Run,
    topics: Mapping[str, str],
    texts: Mapping[str, str],
    spec: RerankSpec,
    scorer: Scorer,
    cache: ScoreCache,
    dataset: str,
    notes: Notes,
    advance: Advance,
) -> Iterator[Hits]:
    """The reranked run, query by query in the order of the run. `texts` has the documents that are reranked."""
    chosen = candidates(run, spec)
    pairs = [Pair(topics[query], texts[document]) for query, hits in chosen.items() for document in hits]
    found = score(pairs, scorer, cache, dataset, notes, advance)
    for query, hits in run.items():
        mine = {document: Pair(topics[query], texts[document]) for document in chosen[query]}
        scores = {document: found[pair] for document, pair in mine.items() if pair in found}
        yield assemble(query, by_score(chosen[query], scores), hits, spec)


def rerank_lists(
    run: Run,
    topics: Mapping[str, str],
    texts: Mapping[str, str],
    spec: RerankSpec,
    ranker: Ranker,
    cache: ScoreCache,
    dataset: str,
    notes: Notes,
    advance: Advance,
) -> Iterator[Hits]:
    """The run reranked by a Ranker, as `rerank` does; a document's score says how many stand behind it."""
    chosen = candidates(run, spec)
    for query, hits in run.items():
        names = list(chosen[query])
        order = ranker.rank(topics[query], [texts[name] for name in names], dataset).order
        scores = [(names[at], float(len(names) - place)) for place, at in enumerate(order)]
        advance(len(names))
        yield assemble(query, scores, hits, spec)
