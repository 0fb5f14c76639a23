"""Reranking a run: which pairs are scored, what is kept of that, and where every document stands afterwards."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import evaluation, trec
from r2med_pyserini.composites import ALL, RERANKED, RerankSpec
from r2med_pyserini.encoders import Settings
from r2med_pyserini.errors import R2medError
from r2med_pyserini.reranking import base, pipeline
from r2med_pyserini.reranking.base import Counts, Pair, Ranking, Scored
from r2med_pyserini.reranking.cache import ScoreCache
from r2med_pyserini.reranking.local import LocalScorer
from r2med_pyserini.reranking.pipeline import Notes
from r2med_pyserini.trec import Run

from . import tiny_rerankers

SPEC = RerankSpec("bm25", "any", depth=3)
SEEDS = range(60)


@dataclass
class ByLength:
    """A scorer by a rule that can be worked out by hand; it says what it was asked, and may fail."""

    rule: Callable[[Pair], float] = lambda pair: float(len(pair.document))
    precision: str = "float32"
    calls: list[list[Pair]] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    breaks_at: int | None = None
    why: str | None = None

    def score(self, pairs: Sequence[Pair], dataset: str, advance, cache=None, known: int = 0) -> Scored:
        assert pairs
        if len(self.calls) == self.breaks_at:
            raise KeyboardInterrupt
        self.calls.append(list(pairs))
        self.told.append(known)
        advance(len(pairs))
        scores = [self.rule(pair) for pair in pairs]
        failed = {at: self.why for at, score in enumerate(scores) if math.isnan(score)} if self.why else {}
        return Scored(scores, [pair.document.endswith("!") for pair in pairs], failed)

    @property
    def asked(self) -> list[Pair]:
        return [pair for call in self.calls for pair in call]


@pytest.fixture
def cache(tmp_path) -> ScoreCache:
    return ScoreCache(tmp_path / "scores.sqlite", {"any": "recipe"})


def rerank(run: Run, texts: dict[str, str], cache, scorer=None, spec: RerankSpec = SPEC, topics=None, **more) -> Run:
    """The reranked run; a query's text is its id unless there are topics."""
    topics = topics or {query: query for query in run}
    notes, advance = more.get("notes") or Notes(), more.get("advance") or (lambda number: None)
    found = pipeline.rerank(run, topics, texts, spec, scorer or ByLength(), cache, "any", notes, advance)
    return {query: dict(zip(documents, scores, strict=True)) for query, documents, scores in found}


def written(run: Run, file: Path) -> Run:
    """A run as it is read after it was written, where scores have nine digits."""
    trec.write_run(file, ((query, list(hits), list(hits.values())) for query, hits in run.items()), "x", ".9g")
    return trec.read_run(file)


def random_case(seed: int) -> tuple[Run, dict[str, str], trec.Qrels, dict[Pair, float]]:
    """A run, texts, judgements, and scores of pairs: also very large and small ones, equal ones, and none (NaN)."""
    chance = random.Random(seed)
    names = [f"d{number}" for number in range(chance.randint(1, 160))]
    texts = {name: f"text {chance.randint(0, len(names))}" for name in names}
    run: Run = {}
    for number in range(chance.randint(1, 5)):
        chosen = chance.sample(names, chance.randint(1, len(names)))
        scores = sorted((round(chance.uniform(0, 20), 1) for _ in chosen), reverse=True)
        run[f"q{number}"] = dict(zip(chosen, scores, strict=True))
    qrels = {query: {name: chance.randint(0, 2) for name in chance.sample(names, min(9, len(names)))} for query in run}
    scale = chance.choice([1e-6, 1.0, 20.0, 1000.0])
    share = chance.choice([0.0, 0.0, 0.2, 1.0])
    scores = {
        Pair(query, text): math.nan
        if chance.random() < share
        else chance.choice([float(np.float32(chance.gauss(0, scale))), -7.25])
        for query in run
        for text in texts.values()
    }
    return run, texts, qrels, scores


def trec_order(hits: dict[str, float]) -> list[str]:
    """The order in which trec_eval reads hits: by score in single precision, equal ones by id, falling."""
    return sorted(hits, key=lambda name: (np.float32(hits[name]), name), reverse=True)


# where documents stand


class TestOrder:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_documents_below_the_depth_stay_below_in_their_order(self, seed, cache, tmp_path):
        run, texts, _, scores = random_case(seed)
        for depth in (1, 7, 50, 100, 500):
            spec = changed(SPEC, depth=depth)
            found = written(rerank(run, texts, cache, ByLength(scores.__getitem__), spec), tmp_path / "run")
            assert list(found) == list(run)
            for query, hits in run.items():
                above, below = list(hits)[:depth], list(hits)[depth:]
                assert found[query].keys() == hits.keys()
                assert set(list(found[query])[: len(above)]) == set(above)
                assert list(found[query])[len(above) :] == below
                assert trec_order(found[query])[len(above) :] == below
                lowest = min(found[query][name] for name in above)
                assert all(np.float32(found[query][name]) < np.float32(lowest) for name in below)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_what_is_found_within_100_is_so_whatever_the_order_above(self, seed, cache, tmp_path):
        run, texts, qrels, scores = random_case(seed)
        before = evaluation.evaluate(qrels, as_ranked(run), ("R@100", "R@1000"), foreign=False)
        for depth in (1, 20, 99, 100):
            spec = changed(SPEC, depth=depth)
            found = written(rerank(run, texts, cache, ByLength(scores.__getitem__), spec), tmp_path / "run")
            after = evaluation.evaluate(qrels, found, ("R@100", "R@1000"), foreign=False)
            assert after.queries == before.queries

    @pytest.mark.parametrize("seed", SEEDS)
    def test_those_that_were_scored_stand_by_score_and_id(self, seed, cache):
        run, texts, _, scores = random_case(seed)
        found = rerank(run, texts, cache, ByLength(scores.__getitem__), changed(SPEC, depth=50))
        for query, hits in run.items():
            mine = {name: scores[Pair(query, texts[name])] for name in list(hits)[:50]}
            known = {name: score for name, score in mine.items() if not math.isnan(score)}
            order = [name for name in list(found[query])[: len(mine)] if name in known]
            assert order == sorted(known, key=lambda name: (-known[name], name))
            if len(known) == len(mine):
                assert {name: found[query][name] for name in mine} == mine

    @pytest.mark.parametrize("seed", SEEDS)
    def test_those_that_could_not_be_scored_keep_their_place(self, seed, cache, tmp_path):
        run, texts, _, scores = random_case(seed)
        found = written(
            rerank(run, texts, cache, ByLength(scores.__getitem__), changed(SPEC, depth=50)), tmp_path / "x"
        )
        for query, hits in run.items():
            for place, name in enumerate(list(hits)[:50]):
                if math.isnan(scores[Pair(query, texts[name])]):
                    assert list(found[query])[place] == name
                    assert trec_order(found[query])[place] == name

    def test_by_hand(self, cache):
        texts = {"a": "1", "b": "333", "c": "22", "d": "55555", "e": "4444"}
        run = {"q": {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0, "e": 5.0}}
        assert rerank(run, texts, cache) == {"q": {"b": 3.0, "c": 2.0, "a": 1.0, "d": 0.0, "e": -1.0}}
        assert list(rerank(run, texts, cache)["q"]) == ["b", "c", "a", "d", "e"]

    def test_only_those_that_were_scored_are_kept_where_one_says_so(self, cache):
        texts = {"a": "1", "b": "333", "c": "22"}
        run = {"q": {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0}}
        assert rerank(run, texts, cache, spec=changed(SPEC, keep=RERANKED)) == {"q": {"b": 3.0, "c": 2.0, "a": 1.0}}
        assert SPEC.keep == ALL

    def test_equal_scores_by_id(self, cache):
        run = {"q": {"b": 3.0, "c": 2.0, "a": 1.0}}
        assert list(rerank(run, dict.fromkeys("abc", "same"), cache)["q"]) == ["a", "b", "c"]

    def test_a_query_without_hits_has_none(self, cache):
        run = {"q1": {}, "q2": {"a": 1.0}, "q3": {}}
        assert rerank(run, {"a": "x"}, cache) == {"q1": {}, "q2": {"a": 1.0}, "q3": {}}
        assert rerank({}, {}, cache) == {}

    def test_one_that_could_not_be_scored(self, cache):
        """Its place is the second, wherever the others go; scores fall evenly from the best to the worst."""
        texts = {"a": "1", "b": "?", "c": "22", "d": "7777777", "e": "x"}
        run = {"q": {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0, "e": 5.0}}
        scorer = ByLength(lambda pair: math.nan if pair.document == "?" else float(len(pair.document)))
        found = rerank(run, texts, cache, scorer, changed(SPEC, depth=4))
        assert list(found["q"]) == ["d", "b", "c", "a", "e"]
        assert list(found["q"].values()) == [7.0, 5.5, 4.0, 2.5, 1.5]

    def test_one_among_others_of_almost_the_same_score(self, cache, tmp_path):
        """trec_eval, which compares single-precision numbers, is to read the order that is meant."""
        names = [f"d{number:02}" for number in range(50)]
        rank = {name: float(np.float32(7 + place * 1e-7)) for place, name in enumerate(names)} | {"d17": math.nan}
        scorer = ByLength(lambda pair: rank[pair.document])
        run = {"q": dict.fromkeys(names, 1.0)}
        found = written(
            rerank(run, {name: name for name in names}, cache, scorer, changed(SPEC, depth=50)), tmp_path / "x"
        )
        assert trec_order(found["q"]) == list(found["q"])
        assert list(found["q"])[17] == "d17"

    def test_if_none_could_be_scored_the_order_is_the_old_one(self, cache):
        run = {"q": {"c": 9.0, "b": 8.0, "a": 7.0}}
        found = rerank(run, dict.fromkeys("abc", "x"), cache, ByLength(lambda pair: math.nan), changed(SPEC, depth=2))
        assert list(found["q"].items()) == [("c", 1.0), ("b", 0.5), ("a", -0.5)]


def as_ranked(run: Run) -> Run:
    """The run with scores that have no ties, so that evaluation reads it in the order of the file."""
    return {query: {name: -float(place) for place, name in enumerate(hits)} for query, hits in run.items()}


# which pairs are scored


class TestPairs:
    RUN = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"c": 3.0, "a": 2.0, "d": 1.0}}  # noqa: RUF012
    TEXTS = {"a": "x", "b": "x", "c": "yy", "d": "zzz!"}  # noqa: RUF012

    def test_equal_texts_are_scored_once(self, cache):
        scorer, notes, told = ByLength(), Notes(), []
        topics = {"q1": "same", "q2": "same"}
        found = rerank(self.RUN, self.TEXTS, cache, scorer, topics=topics, notes=notes, advance=told.append)
        assert scorer.asked == [Pair("same", "x"), Pair("same", "yy"), Pair("same", "zzz!")]
        assert found == {"q1": {"c": 2.0, "a": 1.0, "b": 1.0}, "q2": {"d": 4.0, "c": 2.0, "a": 1.0}}
        assert sum(told) == 6  # as many as a user sees
        assert (notes.pairs, notes.cut, notes.failed) == (3, 1, 0)

    def test_texts_below_the_depth_are_not_wanted(self, cache):
        scorer = ByLength()
        rerank(self.RUN, {"a": "x", "c": "yy"}, cache, scorer, changed(SPEC, depth=1))
        assert scorer.asked == [Pair("q1", "x"), Pair("q2", "yy")]

    def test_documents_are_not_parted_from_queries_by_their_texts_alone(self, cache):
        """The pair ("a", "bc") is not the pair ("ab", "c")."""
        run, topics, texts = {"1": {"x": 1.0}, "2": {"y": 1.0}}, {"1": "a", "2": "ab"}, {"x": "bc", "y": "c"}
        scorer = ByLength()
        rerank(run, texts, cache, scorer, topics=topics)
        assert len(scorer.asked) == 2

    def test_what_is_known_is_not_scored_again(self, cache):
        first, second, told = ByLength(), ByLength(), []
        usual = rerank(self.RUN, self.TEXTS, cache, first)
        assert rerank(self.RUN, self.TEXTS, cache, second, notes=(notes := Notes()), advance=told.append) == usual
        assert (len(first.asked), second.calls, sum(told)) == (5, [], 6)
        assert (notes.pairs, notes.cut) == (5, 1)  # what was cut is known too

    def test_another_condition_scores_what_is_new_to_it(self, cache):
        rerank(self.RUN, self.TEXTS, cache)
        scorer = ByLength()
        rerank({"q1": {"d": 2.0, "a": 1.0}, "q3": {"a": 1.0}}, self.TEXTS, cache, scorer)
        assert scorer.asked == [Pair("q1", "zzz!"), Pair("q3", "x")]
        assert scorer.told == [1]  # how many of the others have scores

    def test_scores_come_back_as_they_were(self, cache):
        chance = random.Random(1)
        texts = {f"d{number}": f"text {number}" for number in range(300)}
        run = {"q": dict.fromkeys(texts, 1.0)}
        values = {Pair("q", text): chance.gauss(0, 1) * 10 ** chance.randint(-9, 9) for text in texts.values()}
        values[Pair("q", "text 0")] = 0.1 + 0.2
        spec = changed(SPEC, depth=300)
        usual = rerank(run, texts, cache, ByLength(values.__getitem__), spec)
        again = rerank(run, texts, cache, ByLength(lambda pair: pytest.fail("scored again")), spec)
        assert again == usual == {"q": {name: values[Pair("q", text)] for name, text in texts.items()}}

    def test_what_could_not_be_scored_is_tried_again(self, cache):
        failing = ByLength(lambda pair: math.nan if "x" in pair.document else 1.0)
        rerank(self.RUN, self.TEXTS, cache, failing, notes=(first := Notes()))
        scorer = ByLength()
        rerank(self.RUN, self.TEXTS, cache, scorer, notes=(second := Notes()))
        assert set(scorer.asked) == {Pair("q1", "x"), Pair("q2", "x")}
        assert (first.failed, second.failed) == (2, 0)


class TestInterruption:
    RUN = {f"q{number}": {f"d{place}": float(-place) for place in range(20)} for number in range(5)}  # noqa: RUF012
    TEXTS = {f"d{place}": f"text {place}" for place in range(20)}  # noqa: RUF012
    WHOLE = changed(SPEC, depth=20)

    def test_what_was_scored_until_then_is_kept(self, cache, monkeypatch):
        monkeypatch.setattr(pipeline, "AT_ONCE", 16)
        broken, rest, told = ByLength(breaks_at=3), ByLength(), []
        with pytest.raises(KeyboardInterrupt):
            rerank(self.RUN, self.TEXTS, cache, broken, self.WHOLE)
        usual = rerank(self.RUN, self.TEXTS, cache, rest, self.WHOLE, advance=told.append)
        assert [len(call) for call in (*broken.calls, *rest.calls)] == [16, 16, 16, 16, 16, 16, 4]
        assert len({*broken.asked, *rest.asked}) == 100
        assert (rest.told, sum(told)) == ([48, 64, 80, 96], 100)
        other = ScoreCache(cache._path.with_name("other"), {})
        assert rerank(self.RUN, self.TEXTS, other, ByLength(), self.WHOLE) == usual

    def test_nothing_is_told_to_be_scored_that_is_not(self, cache, monkeypatch):
        monkeypatch.setattr(pipeline, "AT_ONCE", 16)
        told = []
        with pytest.raises(KeyboardInterrupt):
            rerank(self.RUN, self.TEXTS, cache, ByLength(breaks_at=2), self.WHOLE, advance=told.append)
        assert sum(told) == 32


# what a score depends on


@pytest.fixture
def hub(tmp_path):
    with tiny_rerankers.hub_cache(tmp_path / "hub"):
        yield


class TestReuse:
    """As `composite_stages` makes the cache of a reranker."""

    NAME = "ms-marco-minilm-l-6"
    RUN = {"q": {"a": 2.0, "b": 1.0}}  # noqa: RUF012
    TEXTS = {"a": "A cough with rusty sputum.", "b": "fever " * 400}  # noqa: RUF012

    def scored(self, tmp_path: Path, windows: bool = False, dtype: str = "auto", **changes) -> tuple[Run, int]:
        """The run, and how many pairs were scored for it."""
        reranker = tiny_rerankers.make(self.NAME, **changes)
        scorer = LocalScorer(reranker, Settings(dtype=dtype), windows)
        kept = {"reranker": reranker.recipe("biology"), "precision": scorer.precision, "windows": windows}
        counted = ByLength()
        counted.score, whole = (
            lambda pairs, *more: counted.calls.append(list(pairs)) or whole(pairs, *more),
            scorer.score,
        )
        cache = ScoreCache(tmp_path / "scores.sqlite", kept)
        return rerank(self.RUN, self.TEXTS, cache, counted), len(counted.asked)

    def test_the_same_again_scores_nothing(self, hub, tmp_path):
        first, second = self.scored(tmp_path), self.scored(tmp_path)
        assert (first[1], second[1]) == (2, 0)
        assert first[0] == second[0]

    @pytest.mark.parametrize(
        "changes",
        [
            {"max_length": 300},
            {"query_length": 1},
            {"revision": "f" * 40},
            {"dtype": "bfloat16"},
            {"windows": True},
            {"query": "query: {query}"},
            {"truncation": "passage-first"},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_another_way_of_scoring_scores_anew(self, hub, tmp_path, changes):
        if "revision" in changes:
            tiny_rerankers.make(self.NAME, **changes)
        self.scored(tmp_path)
        assert self.scored(tmp_path, **changes)[1] == 2
        assert self.scored(tmp_path, **changes)[1] == 0
        assert self.scored(tmp_path)[1] == 0

    def test_the_precision_that_is_meant_by_default_is_the_same(self, hub, tmp_path):
        self.scored(tmp_path)
        assert self.scored(tmp_path, dtype="float32")[1] == 0


def test_the_number_of_threads_changes_no_byte(hub, tmp_path):
    chance = random.Random(3)
    words = ["fever", "drug", "heart", "cough", "vitamin", "liver", "pain"]
    texts = {f"d{number}": " ".join(chance.choices(words, k=chance.randint(0, 60))) for number in range(80)}
    run = {f"q{number}": dict.fromkeys(chance.sample(sorted(texts), 30), 1.0) for number in range(6)}
    topics = {query: " ".join(chance.choices(words, k=4)) for query in run}
    reranker, files = tiny_rerankers.make("ms-marco-minilm-l-6"), []
    for threads in (1, 2, 5):
        scorer = LocalScorer(reranker, Settings(threads=threads))
        cache = ScoreCache(tmp_path / f"{threads}.sqlite", {})
        found = pipeline.rerank(
            run, topics, texts, changed(SPEC, depth=25), scorer, cache, "biology", Notes(), lambda number: None
        )
        files.append(tmp_path / f"{threads}.txt")
        trec.write_run(files[-1], found, "x", trec.EXACT_SCORE)
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()


# what a user is told


class TestNotes:
    def test_nothing_is_told_if_all_is_well(self):
        assert Notes(pairs=5).sentences() == []

    def test_what_was_cut_and_what_failed(self, cache):
        scorer = ByLength(lambda pair: math.nan if "x" in pair.document else 1.0, why="HTTP 500")
        texts, notes = {"a": "x", "b": "y!", "c": "z!", "d": "w"}, Notes()
        rerank({"q": dict.fromkeys("abcd", 1.0)}, texts, cache, scorer, changed(SPEC, depth=4), notes=notes)
        assert notes.sentences() == [
            "2 of 4 pairs cut at the reranker's length",
            "1 of 4 pairs could not be scored (HTTP 500): their documents keep their place",
        ]

    def test_the_first_reason_is_told(self, cache, monkeypatch):
        monkeypatch.setattr(pipeline, "AT_ONCE", 1)
        scorer, notes = ByLength(), Notes()
        reasons = iter(["first", "second"])
        scorer.score = lambda *_: Scored([math.nan], [False], {0: next(reasons)})
        rerank({"q": {"a": 2.0, "b": 1.0}}, {"a": "x", "b": "y"}, cache, scorer, notes=notes)
        assert notes.sentences() == ["2 of 2 pairs could not be scored (first): their documents keep their place"]

    def test_large_numbers_have_their_commas(self):
        assert Notes(pairs=87_600, cut=12_345).sentences() == ["12,345 of 87,600 pairs cut at the reranker's length"]

    def test_what_a_failing_scorer_says_is_passed_on(self, cache):
        scorer = ByLength()

        def refuse(*_) -> Scored:
            raise R2medError("no such server")

        scorer.score = refuse
        with pytest.raises(R2medError, match="no such server"):
            rerank({"q": {"a": 1.0}}, {"a": "x"}, cache, scorer)


# lists


@dataclass
class Backwards:
    """A ranker that turns lists round."""

    precision: str = "any"
    asked: list = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    def rank_all(self, lists, dataset, cache=None, advance=lambda documents: None) -> list[Ranking]:
        self.asked += lists
        for _, documents in lists:
            advance(len(documents))
        return [Ranking(list(range(len(documents)))[::-1], self.counts) for _, documents in lists]

    def rank(self, query, documents, dataset, cache=None) -> Ranking:
        return self.rank_all([(query, documents)], dataset, cache)[0]


class TestLists:
    RUN = {"q1": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}, "q2": {}, "q3": {"d": 1.0}}  # noqa: RUF012
    TEXTS = {"a": "1", "b": "2", "c": "3", "d": "4"}  # noqa: RUF012

    def ranked(self, cache, ranker, spec: RerankSpec = SPEC, notes: Notes | None = None, told=lambda number: None):
        topics = {"q1": "first", "q2": "second", "q3": "third"}
        how = (spec, ranker, cache, "any", notes or Notes(), told)
        return list(pipeline.rerank_lists(self.RUN, topics, self.TEXTS, *how))

    def test_a_score_says_how_many_stand_behind(self, cache):
        told, ranker = [], Backwards()
        assert isinstance(ranker, base.Ranker)
        assert self.ranked(cache, ranker, told=told.append) == [
            ("q1", ["c", "b", "a", "d"], [3.0, 2.0, 1.0, 0.0]),
            ("q2", [], []),
            ("q3", ["d"], [1.0]),
        ]
        assert ranker.asked == [("first", ["1", "2", "3"]), ("second", []), ("third", ["4"])]
        assert sum(told) == 4

    def test_only_those_that_were_ranked_are_kept_where_one_says_so(self, cache):
        found = self.ranked(cache, Backwards(), changed(SPEC, keep=RERANKED))
        assert found[0] == ("q1", ["c", "b", "a"], [3.0, 2.0, 1.0])

    def test_what_became_of_the_windows_is_told_in_sum(self, cache):
        notes, counts = Notes(), Counts(windows=2, sent=2, repaired=1)
        self.ranked(cache, Backwards(counts=counts), notes=notes)
        assert notes.sentences() == Counts(windows=6, sent=6, repaired=3).sentences()
        assert "3 of 6" in notes.sentences()[0]
