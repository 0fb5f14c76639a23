"""Our impact and dense indexes are indexes that Pyserini searches, and our hits are its hits, scores included."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from r2med_pyserini import impacts, lucene_dense, trec
from r2med_pyserini.javatasks import JavaPool
from r2med_pyserini.specs import LUCENE_FLAT, LUCENE_HNSW, IndexSpec

DOCUMENTS, VECTORS, QUERIES, TERMS = 300, 900, 30, 60  # of fewer than about 700 vectors Lucene makes no graph
EF_SEARCH = 15
HITS = (10, 1000)  # fewer than there are documents, and more
EVERYWHERE = 5  # a term of all documents that are not empty
SPECS = {LUCENE_FLAT: IndexSpec(LUCENE_FLAT), LUCENE_HNSW: IndexSpec(LUCENE_HNSW, m=4, ef_construction=10)}
VOCABULARY = [f"##{number}" for number in range(TERMS - 1)] + ['"日本"']

# Importing Pyserini costs seconds: one process does everything with it.
DRIVER = """
import json, sys
from r2med_pyserini.passthrough import run_module
job = json.load(sys.stdin)
for module, *arguments in job["commands"]:
    run_module(module, tuple(arguments))
from pyserini.index.lucene import LuceneIndexReader
from pyserini.search.lucene import LuceneFlatDenseSearcher, LuceneHnswDenseSearcher, LuceneImpactSearcher

class Given:
    def encode(self, query):
        return job["weights"][query]

def hits(searcher, query, k):
    return [(hit.docid, hit.score) for hit in searcher.search(query, k)]

indexes = job["indexes"]
searchers = {
    "lucene-impact": LuceneImpactSearcher(indexes["lucene-impact"], Given()),
    "lucene-flat": LuceneFlatDenseSearcher(indexes["lucene-flat"]),
    "lucene-hnsw": LuceneHnswDenseSearcher(indexes["lucene-hnsw"], ef_search=job["ef_search"]),
}
found = {
    kind: {
        k: {query: hits(searcher, query if kind == "lucene-impact" else vector, k) for query, vector in job["vectors"].items()}
        for k in job["hits"]
    }
    for kind, searcher in searchers.items()
}
reader = LuceneIndexReader(indexes["lucene-impact"])
frequencies = {term.term: term.df for term in reader.terms()}
print()
print(json.dumps({"found": found, "stats": reader.stats(), "frequencies": frequencies}))
"""  # noqa: E501


@dataclass
class Both:
    """Our indexes by kind, hits by kind, number of hits and query, and what Pyserini says to the same."""

    folder: Path
    counts: np.ndarray
    ours: dict
    theirs: dict
    stats: dict
    frequencies: dict


def sparse(seed: int, rows: int) -> np.ndarray:
    """Few different weights, so that scores tie."""
    chance = np.random.default_rng(seed)
    return np.where(chance.random((rows, TERMS)) < 0.15, chance.integers(1, 4, (rows, TERMS)) / 2, 0)


def unit(seed: int, rows: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((rows, 12)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def search(kind: str, index: Path, hits: int, weights: dict, vectors: dict, pool: JavaPool) -> Iterator:
    if kind == "lucene-impact":
        return impacts.search(index, hits, weights, pool)
    return lucene_dense.search(index, kind, hits, EF_SEARCH, vectors, pool)


def commands(kind: str, index: Path, folder: Path) -> list[str]:
    """Plain Pyserini's command for what we do, with queries that are encoded already."""
    how = {
        "lucene-impact": ["--impact", "--encoder", str(folder / "queries.jsonl"), "--topics", str(folder / "ids.json")],
        LUCENE_FLAT: ["--dense", "--flat", "--topics", str(folder / "vectors.json")],
        LUCENE_HNSW: ["--dense", "--hnsw", "--ef-search", str(EF_SEARCH), "--topics", str(folder / "vectors.json")],
    }
    return ["search.lucene", "--index", str(index), *how[kind], "--hits", "10", "--output", str(folder / f"{kind}.txt")]


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Both:
    folder, pool = tmp_path_factory.mktemp("identity"), JavaPool(2)
    identifiers = [f"d{number * 7 % VECTORS}" for number in range(VECTORS)]
    documents, asked = sparse(1, DOCUMENTS), sparse(2, QUERIES)
    documents[:, EVERYWHERE], documents[17] = 1, 0
    asked[:, EVERYWHERE], asked[3] = 1, 0
    asked[4, np.arange(TERMS) != EVERYWHERE] = 0
    dense = unit(3, VECTORS)
    dense[-60:] = dense[:60]
    weights = {f"q{row:02}": impacts.query_weights(csr_matrix(asked[row]), VOCABULARY, 2) for row in range(QUERIES)}
    weights["q07"]["unknown"] = 3
    vectors = dict(zip(weights, unit(4, QUERIES), strict=True))

    indexes = {kind: folder / f"index.{kind}" for kind in ("lucene-impact", *SPECS)}
    parts = [(identifiers[a:b], csr_matrix(documents[a:b])) for a, b in ((0, 130), (130, DOCUMENTS))]
    assert impacts.build(parts, VOCABULARY, indexes["lucene-impact"], 2, pool) == [identifiers[17]]
    for kind, spec in SPECS.items():
        parts = [(identifiers[a:b], dense[a:b]) for a, b in ((0, 500), (500, VECTORS))]
        lucene_dense.build(parts, indexes[kind], spec, pool)
    ours = {}
    for kind, index in indexes.items():
        for hits in HITS:
            found = search(kind, index, hits, weights, vectors, pool)
            ours[kind, hits] = {query: list(zip(ids, scores, strict=True)) for query, ids, scores in found}
        trec.write_run(folder / f"run.{kind}.txt", search(kind, index, 10, weights, vectors, pool))

    spelled = {query: json.dumps(vector.tolist()) for query, vector in vectors.items()}
    for name, titles in (("ids", {query: query for query in weights}), ("vectors", spelled)):
        topics = {query: {"title": title} for query, title in titles.items()}
        (folder / f"{name}.json").write_text(json.dumps(topics))
    cached = [json.dumps({"id": query, "contents": query, "vector": vector}) for query, vector in weights.items()]
    (folder / "queries.jsonl").write_text("\n".join(cached) + "\n")
    job = {
        "commands": [commands(kind, index, folder) for kind, index in indexes.items()],
        "indexes": {kind: str(index) for kind, index in indexes.items()},
        "weights": weights, "vectors": spelled, "hits": HITS, "ef_search": EF_SEARCH,
    }  # fmt: skip
    process = [sys.executable, "-c", DRIVER]
    done = subprocess.run(
        process, input=json.dumps(job), capture_output=True, text=True, env={**os.environ}, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    theirs = {
        (kind, hits): {query: [tuple(hit) for hit in found] for query, found in told["found"][kind][str(hits)].items()}
        for kind, hits in ours
    }
    counts = np.rint(documents * 2).astype(int)
    return Both(folder, counts, ours, theirs, told["stats"], told["frequencies"])


@pytest.mark.parametrize("hits", HITS)
@pytest.mark.parametrize("kind", ["lucene-impact", *SPECS])
def test_hits_and_scores_are_exactly_pyserinis(both, kind, hits):
    assert both.ours[kind, hits] == both.theirs[kind, hits]


@pytest.mark.parametrize("kind", ["lucene-impact", *SPECS])
def test_a_run_is_byte_identical_to_that_of_pyserinis_command(both, kind):
    theirs = (both.folder / f"{kind}.txt").read_bytes()
    assert theirs == (both.folder / f"run.{kind}.txt").read_bytes() != b""


def test_the_data_holds_what_is_to_be_compared(both):
    found = both.ours["lucene-impact", 1000]
    assert found["q03"] == found["q04"] == []  # nothing asked, and nothing but the term of every document
    assert max(map(len, found.values())) > 100
    near = [abs(first[1] - second[1]) for hits in found.values() for first, second in pairwise(hits)]
    assert sum(difference < 0.01 for difference in near) > 100  # ties, spaced apart
    flat = both.ours[LUCENE_FLAT, 1000]
    assert all(len(hits) == VECTORS and len({score for _, score in hits}) <= VECTORS - 60 for hits in flat.values())
    assert both.ours[LUCENE_HNSW, 10] != both.ours[LUCENE_FLAT, 10]  # the graph is so poor that it tells


def test_pyserinis_index_reader_counts_our_impacts(both):
    documents, terms = (both.counts > 0).any(axis=1).sum(), (both.counts > 0).sum(axis=0)
    assert (both.stats["documents"], both.stats["total_terms"]) == (documents, both.counts.sum())
    assert both.frequencies == dict(zip(VOCABULARY, terms.tolist(), strict=True))
