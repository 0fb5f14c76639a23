import json

import pytest

from r2med_pyserini.evaluation import MEASURES
from r2med_pyserini.report.evaluation import evaluate_run

RUN = "q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n"
QRELS = "q1 0 d2 1\nq2 0 d9 2\n"


@pytest.fixture
def shown(write):
    run, qrels = write("run.txt", RUN), write("qrels.txt", QRELS)

    def show(measures=(), per_query=False, as_json=False):
        text, warning = evaluate_run(run, qrels, measures, per_query, as_json)
        assert warning is None
        return text

    return show


def test_means_and_how_many_queries_they_stand_for(shown):
    assert shown(("nDCG@10", "mrr")).splitlines() == [
        "nDCG@10\tall\t0.3155", "mrr\tall\t0.2500", "1 of 2 judged queries evaluated",
    ]  # fmt: skip


def test_every_query_can_be_shown(shown):
    assert shown(("MRR",), per_query=True).splitlines() == [
        "MRR\tq1\t0.5000", "MRR\tq2\t0.0000", "MRR\tall\t0.2500", "1 of 2 judged queries evaluated",
    ]  # fmt: skip


def test_a_measure_asked_for_twice_is_shown_once(shown):
    assert shown(("MRR", "MRR")).count("MRR") == 1


def test_the_usual_measures_are_shown_if_none_is_asked_for(shown):
    assert [line.split("\t")[0] for line in shown().splitlines()[:-1]] == list(MEASURES)


@pytest.mark.parametrize("per_query", [False, True])
def test_json_is_complete(shown, per_query):
    expected = {"judged": 2, "evaluated": 1, "mean": {"MRR": 0.25}}
    queries = {"queries": {"q1": {"MRR": 0.5}, "q2": {"MRR": 0.0}}} if per_query else {}
    assert json.loads(shown(("MRR",), per_query, as_json=True)) == expected | queries


def test_a_run_without_a_judged_document_is_warned_of(write):
    run, qrels = write("run.txt", "q1 Q0 x 1 2.0 t\n"), write("qrels.txt", QRELS)
    text, warning = evaluate_run(run, qrels, ("MRR",), False, False)
    assert text.startswith("MRR\tall\t0.0000")
    assert "holds no judged document" in warning
