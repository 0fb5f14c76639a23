"""Reranking by a language model behind a server: one document at a time, or a list of them together.

A list is ranked in windows, from its end to its beginning (RankGPT, https://arxiv.org/abs/2304.09542). What a failed
request was about stays where it is; if no request is answered, that is an error, and no copy of the run.
"""

import math
from collections.abc import Sequence
from threading import Event

from ..encoders.base import Advance
from ..errors import R2medError, shown
from ..rerankers import Reranker
from ..service import REQUESTS, RETRIES, SHOWN, THIS, UNLESS_ANSWERED, Failure, side_by_side
from . import replies
from .base import Counts, Ranking, Scored
from .cache import Cache, ScoreCache
from .chat import Chat, Ended, precision
from .pairs import Pair

_ON = "the same command goes on from there"
_NO_LOGPROBS = (
    "the answers come without the log-probabilities of likely tokens, of which scores are made: use another server or "
    "model, or a listwise reranker"
)


class PointwiseScorer:
    """Scores pairs by what the model answers to one document: log p(yes) - log p(no), of the first token; see `score`.

    `requests` is how many are in flight; `timeout` and `retries` are those of `Service`.
    """

    def __init__(
        self, reranker: Reranker, *, requests: int = REQUESTS, timeout: float | None = None, retries: int = RETRIES
    ):
        self._reranker, self._requests = reranker, requests
        self._chat = Chat(reranker, timeout, retries)
        self._more = {"logprobs": True, "top_logprobs": reranker.logprobs}
        self.precision = precision(reranker)

    def score(
        self,
        pairs: Sequence[Pair],
        dataset: str,
        advance: Advance,
        cache: ScoreCache | None = None,
        known: int = 0,
    ) -> Scored:
        """Scores of pairs of texts, one request each. What fails, after all its tries, is in `failed`, its score NaN.

        A score goes into `cache` at once, so that an interruption costs no answers; what is there already is for the
        caller to look up. `advance` is told, in the calling thread, how many more pairs are done. Raises R2medError if
        the server gives no log-probabilities, refuses the key, knows no such model, or fails again and again; also if
        not one pair could be scored, unless `known` other pairs of the run have their scores.
        """
        scores, failed = [math.nan] * len(pairs), {}
        cut = [self._reranker.cuts(pair.document) for pair in pairs]

        def work(at: int) -> float | Failure:
            try:
                return self._chat.ask(self._reranker.render(dataset, *pairs[at]), self._read, self._more)
            except Failure as failure:
                return failure

        def collect(at: int, found: float | Failure) -> None:
            if isinstance(found, Failure):
                failed[at] = str(found)
            else:
                scores[at] = found
                if cache is not None:
                    cache.put([pairs[at]], [found], [cut[at]])
            advance(1)

        try:
            side_by_side(work, range(len(pairs)), self._requests, collect, "pairs")
        except Ended as ended:
            done = sum(map(math.isfinite, scores))
            raise R2medError(f"{ended} ({done:,} of the {len(pairs):,} pairs of this part are scored; {_ON})") from None
        if pairs and len(failed) == len(pairs) and not known:
            raise R2medError(f"not one of {len(pairs):,} pairs could be scored: {failed[min(failed)]}")
        return Scored(scores, cut, failed)

    def _read(self, choice: dict) -> float:
        """The score that an answer means. Raises Failure."""
        listed = replies.first_tokens(choice)
        if not listed and not replies.text(choice).strip():
            raise self._chat.fault("the answer is empty", THIS)
        if len(listed) < 2:  # of one token alone, nothing can be said of the other answer
            raise self._chat.fault(_NO_LOGPROBS, UNLESS_ANSWERED)
        score = replies.log_odds(listed, self._reranker.tokens)
        if score is None:
            likely = max(listed, key=lambda entry: entry[1])[0]
            yes, no = self._reranker.tokens
            raise self._chat.fault(f"the answer begins with {shown(likely, SHOWN)}, not with {yes} or {no}", THIS)
        return score


class ListwiseRanker:
    """Ranks the documents of a query in windows of the list, the last ones first; see `rank_all`.

    `requests` is how many lists are worked on at once; `timeout` and `retries` are those of `Service`.
    """

    def __init__(
        self, reranker: Reranker, *, requests: int = REQUESTS, timeout: float | None = None, retries: int = RETRIES
    ):
        self._reranker, self._requests = reranker, requests
        self._chat = Chat(reranker, timeout, retries)
        self.precision = precision(reranker)

    def rank(self, query: str, documents: Sequence[str], dataset: str, cache: Cache | None = None) -> Ranking:
        """`rank_all` for one list."""
        return self.rank_all([(query, documents)], dataset, cache)[0]

    def rank_all(
        self,
        lists: Sequence[tuple[str, Sequence[str]]],
        dataset: str,
        cache: Cache | None = None,
        advance: Advance = lambda documents: None,
    ) -> list[Ranking]:
        """Orders of the documents of several queries, (query, documents) each.

        A window is one request. Where that fails, after all its tries, or the reply names no document, the window stays
        as it was. Other replies go into `cache` at once, and what it has is not asked for again: an interrupted
        reranking goes on where it was. `advance` is told, in the calling thread, how many more documents are done.
        Raises R2medError if the server refuses the key, knows no such model, or fails again and again; also if not one
        window could be ranked.
        """
        found: dict[int, Ranking] = {}
        stop = Event()

        def work(at: int) -> Ranking:
            return self._rank(*lists[at], dataset, cache, stop)

        def collect(at: int, ranking: Ranking) -> None:
            found[at] = ranking
            advance(len(ranking.order))

        try:
            side_by_side(work, range(len(lists)), self._requests, collect, "lists")
        except Ended as ended:
            raise R2medError(f"{ended} ({len(found):,} of the {len(lists):,} lists were ranked; {_ON})") from None
        finally:
            stop.set()
        total = sum((ranking.counts for ranking in found.values()), Counts())
        if total.useless:
            why = total.reason or f"the replies name no passage ({total.example})"
            raise R2medError(f"not one of {total.windows:,} windows could be ranked: {why}")
        return [found[at] for at in range(len(lists))]

    def _rank(self, query: str, documents: Sequence[str], dataset: str, cache: Cache | None, stop: Event) -> Ranking:
        order, counts = list(range(len(documents))), Counts()
        for start, end in replies.windows(len(documents), self._reranker.window, self._reranker.stride):
            if stop.is_set():
                raise Ended("stopped")
            window = order[start:end]
            places, became = self._window(query, [documents[at] for at in window], dataset, cache)
            order[start:end] = [window[place] for place in places]
            counts += became
        return Ranking(order, counts)

    def _window(
        self, query: str, documents: Sequence[str], dataset: str, cache: Cache | None
    ) -> tuple[Sequence[int], Counts]:
        """The order of the documents of a window, as positions, and what became of it."""
        texts, sent = (query, *documents), 0
        reply = cache.lookup([texts])[0] if cache is not None else None
        found = replies.order(reply, len(documents)) if isinstance(reply, str) else None
        if found is None:
            try:
                reply, whole = self._chat.ask(self._reranker.render_list(dataset, query, documents), _read)
            except Failure as failure:
                return range(len(documents)), Counts(1, 1, failed=1, reason=str(failure))
            found, sent = replies.order(reply, len(documents)), 1
            if found is None:
                example = shown(reply, SHOWN) if whole else f"cut at {self._reranker.max_tokens:,} tokens"
                return range(len(documents)), Counts(1, 1, empty=1, example=example)
            if cache is not None:
                cache.keep([texts], [reply])
        places, repaired = found
        return places, Counts(1, sent, repaired=int(repaired))


def _read(choice: dict) -> tuple[str, bool]:
    """A reply without the thoughts before it, and whether it was not cut."""
    return replies.conclusion(replies.text(choice)), choice.get("finish_reason") != "length"
