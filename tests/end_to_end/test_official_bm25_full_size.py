"""The authors' BM25 at the size of R2MED's Biology: 57,359 documents, some of them empty, and 103 queries."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from r2med_pyserini import jvm, lucene
from r2med_pyserini.paths import Workspace

from .helpers import rows, succeed, write_random_dataset
from .test_official_bm25 import K1, TOP, B, agree, analyzer, in_run  # noqa: F401 - analyzer is a fixture

DOCUMENTS, QUERIES = 57_359, 103


@pytest.fixture(scope="module")
def tokens(tmp_path_factory, analyzer):  # noqa: F811
    """The dataset's folder, and the tokens of its documents and queries."""
    folder = tmp_path_factory.mktemp("full") / "biology"
    write_random_dataset(
        folder, seed=11, documents=DOCUMENTS, words=30_000, longest=162, queries=QUERIES, empty=330 / DOCUMENTS
    )

    def analyze(name: str) -> dict[str, list[str]]:
        with jvm.JAVA:
            return {row["id"]: lucene.analyze(analyzer, row["text"]) for row in rows(folder / name)}

    return folder, analyze("corpus.jsonl"), analyze("query.jsonl")


def authors_scores(documents: dict[str, list[str]], queries: dict[str, list[str]]):
    """Query -> document -> score, in double precision; as docs/bm25-official.md gives the formula."""
    lengths = np.array([len(words) for words in documents.values()])
    mean = lengths.sum() / len(documents)
    norm = K1 * (1 - B + B * lengths / mean)
    asked = {word for words in queries.values() for word in words}
    postings: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    known: set[str] = set()
    for place, words in enumerate(documents.values()):
        known.update(words)
        for word, count in Counter(words).items():
            if word in asked:
                postings[word][0].append(place)
                postings[word][1].append(count)
    for query, words in queries.items():
        words = [word for word in words if word in known]
        scores = np.zeros(len(documents))
        for word, count in Counter(words).items():
            places, counts = map(np.array, postings[word])
            idf = math.log(len(documents) + 1) - math.log(len(places) + 0.5)
            weight = idf * count / (count + K1 * (1 - B + B * len(words) / mean))
            scores[places] += weight * idf * counts / (counts + norm[places])
        yield query, dict(zip(documents, scores.tolist(), strict=True))


@pytest.mark.slow
def test_a_run_of_full_size_is_the_authors_ranking_with_the_authors_scores(tokens, tmp_path_factory):
    folder, documents, queries = tokens
    workspace = Workspace(tmp_path_factory.mktemp("workspace"))
    succeed(workspace, "run", "bm25-official", "--suite", folder)
    found = in_run(workspace, "biology", "biology", "bm25-official")
    assert len(documents) == DOCUMENTS and any(not words for words in documents.values())
    assert sum(len(hits) == TOP for hits in found.values()) > QUERIES / 2
    for query, scores in authors_scores(documents, queries):
        agree(found.get(query, []), scores)
