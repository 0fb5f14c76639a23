"""How the queries of bm25-official are put together; what they find is held against NumPy in end_to_end/."""

from collections import Counter
from types import SimpleNamespace

import pytest

from r2med_pyserini import official_bm25

FREQUENCIES = {"fever": 3, "cough": 2, "rash": 1}


class Builder(list):
    def add(self, clause, occur):
        assert occur == "should"
        self.append(clause)

    def build(self):
        return list(self)


JAVA = {
    "org.apache.lucene.index.Term": lambda field, text: (field, text),
    "org.apache.lucene.search.TermQuery": lambda term: ("query of", term),
    "org.apache.lucene.search.BoostQuery": lambda query, boost: (query[1][1], boost),
    "org.apache.lucene.search.BooleanClause$Occur": SimpleNamespace(SHOULD="should"),
    "org.apache.lucene.search.BooleanQuery$Builder": Builder,
}


@pytest.fixture
def asked() -> Counter:
    """How often the index was asked for a token."""
    return Counter()


@pytest.fixture
def model(monkeypatch, asked):
    monkeypatch.setattr(official_bm25, "java_class", JAVA.__getitem__)

    def frequency(term):
        asked[term[1]] += 1
        return FREQUENCIES.get(term[1], 0)

    statistics = SimpleNamespace(docCount=lambda: 9, sumTotalTermFreq=lambda: 50)
    reader, searcher = SimpleNamespace(docFreq=frequency), SimpleNamespace(collectionStatistics=lambda _: statistics)
    return official_bm25.OfficialBM25(reader, searcher, 0.9, 0.4, documents=10)


def test_the_index_is_asked_once_for_a_token(model, asked):
    for _ in range(3):
        model.query(["fever", "fever", "cough", "unseen", "fever"])
    model.query(["rash", "cough", "unseen"])
    assert asked == dict.fromkeys(["fever", "cough", "unseen", "rash"], 1)


def test_a_query_does_not_depend_on_those_before_it(model):
    tokens = ["fever", "cough", "fever", "unseen"]
    first = model.query(tokens)
    model.query(["cough", "rash", "rash"])
    assert model.query(tokens) == first
    assert [token for token, _ in first] == ["fever", "cough"]
    assert first[0][1] > 0


def test_a_query_without_a_known_word_has_no_clause(model):
    assert model.query(["unseen"]) == model.query([]) == []
