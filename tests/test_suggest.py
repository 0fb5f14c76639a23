import pytest

from r2med_pyserini.suggest import did_you_mean

KNOWN = ("bm25", "bm25-rm3", "qld", "pmc-clinical")


@pytest.mark.parametrize(
    ("word", "near"), [("bm52", "bm25"), ("bm25rm3", "bm25-rm3"), ("QLD", "qld"), ("PMC_Clinical", "pmc-clinical")]
)
def test_a_near_word_is_suggested(word, near):
    assert did_you_mean(word, KNOWN) == f"; did you mean {near!r}?"


@pytest.mark.parametrize("word", ["", "splade", "xyz"])
def test_a_far_word_gets_no_suggestion(word):
    assert did_you_mean(word, KNOWN) == ""


def test_nothing_known_gives_no_suggestion():
    assert did_you_mean("bm25", ()) == ""


@pytest.mark.parametrize(("word", "near"), [("Text", "TEXT"), ("ndcg", "nDCG"), ("MRR", "MRR@10"), ("medqa", "MedQA")])
def test_known_names_may_have_capitals(word, near):
    assert did_you_mean(word, (near, "other")) == f"; did you mean {near!r}?"
