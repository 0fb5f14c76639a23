"""FAISS indexes, held against products of matrices, and against Pyserini's own searcher."""

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Barrier

import faiss
import numpy as np
import pytest

from r2med_pyserini import faiss_index
from r2med_pyserini.errors import R2medError
from r2med_pyserini.specs import COSINE, DOT, FAISS_FLAT, FAISS_HNSW, IndexSpec, SearchSpec

FLAT = IndexSpec(FAISS_FLAT, encoder="toy", metric=COSINE)
HNSW = IndexSpec(FAISS_HNSW, encoder="toy", metric=COSINE, m=8, ef_construction=60)
SPECS = [FLAT, HNSW]
KINDS = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
DOCUMENTS, QUERIES, DIMENSIONS = 500, 30, 16  # from 20 queries on, FAISS multiplies matrices
EF_SEARCH = 30


def how(spec: IndexSpec, hits: int = 1000, **others) -> SearchSpec:
    return SearchSpec(hits=hits, ef_search=EF_SEARCH if spec.kind == FAISS_HNSW else None, **others)


def drawn(seed: int, rows: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, DIMENSIONS)).astype(np.float32)


def names(count: int, letter: str = "d") -> list[str]:
    """Ids in an order that is not theirs."""
    found = [f"{letter}{number}" for number in range(count)]
    random.Random(3).shuffle(found)
    return found


def build(
    folder: Path, spec: IndexSpec, documents: dict[str, object] | tuple[list[str], np.ndarray], *cuts: int
) -> Path:
    """An index of documents, which come in parts that end at `cuts`."""
    if isinstance(documents, dict):
        documents = list(documents), np.array(list(documents.values()), np.float32)
    ids, vectors = documents
    ends = [0, *cuts, len(ids)]
    folder.mkdir(parents=True, exist_ok=True)
    parts = [(ids[a:b], vectors[a:b]) for a, b in pairwise(ends)]
    faiss_index.build(parts, folder, spec)
    return folder


def search(folder: Path, spec: IndexSpec, queries: object, search_spec: SearchSpec, documents: int, threads: int = 1):
    """Query -> hits as (document, score)."""
    if isinstance(queries, dict):
        queries = list(queries), np.array(list(queries.values()), np.float32)
    found = faiss_index.search(folder, spec, search_spec, documents, queries, threads)
    return {query: list(zip(ids, scores, strict=True)) for query, ids, scores in found}


@pytest.fixture(scope="module")
def corpus() -> tuple[list[str], np.ndarray]:
    return names(DOCUMENTS), drawn(1, DOCUMENTS)


@pytest.fixture(scope="module")
def queries() -> tuple[list[str], np.ndarray]:
    return names(QUERIES, "q"), drawn(2, QUERIES)


@pytest.fixture(scope="module")
def indexes(tmp_path_factory, corpus) -> dict[str, Path]:
    """The corpus, indexed in three parts."""
    root = tmp_path_factory.mktemp("indexes")
    return {spec.kind: build(root / spec.kind, spec, corpus, 100, 350) for spec in SPECS}


class TestFewDocuments:
    TWO = {"d1": (3, 0), "d2": (0.9, 0.9)}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("metric", "wanted"), [(DOT, [("d1", 3), ("d2", 1.8)]), (COSINE, [("d2", 1), ("d1", 0.5**0.5)])]
    )
    @KINDS
    def test_the_metric_decides_who_is_first(self, tmp_path, spec, metric, wanted):
        spec = replace(spec, metric=metric)
        build(tmp_path, spec, self.TWO)
        query = (1, 1)
        [hits] = search(tmp_path, spec, {"q": query}, how(spec), 2).values()
        assert [name for name, _ in hits] == [name for name, _ in wanted]
        assert [score for _, score in hits] == pytest.approx([score for _, score in wanted])

    @pytest.mark.parametrize("hits", [1, 2, 3, 1000])
    @KINDS
    def test_there_are_never_more_hits_than_documents(self, tmp_path, spec, hits):
        build(tmp_path, spec, self.TWO)
        [found] = search(tmp_path, spec, {"q": (1, 1)}, how(spec, hits), 2).values()
        assert [name for name, _ in found] == ["d2", "d1"][:hits]

    @KINDS
    def test_one_document_is_an_index(self, tmp_path, spec):
        build(tmp_path, spec, {"d": (0.5, 0)})
        assert search(tmp_path, spec, {"q": (2, 0), "r": (-1, 0)}, how(spec), 1) == {"q": [("d", 1)], "r": [("d", -1)]}

    @KINDS
    def test_a_vector_of_zeros_has_cosine_0(self, tmp_path, spec):
        build(tmp_path, spec, {"with": (1, 0), "zero": (0, 0), "against": (-1, 0)})
        found = search(tmp_path, spec, {"q": (1, 0), "zero": (0, 0)}, how(spec), 3)
        assert found["q"] == [("with", 1), ("zero", 0), ("against", -1)]
        assert found["zero"] == [("against", 0), ("with", 0), ("zero", 0)]

    @KINDS
    def test_equal_scores_come_by_document_id(self, tmp_path, spec):
        ids = ["b", "a", "d10", "d9", "Z", "é"]
        build(tmp_path, spec, dict.fromkeys(ids, (1, 0)) | {"first": (1, 0.1)})
        [found] = search(tmp_path, spec, {"q": (1, 0.1)}, how(spec), 7).values()
        assert [name for name, _ in found] == ["first", *sorted(ids)]
        assert len({score for _, score in found}) == 2

    @KINDS
    def test_no_document_is_no_index(self, tmp_path, spec):
        for parts in ([], [([], np.empty((0, 2), np.float32))]):
            with pytest.raises(R2medError, match="there is no document to index"):
                faiss_index.build(parts, tmp_path, spec)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("metric", [COSINE, DOT])
    @KINDS
    def test_a_vector_that_is_none_is_named(self, tmp_path, spec, metric, value):
        documents = {"a": (1, 0), "b": (1, value), "c": (0, 1)}
        with pytest.raises(R2medError, match="document b: its vector holds NaN or infinite values"):
            build(tmp_path, replace(spec, metric=metric), documents)

    @KINDS
    def test_half_precision_is_computed_with_in_single_precision(self, tmp_path, spec):
        vectors = drawn(5, 40).astype(np.float16)
        build(tmp_path, spec, (names(40), vectors))
        [found] = search(tmp_path, spec, (["q"], vectors[:1].astype(np.float32)), how(spec), 40).values()
        single = faiss_index.unit(vectors.astype(np.float32))
        wanted = dict(zip(names(40), single @ single[0], strict=True))
        assert found[0] == (names(40)[0], pytest.approx(1, abs=1e-6))
        assert dict(found) == pytest.approx(wanted, abs=1e-6)


class TestSearch:
    @pytest.mark.parametrize("hits", [1, 10, 1000])
    def test_flat_search_gives_the_products(self, indexes, corpus, queries, hits):
        identifiers, vectors = corpus
        products = faiss_index.unit(queries[1]) @ faiss_index.unit(vectors).T
        found = search(indexes[FAISS_FLAT], FLAT, queries, how(FLAT, hits), DOCUMENTS)
        assert list(found) == queries[0]
        for row, ranked in zip(products, found.values(), strict=True):
            best = np.argsort(-row)[:hits]
            assert [name for name, _ in ranked] == [identifiers[position] for position in best]
            assert [score for _, score in ranked] == pytest.approx(row[best], abs=1e-5)

    @pytest.mark.parametrize("hits", [1, 10])
    def test_a_graph_finds_most_of_them_with_the_same_scores(self, indexes, queries, hits):
        every = search(indexes[FAISS_FLAT], FLAT, queries, how(FLAT), DOCUMENTS)
        found = search(indexes[FAISS_HNSW], HNSW, queries, how(HNSW, hits), DOCUMENTS)
        same = 0
        for query, ranked in found.items():
            scores = dict(every[query])
            assert [score for _, score in ranked] == pytest.approx([scores[name] for name, _ in ranked], abs=1e-5)
            same += len(dict(every[query][:hits]).keys() & dict(ranked).keys())
        assert same > 0.9 * hits * QUERIES

    def test_more_candidates_find_more(self, indexes, queries):
        exact = search(indexes[FAISS_FLAT], FLAT, queries, how(FLAT, 10), DOCUMENTS)

        def same(candidates: int) -> int:
            found = search(indexes[FAISS_HNSW], HNSW, queries, replace(how(HNSW, 10), ef_search=candidates), DOCUMENTS)
            return sum(len(dict(exact[query]).keys() & dict(found[query]).keys()) for query in exact)

        assert same(10) < same(DOCUMENTS) == 10 * QUERIES

    @pytest.mark.parametrize("hits", [3, 400, 1000])
    @KINDS
    def test_any_number_of_threads_finds_the_same(self, indexes, queries, spec, hits):
        one, two, five = (search(indexes[spec.kind], spec, queries, how(spec, hits), DOCUMENTS, n) for n in (1, 2, 5))
        assert one == two == five

    @KINDS
    def test_the_number_of_threads_is_put_back(self, indexes, queries, spec):
        before = faiss.omp_get_max_threads()
        search(indexes[spec.kind], spec, queries, how(spec, 10), DOCUMENTS, before + 3)
        assert faiss.omp_get_max_threads() == before

    def test_documents_that_a_graph_does_not_reach_are_no_hits(self, tmp_path):
        """FAISS fills up with -1; an id must not be made of that."""
        spec = replace(HNSW, m=2, ef_construction=10)
        chance = np.random.default_rng(1)
        vectors = np.repeat(chance.normal(size=(10, 6)), 40, axis=0) + 0.001 * chance.normal(size=(400, 6))
        build(tmp_path, spec, (names(400), vectors.astype(np.float32)))
        index = faiss.read_index(str(tmp_path / "index"))
        index.hnsw.efSearch = 1000
        asked = faiss_index.unit(vectors[:5])
        reached = (index.search(asked, 400)[1] >= 0).sum(axis=1)
        assert (reached < 400).all() and (reached > 10).all()
        found = search(tmp_path, spec, (names(5, "q"), asked), replace(how(spec), ef_search=1000), 400)
        assert [len(hits) for hits in found.values()] == reached.tolist()
        assert all(len(dict(hits)) == len(hits) for hits in found.values())
        assert all(-1.001 <= score <= 1.001 for hits in found.values() for _, score in hits)


class TestLeavingTheQueryOut:
    @pytest.mark.parametrize("hits", [1, 5, DOCUMENTS - 1, DOCUMENTS, 1000])
    def test_exactly_that_hit_is_gone(self, indexes, corpus, hits):
        """Queries that are documents, and one that is none."""
        identifiers, vectors = corpus
        asked = [*identifiers[:QUERIES], "q"], np.vstack([vectors[:QUERIES], vectors[:1] + 1])
        every = search(indexes[FAISS_FLAT], FLAT, asked, how(FLAT), DOCUMENTS)
        found = search(indexes[FAISS_FLAT], FLAT, asked, how(FLAT, hits, remove_query=True), DOCUMENTS)
        for query, ranked in found.items():
            assert ranked == [hit for hit in every[query] if hit[0] != query][:hits]
            assert len(ranked) == min(hits, DOCUMENTS - (query != "q"))
            assert query == "q" or every[query][0][0] == query

    def test_it_is_kept_where_nothing_is_said(self, indexes, corpus):
        identifiers, vectors = corpus
        found = search(indexes[FAISS_FLAT], FLAT, (identifiers[:3], vectors[:3]), how(FLAT, 1), DOCUMENTS)
        assert [[name for name, _ in hits] for hits in found.values()] == [[name] for name in identifiers[:3]]

    def test_from_a_graph_too(self, indexes, corpus):
        identifiers, vectors = corpus
        asked = identifiers[:QUERIES], vectors[:QUERIES]
        found = search(indexes[FAISS_HNSW], HNSW, asked, how(HNSW, EF_SEARCH, remove_query=True), DOCUMENTS)
        assert all(len(hits) == EF_SEARCH and query not in dict(hits) for query, hits in found.items())


class TestFiles:
    def contents(self, folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    @KINDS
    def test_two_builds_give_the_same_bytes(self, tmp_path, indexes, corpus, spec):
        again = build(tmp_path / "again", spec, corpus, 100, 350)
        assert self.contents(again) == self.contents(indexes[spec.kind])

    @KINDS
    def test_two_builds_side_by_side_give_the_same_bytes(self, tmp_path, indexes, corpus, spec):
        start = Barrier(2)

        def work(number: int) -> dict[str, bytes]:
            start.wait(60)
            return self.contents(build(tmp_path / str(number), spec, corpus, 100, 350))

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(work, range(2))) == [self.contents(indexes[spec.kind])] * 2

    @KINDS
    def test_the_number_of_threads_does_not_matter(self, tmp_path, indexes, corpus, spec):
        before = faiss.omp_get_max_threads()
        try:
            faiss.omp_set_num_threads(4)
            build(tmp_path, spec, corpus, 100, 350)
            assert faiss.omp_get_max_threads() == 4
        finally:
            faiss.omp_set_num_threads(before)
        assert self.contents(tmp_path) == self.contents(indexes[spec.kind])

    @pytest.mark.parametrize("cuts", [(), (1,), (250, 499)])
    def test_how_documents_are_parted_does_not_matter_to_a_flat_index(self, tmp_path, indexes, corpus, cuts):
        build(tmp_path, FLAT, corpus, *cuts)
        assert self.contents(tmp_path) == self.contents(indexes[FAISS_FLAT])

    @KINDS
    def test_the_graph_has_the_settings_that_were_asked_for(self, indexes, spec):
        index = faiss.read_index(str(indexes[spec.kind] / "index"))
        assert (index.ntotal, index.d, index.metric_type) == (DOCUMENTS, DIMENSIONS, faiss.METRIC_INNER_PRODUCT)
        if spec is HNSW:
            assert (index.hnsw.nb_neighbors(1), index.hnsw.efConstruction) == (8, 60)


def rewrite(name: str, change) -> object:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return damage


def less_one(folder: Path) -> None:
    index = faiss.read_index(str(folder / "index"))
    smaller = faiss.IndexFlatIP(index.d)
    smaller.add(index.reconstruct_n(0, index.ntotal - 1))
    faiss.write_index(smaller, str(folder / "index"))


DAMAGED = {
    f"{name} {what}": rewrite(name, change)
    for name in ("index", "about.json")
    for what, change in {
        "empty": lambda content: b"",
        "half": lambda content: content[: len(content) // 2],
        "other": lambda content: b"\xff" + content[1:],
    }.items()
} | {
    "about.json a list": rewrite("about.json", lambda content: b"[]"),
    "about.json gone": lambda folder: (folder / "about.json").unlink(),
    "index gone": lambda folder: (folder / "index").unlink(),
    "docid gone": lambda folder: (folder / "docid").unlink(),
    "docid other": rewrite("docid", lambda content: b"\xff" + content),
    "number beyond all bounds": rewrite("index", lambda content: content[:37] + b"\xff" * 8 + content[45:]),
}
FEWER = {
    "ids": rewrite("docid", lambda content: content[:-2]),
    "vectors": less_one,
    "documents": lambda folder: None,
}


class TestWhatDoesNotFit:
    @pytest.fixture
    def three(self, tmp_path) -> Path:
        return build(tmp_path / "three", FLAT, {"a": (1, 0), "b": (0, 1), "c": (1, 1)})

    @pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
    def test_a_damaged_index_is_an_error(self, three, damage):
        damage(three)
        with pytest.raises(R2medError, match=f"{three}: the index is damaged: remove the folder, and it is made anew"):
            search(three, FLAT, {"q": (1, 0)}, how(FLAT), 3)

    @pytest.mark.parametrize(("what", "damage"), FEWER.items(), ids=FEWER)
    def test_numbers_that_differ_are_an_error(self, three, what, damage):
        damage(three)
        wanted = {"ids": "3 vectors and 2 ids for 3", "vectors": "2 vectors and 3 ids for 3",
                  "documents": "3 vectors and 3 ids for 4"}[what]  # fmt: skip
        with pytest.raises(R2medError, match=f"{three}: {wanted} documents: remove it, and it is made anew"):
            search(three, FLAT, {"q": (1, 0)}, how(FLAT), 4 if what == "documents" else 3)

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            (replace(FLAT, metric=DOT), "its metric is cosine, but dot is wanted"),
            (replace(FLAT, encoder="other"), "its encoder is toy, but other is wanted"),
            (HNSW, "its kind is faiss-flat, but faiss-hnsw is wanted"),
        ],
        ids=["metric", "encoder", "kind"],
    )
    def test_an_index_made_otherwise_is_an_error(self, three, spec, words):
        with pytest.raises(R2medError, match=f"{three}: {words}"):
            search(three, spec, {"q": (1, 0)}, how(spec), 3)

    def test_a_graph_made_otherwise_is_an_error(self, tmp_path):
        build(tmp_path, HNSW, {"a": (1, 0)})
        with pytest.raises(R2medError, match="its m is 8, but 16 is wanted"):
            search(tmp_path, replace(HNSW, m=16), {"q": (1, 0)}, how(HNSW), 1)

    def test_queries_of_other_dimensions_are_an_error(self, three):
        with pytest.raises(R2medError, match=f"{three}: vectors of 2 dimensions, but queries of 3"):
            search(three, FLAT, {"q": (1, 0, 0)}, how(FLAT), 3)


# Importing Pyserini costs seconds: one process does everything with it.
DRIVER = """
import json, sys
import numpy as np
from r2med_pyserini.jvm import start
start()
from pyserini.search.faiss import FaissSearcher

job = json.load(sys.stdin)
queries, vectors, found = job["queries"], np.array(job["vectors"], dtype=np.float32), {}
for kind, index in job["indexes"].items():
    searcher = FaissSearcher(index, None)
    if kind == "faiss-hnsw":
        searcher.index.hnsw.efSearch = job["ef_search"]
    for hits in job["hits"]:
        every = searcher.batch_search(vectors, queries, hits, threads=2)
        found[f"{kind} {hits}"] = {query: [(hit.docid, float(hit.score)) for hit in every[query]] for query in queries}
        one = searcher.search(vectors[:1], hits)
        found[f"{kind} {hits} one"] = {queries[0]: [(hit.docid, float(hit.score)) for hit in one]}
print()
print(json.dumps(found))
"""
HITS = (10, 400)


@pytest.fixture(scope="module")
def theirs(indexes, queries) -> dict[str, dict]:
    """What Pyserini's FaissSearcher finds: kind, number of hits and whether of one query -> query -> hits."""
    job = {
        "indexes": {kind: str(folder) for kind, folder in indexes.items()}, "queries": queries[0], "hits": HITS,
        "vectors": faiss_index.unit(queries[1]).tolist(), "ef_search": EF_SEARCH,
    }  # fmt: skip
    process = [sys.executable, "-c", DRIVER]
    done = subprocess.run(process, input=json.dumps(job), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    return {
        name: {query: [tuple(hit) for hit in hits] for query, hits in found.items()} for name, found in told.items()
    }


@pytest.mark.parametrize("hits", HITS)
@KINDS
def test_hits_and_scores_are_exactly_pyserinis(indexes, queries, theirs, spec, hits):
    ours = search(indexes[spec.kind], spec, queries, how(spec, hits), DOCUMENTS)
    assert ours == theirs[f"{spec.kind} {hits}"]
    first = queries[0][:1], queries[1][:1]
    assert search(indexes[spec.kind], spec, first, how(spec, hits), DOCUMENTS) == theirs[f"{spec.kind} {hits} one"]
