"""The authors' BM25 out of a Lucene index, held against a second implementation in NumPy, and known scores."""

import json
import os
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import jvm, lucene
from r2med_pyserini.paths import MINI, Workspace
from r2med_pyserini.suites import load_suite

from .helpers import hits, r2med_in, rows, succeed, write_dataset, write_random_dataset

K1, B, TOP = 0.9, 0.4, 100
SAME = 1e-6  # relative difference of single-precision scores
ROUNDED = 2e-4  # Anserini rounds scores to four decimals and tells equal ones apart below that
MINI_DATASETS = [dataset.slug for dataset in load_suite("mini", Workspace(Path())).datasets]
MADE = ("edges", "random")
EVERYWHERE = [("mini", slug) for slug in MINI_DATASETS] + [("made", slug) for slug in MADE]

EDGE_DOCUMENTS = {
    "empty": "",
    "blank": " \n\t",
    "stops": "the of and to it is in the",
    "one": "Fever",
    "short": "Fever and cough",
    "twice": "fever fever cough with rash, and a fever again",
    "long": " ".join(f"fever and symptom{number % 7} on day{number}" for number in range(300)),
    "twin1": "A rash on both arms",
    "twin2": "A rash on both arms",
    "other": "Numbness of the left hand",
}
EDGE_QUERIES = {
    "plain": "fever and cough",
    "repeated": "fever fever fever rash cough cough",
    "unseen": "xylophone fever quetzal rash zeppelin",
    "unseen only": "xylophone quetzal",
    "stops": "is it of the and",
    "stops among others": "the rash of the hand is numbness",
    "common and rare": "fever day17 symptom3 symptom3",
}


class AuthorsBM25:
    """Document and query as vectors of BM25 weights; the score is their dot product."""

    def __init__(self, documents: list[list[str]]):
        self.terms = {term: place for place, term in enumerate(sorted({t for tokens in documents for t in tokens}))}
        frequencies = np.stack([self._count(tokens) for tokens in documents])
        lengths = np.array([len(tokens) for tokens in documents])
        self.mean_length = lengths.sum() / len(documents)
        self.idf = np.log(len(documents) + 1) - np.log((frequencies > 0).sum(axis=0) + 0.5)
        self.documents = self._weights(frequencies, lengths[:, None])

    def _count(self, tokens: list[str]) -> np.ndarray:
        counts = np.zeros(len(self.terms))
        for term, count in Counter(tokens).items():
            counts[self.terms[term]] = count
        return counts

    def _weights(self, frequencies: np.ndarray, length) -> np.ndarray:
        return self.idf * frequencies / (frequencies + K1 * (1 - B + B * length / self.mean_length))

    def scores(self, query: list[str]) -> np.ndarray:
        known = [token for token in query if token in self.terms]
        return self.documents @ self._weights(self._count(known), len(known))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Workspace, Path]:
    """A workspace with bm25-official and bm25qs on two made-up datasets, and the folder of these."""
    folder = tmp_path_factory.mktemp("suites") / "made"
    queries = {key.replace(" ", "-"): text for key, text in EDGE_QUERIES.items()}
    write_dataset(folder / "edges", EDGE_DOCUMENTS, queries, [(query, "short") for query in queries])
    write_random_dataset(folder / "random", seed=5, documents=3000, words=4000, longest=400, queries=40, empty=0.05)
    workspace = Workspace(tmp_path_factory.mktemp("made"))
    succeed(workspace, "run", "bm25-official", "bm25qs", "--suite", folder)
    return workspace, folder


@pytest.fixture(scope="module")
def analyzer():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))  # starting the JVM sets it, for later tests too
        with jvm.JAVA:
            made = jvm.java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
        yield made


@pytest.fixture(scope="module")
def dataset(lexical_mini, made, analyzer):
    """Workspace of a dataset, and the scores that NumPy gives every document: query -> document -> score."""

    def tokens(path: Path) -> dict[str, list[str]]:
        with jvm.JAVA:
            return {row["id"]: lucene.analyze(analyzer, row["text"]) for row in rows(path)}

    @cache
    def get(suite: str, slug: str) -> tuple[Workspace, dict[str, dict[str, float]]]:
        workspace, raw = (lexical_mini, MINI / slug) if suite == "mini" else (made[0], made[1] / slug)
        documents, queries = tokens(raw / "corpus.jsonl"), tokens(raw / "query.jsonl")
        model = AuthorsBM25(list(documents.values()))
        return workspace, {
            query: dict(zip(documents, model.scores(words), strict=True)) for query, words in queries.items()
        }

    return get


def agree(found: list[tuple[str, float]], expected: dict[str, float], absolute: float = 0) -> None:
    """The first hits are the documents of the best positive scores, with these scores, in their order."""
    found = found[:TOP]
    documents = [document for document, _ in found]
    assert len(set(documents)) == len(documents) == min(TOP, sum(score > 0 for score in expected.values()))
    wanted = [expected[document] for document in documents]
    assert [score for _, score in found] == pytest.approx(wanted, rel=SAME, abs=absolute)
    slack = [score * SAME + absolute for score in wanted]
    assert all(low <= high + room for (high, low), room in zip(pairwise(wanted), slack, strict=False))
    left_out = max((score for document, score in expected.items() if document not in set(documents)), default=0)
    assert not wanted or left_out <= wanted[-1] + slack[-1]


def in_run(workspace: Workspace, suite: str, slug: str, condition: str) -> dict[str, list[tuple[str, float]]]:
    return hits(workspace.run(suite, slug, condition))


@pytest.mark.parametrize(("suite", "slug"), EVERYWHERE)
def test_a_run_is_the_authors_ranking_with_the_authors_scores(dataset, suite, slug):
    workspace, expected = dataset(suite, slug)
    found = in_run(workspace, suite, slug, "bm25-official")
    for query, scores in expected.items():
        agree(found.get(query, []), scores)


@pytest.mark.parametrize(("suite", "slug"), EVERYWHERE)
def test_anserinis_approximation_does_not_pass_for_the_authors_bm25(dataset, suite, slug):
    workspace, expected = dataset(suite, slug)
    found = in_run(workspace, suite, slug, "bm25qs")
    with pytest.raises(AssertionError):
        for query, scores in expected.items():
            agree(found.get(query, []), scores, ROUNDED)


def test_the_random_dataset_has_lengths_that_one_byte_does_not_hold(made):
    lengths = {len(row["text"].split()) for row in rows(made[1] / "random" / "corpus.jsonl")}
    assert 0 in lengths
    assert len(lengths) > 256


def test_queries_without_a_known_word_have_no_hits(made):
    found = in_run(made[0], "made", "edges", "bm25-official")
    assert EDGE_QUERIES.keys() - {query.replace("-", " ") for query in found} == {"unseen only", "stops"}


@pytest.mark.parametrize(
    ("condition", "measure", "known"),
    [
        ("bm25", "nDCG@10", 0.66515),
        ("bm25qs", "nDCG@10", 0.65176),
        ("bm25-official", "nDCG@1", 0.73333),
        ("bm25-official", "nDCG@10", 0.64708),
        ("bm25-official", "nDCG@25", 0.62451),
    ],
)
def test_known_scores_on_med(med, med_runs, condition, measure, known):
    run = med_runs.run("med", "med", condition)
    done = r2med_in(med_runs, "eval", run, "--qrels", med / "qrels.jsonl", "--measure", measure, "--format", "json")
    assert round(json.loads(done.out)["mean"][measure], 5) == known
