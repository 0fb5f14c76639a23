import math
import random
import struct

import pytest

from r2med_pyserini.errors import BadInput, UsageError
from r2med_pyserini.evaluation import HEADLINE, MEASURES, evaluate, kept, nothing_judged, trec_eval_name


def single(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def in_trec_evals_order(documents: dict[str, float]) -> list[str]:
    """Scores are single-precision, best first; ties by id as bytes, descending."""
    return sorted(documents, key=lambda document: (single(documents[document]), document.encode()), reverse=True)


def dcg(gains: list[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def oracle(measure: str, judged: dict[str, int], documents: dict[str, float]) -> float:
    stem, _, cutoff = measure.partition("@")
    k = int(cutoff or 10**9)
    gains = [max(judged.get(document, 0), 0) for document in in_trec_evals_order(documents)][:k]
    ideal = sorted((grade for grade in judged.values() if grade > 0), reverse=True)
    hits = [gain > 0 for gain in gains]
    match stem:
        case "nDCG":
            return dcg(gains) / dcg(ideal[:k]) if ideal else 0.0
        case "R":
            return sum(hits) / len(ideal) if ideal else 0.0
        case "P":
            return sum(hits) / k
        case "MAP":
            found = [sum(hits[:rank]) / rank for rank, hit in enumerate(hits, 1) if hit]
            return sum(found) / len(ideal) if ideal else 0.0
        case "MRR":
            return next((1 / rank for rank, hit in enumerate(hits, 1) if hit), 0.0)


class TestByHand:
    def test_a_judged_query_that_the_run_lacks_counts_0(self):
        scores = evaluate({"q1": {"d2": 1}, "q2": {"d9": 2}}, {"q1": {"d1": 2.0, "d2": 1.0}})
        assert round(scores.mean["nDCG@10"], 4) == 0.3155
        assert (scores.evaluated, scores.judged) == (1, 2)
        assert scores.queries["q2"] == dict.fromkeys(MEASURES, 0.0)

    def test_a_query_with_no_hits_counts_0_and_as_not_evaluated(self):
        scores = evaluate({"q1": {"d1": 1}, "q2": {"d1": 1}}, {"q1": {"d1": 1.0}, "q2": {}})
        assert (scores.mean["MRR"], scores.evaluated, scores.judged) == (0.5, 1, 2)

    def test_a_query_without_judgements_does_not_count(self):
        scores = evaluate({"q1": {"d1": 1}}, {"q1": {"d1": 1.0}, "q9": {"d9": 1.0}})
        assert (list(scores.queries), scores.mean["MRR"], scores.judged) == (["q1"], 1.0, 1)

    @pytest.mark.parametrize("judged", [{"d1": 0}, {"d1": -1}])
    def test_a_query_with_nothing_relevant_counts_0(self, judged):
        scores = evaluate({"q1": {"d1": 1}, "q2": judged}, {"q1": {"d1": 1.0}, "q2": {"d1": 1.0}})
        assert (scores.mean["nDCG@10"], scores.evaluated) == (0.5, 2)

    @pytest.mark.parametrize(
        ("relevant", "other", "rank"),
        [("10", "9", 2), ("9", "10", 1), ("b", "a", 1), ("a", "b", 2), ("a", "B", 1), ("é", "z", 1), ("d1", "d10", 2)],
    )
    def test_ties_go_by_document_id_descending_as_bytes(self, relevant, other, rank):
        run = {relevant: 1.0, other: 1.0}
        assert evaluate({"q1": {relevant: 1}}, {"q1": run}).mean["MRR"] == 1 / rank

    def test_negative_relevance_counts_as_not_relevant(self):
        scores = evaluate({"q1": {"d1": -2, "d2": 1}}, {"q1": {"d1": 2.0, "d2": 1.0}})
        expected = {"nDCG@10": 1 / math.log2(3), "MRR": 0.5, "R@10": 1.0, "P@10": 0.1, "MAP@100": 0.5}
        assert {measure: scores.mean[measure] for measure in expected} == pytest.approx(expected)

    def test_gains_of_ndcg_are_the_grades_themselves(self):
        scores = evaluate({"q1": {"a": 3, "b": 1, "c": 2}}, {"q1": {"a": 1.0, "b": 3.0, "c": 2.0}})
        ours, ideal = 1 + 2 / math.log2(3) + 3 / 2, 3 + 2 / math.log2(3) + 1 / 2
        assert scores.mean["nDCG@10"] == pytest.approx(ours / ideal)

    def test_the_ideal_of_ndcg_ends_at_the_cutoff_too(self):
        judged = {f"d{number}": 1 for number in range(5)}
        assert evaluate({"q": judged}, {"q": {"d0": 1.0}}, ("nDCG@1", "R@1")).mean == {"nDCG@1": 1.0, "R@1": 0.2}

    def test_the_rank_of_a_document_in_the_run_does_not_matter(self):
        worse_first = {"q": {"d1": 1.0, "d2": 2.0}}
        assert evaluate({"q": {"d2": 1}}, worse_first).mean["MRR"] == 1.0

    @pytest.mark.parametrize(("difference", "rank"), [(1e-6, 2), (1e-5, 2), (1e-4, 1)])
    def test_scores_in_the_hundreds_are_compared_in_single_precision(self, difference, rank):
        run = {"a": 345.0 + difference, "b": 345.0}
        assert evaluate({"q": {"a": 1}}, {"q": run}).mean["MRR"] == 1 / rank

    def test_scores_near_1_that_differ_in_the_last_written_digit_are_no_ties(self):
        assert evaluate({"q": {"a": 1}}, {"q": {"a": 1.000001, "b": 1.0}}).mean["MRR"] == 1.0


class TestAgainstAnOracle:
    EVERY = (*MEASURES, "nDCG@1", "nDCG@3", "nDCG", "R@1", "R@4", "P@1", "P@7", "MAP@2", "MAP")

    @staticmethod
    def judgements(chance: random.Random) -> dict[str, dict[str, int]]:
        return {
            f"q{number}": {f"d{chance.randrange(30)}": chance.choice((-1, 0, 0, 1, 1, 2, 3)) for _ in range(8)}
            for number in range(6)
        }

    @staticmethod
    def hits(chance: random.Random) -> dict[str, float]:
        documents = chance.sample([f"d{number}" for number in range(40)], chance.randrange(1, 40))
        return {document: chance.choice((chance.uniform(0, 20), float(chance.randrange(5)))) for document in documents}

    @pytest.mark.parametrize("seed", range(40))
    def test_random_runs_score_as_the_formulas_say(self, seed):
        chance = random.Random(seed)
        qrels = self.judgements(chance)
        run = {query: self.hits(chance) for query in ("q9", *qrels) if query in ("q0", "q9") or chance.random() < 0.8}
        scores = evaluate(qrels, run, self.EVERY)
        expected = {
            query: {measure: oracle(measure, judged, run.get(query, {})) for measure in self.EVERY}
            for query, judged in qrels.items()
        }
        assert list(scores.queries) == list(qrels)
        for query, values in expected.items():
            assert scores.queries[query] == pytest.approx(values, abs=1e-9), query
        means = {m: sum(values[m] for values in expected.values()) / len(qrels) for m in self.EVERY}
        assert scores.mean == pytest.approx(means, abs=1e-9)

    def test_ties_at_the_cutoff_are_cut_as_trec_eval_orders_them(self):
        judged = {f"d{number}": 1 for number in range(0, 20, 2)}
        run = {f"d{number}": 1.0 for number in range(20)}
        # descending as strings: d9 d8 d7 d6 d5 d4 d3 d2 d19 d18
        assert evaluate({"q": judged}, {"q": run}, ("P@10",)).mean == {"P@10": 0.5}
        assert evaluate({"q": judged}, {"q": run}, ("P@3",)).mean == {"P@3": pytest.approx(1 / 3)}


class TestMeasures:
    @pytest.mark.parametrize(
        ("measure", "name"),
        [
            ("nDCG@10", "ndcg_cut.10"),
            ("NDCG@10", "ndcg_cut.10"),
            ("ndcg@5", "ndcg_cut.5"),
            ("r@100", "recall.100"),
            ("p@1", "P.1"),
            ("map@100", "map_cut.100"),
            ("Map", "map"),
            ("mrr", "recip_rank"),
            ("ndcg", "ndcg"),
        ],
    )
    def test_measures_are_known_in_any_case(self, measure, name):
        assert trec_eval_name(measure) == name

    @pytest.mark.parametrize(
        "measure",
        ["", "@", "@10", "nDCG@", "nDCG@0", "nDCG@-1", "nDCG@010", "nDCG@ten", "nDCG@1.5", "nDCG@10@5", "MRR@10",
         "ERR@10", "recall@10", "P", "R", "nDCG @10", "nDCG@1000000", "nDCG@１０"],
    )  # fmt: skip
    def test_unknown_measures_are_a_usage_error(self, measure):
        with pytest.raises(UsageError) as caught:
            evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, ("MRR", measure))
        assert f"no measure {measure!r}" in str(caught.value)
        assert "nDCG@k, R@k, P@k, MAP@k, nDCG, MAP, MRR" in str(caught.value)

    @pytest.mark.parametrize(
        ("measure", "near"),
        [
            ("MRR@10", "R@10"),
            ("R1000", "R@1000"),
            ("nDGC@10", "nDCG@10"),
            ("NDCG10", "nDCG@10"),
            ("MMR", "MRR"),
        ],
    )
    def test_a_misspelt_measure_is_recognised(self, measure, near):
        with pytest.raises(UsageError, match=f"did you mean '{near}'"):
            trec_eval_name(measure)

    def test_scores_carry_the_names_that_were_asked_for(self):
        scores = evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, ("ndcg@10", "mrr"))
        assert scores.mean == {"ndcg@10": 1.0, "mrr": 1.0}
        assert scores.queries == {"q": scores.mean}

    def test_the_headline_is_among_the_measures(self):
        assert HEADLINE == MEASURES[0] == "nDCG@10"

    @pytest.mark.parametrize(
        ("hits", "measures"),
        [
            (1_000_000, MEASURES),
            (1000, MEASURES),
            (999, tuple(measure for measure in MEASURES if measure != "R@1000")),
            (100, ("nDCG@10", "nDCG@100", "R@10", "R@100", "MAP@100", "MRR", "P@10")),
            (99, ("nDCG@10", "R@10", "MRR", "P@10")),
            (10, ("nDCG@10", "R@10", "MRR", "P@10")),
            (9, ("MRR",)),
            (1, ("MRR",)),
        ],
    )
    def test_a_run_tells_no_measure_that_looks_deeper_than_it_does(self, hits, measures):
        assert kept(hits) == measures


class TestMismatch:
    @pytest.mark.parametrize("run", [{"x1": {"d1": 1.0}}, {"Q1": {"d1": 1.0}}, {"x1": {"d1": 1.0}, "q1": {}}])
    def test_no_query_in_common_is_refused(self, run):
        with pytest.raises(BadInput, match="share no query"):
            evaluate({"q1": {"d1": 1}}, run)

    @pytest.mark.parametrize("run", [{}, {"q1": {}}, {"x1": {}}])
    def test_a_run_without_any_hit_scores_0(self, run):
        scores = evaluate({"q1": {"d1": 1}, "q2": {"d1": 0}}, run)
        assert (scores.judged, scores.evaluated) == (2, 0)
        assert scores.mean == dict.fromkeys(MEASURES, 0.0)
        assert scores.queries == {"q1": scores.mean, "q2": scores.mean}

    def test_the_message_shows_a_query_of_each(self):
        with pytest.raises(BadInput, match="the run has 'x1', the qrels 'q1'"):
            evaluate({"q1": {"d1": 1}, "q2": {"d1": 1}}, {"x1": {"d1": 1.0}})

    @pytest.mark.parametrize(
        ("run", "nothing"),
        [
            ({"q1": {"d8": 1.0}, "q2": {"d9": 1.0}}, True),
            ({"q1": {"d2": 1.0}, "q2": {"d1": 1.0}}, True),
            ({"q9": {"d1": 1.0}}, True),
            ({}, True),
            ({"q1": {"d8": 1.0, "d1": 0.5}}, False),
            ({"q1": {"d8": 1.0}, "q2": {"d2": 1.0}}, False),
        ],
    )
    def test_nothing_judged_tells_a_run_of_other_documents(self, run, nothing):
        assert nothing_judged({"q1": {"d1": 1}, "q2": {"d2": 0}}, run) is nothing
