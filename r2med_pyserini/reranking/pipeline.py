"""Reranking a run: which pairs are scored, and where every document stands afterwards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..composites import RERANKED, RerankSpec
from ..encoders.base import Advance
from ..trec import Run
from .base import Counts, Ranker, Scorer
from .cache import ScoreCache
from .pairs import Pair

AT_ONCE = 1024  # pairs that are scored between two moments at which scores are kept
SMALLEST_STEP = 0.001  # between scores that are made up: trec_eval compares single-precision numbers

Hits = tuple[str, list[str], list[float]]  # query id, document ids, scores


@dataclass
class Notes:
    """What is to be told of a reranking: different pairs, those that were cut, those that could not be scored, and why.

    `reason` is that of the first such pair, if it is known.
    """

    pairs: int = 0
    cut: int = 0
    failed: int = 0
    reason: str | None = None
    windows: Counts = field(default_factory=Counts)

    def sentences(self) -> list[str]:
        """What a user should know."""
        found = [f"{self.cut:,} of {self.pairs:,} pairs cut at the reranker's length"] if self.cut else []
        if self.failed:
            why = f" ({self.reason})" if self.reason else ""
            what = f"{self.failed:,} of {self.pairs:,} pairs could not be scored{why}"
            found.append(f"{what}: their documents keep their place")
        return [*found, *self.windows.sentences()]

    @property
    def incomplete(self) -> bool:
        """Whether something failed that may succeed another time."""
        return bool(self.failed or self.windows.failed or self.windows.empty)


def candidates(run: Run, spec: RerankSpec) -> Run:
    """The documents of a run that are reranked: the best `depth` of each query."""
    return {query: dict(list(hits.items())[: spec.depth]) for query, hits in run.items()}


def score(
    pairs: Sequence[Pair], scorer: Scorer, cache: ScoreCache, dataset: str, notes: Notes, advance: Advance
) -> dict[Pair, float]:
    """The score of every pair, from the cache or from the scorer; without those that could not be scored.

    Pairs of the same texts are scored once; `advance` is told of all. Raises R2medError; what has been scored until
    then is kept.
    """
    wanted = list(dict.fromkeys(pairs))
    known = dict(zip(wanted, cache.get(wanted), strict=True))
    found = {pair: entry for pair, entry in known.items() if entry is not None}
    left = [pair for pair in wanted if pair not in found]
    advance(len(pairs) - len(left))
    for start in range(0, len(left), AT_ONCE):
        some = left[start : start + AT_ONCE]
        scored = scorer.score(some, dataset, advance, cache, len(found))
        cache.put(some, scored.scores, scored.cut)
        entries = zip(some, scored.scores, scored.cut, strict=True)
        found |= {pair: (score, cut) for pair, score, cut in entries if score == score}  # NaN: it could not be scored
        notes.reason = notes.reason or next(iter(scored.failed.values()), None)
    notes.pairs += len(wanted)
    notes.failed += len(wanted) - len(found)
    notes.cut += sum(cut for _, cut in found.values())
    return {pair: score for pair, (score, _) in found.items()}


def by_score(hits: Iterable[str], scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """Documents with their scores, best first, equal ones by id.

    A document without a score keeps its place among the others. Since that place has no score of its own, the scores
    of all documents are then spread evenly, from the best one down; without any score they are 1 and below.
    """
    places = list(hits)
    ranked = sorted(scores, key=lambda document: (-scores[document], document))
    if len(ranked) == len(places):
        return [(document, scores[document]) for document in ranked]
    waiting = iter(ranked)
    order = [next(waiting) if document in scores else document for document in places]
    top, low = max(scores.values(), default=1.0), min(scores.values(), default=0.0)
    step = max((top - low) / len(order), SMALLEST_STEP)
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
    lists = [(topics[query], [texts[document] for document in hits]) for query, hits in chosen.items()]
    rankings = ranker.rank_all(lists, dataset, cache, advance)
    notes.windows = sum((ranking.counts for ranking in rankings), Counts())
    for (query, hits), ranking in zip(run.items(), rankings, strict=True):
        names = list(chosen[query])
        scores = [(names[at], float(len(names) - place)) for place, at in enumerate(ranking.order)]
        yield assemble(query, scores, hits, spec)
