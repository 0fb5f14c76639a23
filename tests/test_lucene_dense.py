"""Dense indexes of Lucene, held against products of matrices; end_to_end/ holds them against Pyserini's classes."""

import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import anserini, lucene_dense
from r2med_pyserini.errors import R2medError
from r2med_pyserini.javatasks import JavaPool
from r2med_pyserini.jvm import JAVA, as_java, java_class
from r2med_pyserini.specs import LUCENE_FLAT, LUCENE_HNSW, IndexSpec

FLAT = IndexSpec(LUCENE_FLAT)
GRAPH = IndexSpec(LUCENE_HNSW, m=8, ef_construction=20)
SPECS = pytest.mark.parametrize("spec", [FLAT, GRAPH], ids=["flat", "hnsw"])
DOCUMENTS = 1200  # of fewer than about 700 vectors Lucene makes no graph: it looks at all of them


@pytest.fixture(scope="module")
def pool() -> JavaPool:
    return JavaPool(2)


def unit(seed: int, count: int, dimensions: int = 16) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def names(count: int) -> list[str]:
    """Ids in an order that is not theirs."""
    found = [f"d{number}" for number in range(count)]
    random.Random(3).shuffle(found)
    return found


def build(folder: Path, spec: IndexSpec, vectors: np.ndarray, pool: JavaPool, sizes: int = 500) -> Path:
    """An index of vectors that come in parts of a size."""
    folder.mkdir(exist_ok=True)
    identifiers = names(len(vectors))
    starts = range(0, len(vectors), sizes)
    parts = ((identifiers[start : start + sizes], vectors[start : start + sizes]) for start in starts)
    lucene_dense.build(parts, folder, spec, pool)
    return folder


def found(index: Path, spec: IndexSpec, vectors: np.ndarray, pool: JavaPool, hits: int = 10, ef: int = 100) -> dict:
    queries = {f"q{row}": vector for row, vector in reversed(list(enumerate(vectors)))}
    results = lucene_dense.search(index, spec.kind, hits, ef if spec is GRAPH else None, queries, pool)
    return {query: (ids, scores) for query, ids, scores in results}


def stored(index: Path) -> np.ndarray:
    """The vectors in the index, in its order; it must have one segment."""
    with anserini.opened(index) as reader, JAVA:
        assert reader.leaves().size() == 1
        leaf = as_java("org.apache.lucene.index.LeafReaderContext", reader.leaves().get(0)).reader()
        values = leaf.getFloatVectorValues("vector")
        return np.array([values.vectorValue(row) for row in range(values.size())], dtype=np.float32)


def segments(index: Path) -> set[str]:
    """The names of the segments that hold vectors."""
    return {path.name[: path.name.index("_", 1)] for path in index.glob("*.vec")}


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """The last ones are copies of others: their scores tie."""
    vectors = unit(1, DOCUMENTS)
    vectors[-100:] = vectors[:100]
    return vectors


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    return unit(2, 30)


@pytest.fixture(scope="module")
def flat(tmp_path_factory, vectors, pool) -> Path:
    return build(tmp_path_factory.mktemp("index") / "flat", FLAT, vectors, pool)


@pytest.fixture(scope="module")
def graph(tmp_path_factory, vectors, pool) -> Path:
    return build(tmp_path_factory.mktemp("index") / "hnsw", GRAPH, vectors, pool)


class TestSearch:
    @pytest.mark.parametrize("hits", [10, 1000, 2000])
    def test_flat_hits_are_those_of_the_product(self, flat, vectors, queries, pool, hits):
        identifiers = names(DOCUMENTS)
        results = found(flat, FLAT, queries, pool, hits)
        assert list(results) == [f"q{row}" for row in reversed(range(len(queries)))]
        for query, (ids, scores) in results.items():
            cosines = dict(zip(identifiers, vectors @ queries[int(query[1:])], strict=True))
            assert len(ids) == len(set(ids)) == min(hits, DOCUMENTS)
            assert scores == pytest.approx([(1 + cosines[name]) / 2 for name in ids], abs=1e-6)
            assert scores == pytest.approx(
                sorted(((1 + cosines.pop(name)) / 2 for name in ids), reverse=True), abs=1e-6
            )
            assert (1 + max(cosines.values(), default=-1)) / 2 <= scores[-1] + 1e-6

    @SPECS
    def test_ties_go_by_document_id(self, flat, graph, queries, pool, spec):
        index, ties = (flat if spec is FLAT else graph), 0
        for ids, scores in found(index, spec, queries, pool, DOCUMENTS, DOCUMENTS).values():
            assert list(zip(scores, ids, strict=True)) == sorted(
                zip(scores, ids, strict=True), key=lambda hit: (-hit[0], hit[1])
            )
            ties += len(scores) - len(set(scores))
        assert ties >= 100 * len(queries)

    @SPECS
    def test_so_do_ties_at_the_last_place(self, tmp_path, pool, spec):
        index = build(tmp_path, spec, np.repeat(unit(1, 1), 30, axis=0), pool)
        assert found(index, spec, unit(1, 1), pool, 3)["q0"][0] == sorted(names(30))[:3]

    def test_a_graph_that_is_searched_whole_finds_what_flat_finds(self, flat, graph, queries, pool):
        whole = found(graph, GRAPH, queries, pool, DOCUMENTS, DOCUMENTS)
        assert whole == found(flat, FLAT, queries, pool, DOCUMENTS)

    @pytest.mark.parametrize(("hits", "ef", "kept"), [(10, 100, 10), (100, 10, 10), (20, 20, 20)])
    def test_a_graph_gives_no_more_hits_than_candidates(self, graph, queries, pool, hits, ef, kept):
        for ids, _ in found(graph, GRAPH, queries, pool, hits, ef).values():
            assert len(ids) == len(set(ids)) == kept

    def test_more_candidates_find_more_of_the_best(self, flat, graph, queries, pool):
        best = found(flat, FLAT, queries, pool)

        def share(ef: int) -> float:
            kept = found(graph, GRAPH, queries, pool, 10, ef)
            return sum(len({*kept[query][0]} & {*best[query][0]}) for query in best) / (10 * len(best))

        assert share(10) < share(200)
        assert share(200) > 0.9

    @SPECS
    def test_any_number_of_threads_finds_the_same(self, flat, graph, queries, pool, spec):
        index = flat if spec is FLAT else graph
        assert found(index, spec, queries, JavaPool(1)) == found(index, spec, queries, JavaPool(5))

    @SPECS
    def test_a_document_finds_itself(self, flat, graph, vectors, pool, spec):
        index, identifiers = (flat if spec is FLAT else graph), names(DOCUMENTS)
        for query, (ids, scores) in found(index, spec, vectors[200:250], pool).items():
            assert ids[0] == identifiers[200 + int(query[1:])]
            assert scores[0] == pytest.approx(1, abs=1e-6)

    def test_no_query_no_hits(self, flat, pool):
        assert found(flat, FLAT, unit(1, 0), pool) == {}

    def test_a_query_that_is_not_of_unit_length_is_an_error(self, flat, queries, pool):
        with pytest.raises(R2medError, match=r"^text q1: its vector has the length 2; "):
            found(flat, FLAT, queries[:2] * [[1], [2]], pool)

    def test_a_query_of_other_dimensions_is_an_error(self, flat, pool):
        with pytest.raises(R2medError, match=r"cannot search .* dimension"):
            found(flat, FLAT, unit(1, 1, 8), pool)

    def test_a_folder_that_holds_no_index_is_an_error(self, tmp_path, queries, pool):
        with pytest.raises(R2medError, match=f"cannot search {tmp_path}"):
            found(tmp_path, FLAT, queries, pool)


class TestBuild:
    @SPECS
    def test_the_vectors_are_kept_exactly_and_in_order(self, tmp_path, pool, spec):
        vectors = unit(5, 60, 300)
        assert np.array_equal(stored(build(tmp_path, spec, vectors, pool, sizes=7)), vectors)

    @SPECS
    def test_the_kind_of_numbers_and_their_layout_do_not_matter(self, tmp_path, pool, spec):
        vectors = unit(6, 20, 8)
        given = (vectors.astype(np.float64), np.asfortranarray(vectors), np.repeat(vectors, 2, axis=1)[:, ::2])
        for number, same in enumerate(given):
            assert np.array_equal(stored(build(tmp_path / str(number), spec, same, pool)), vectors)

    def test_a_graph_is_a_function_of_the_vectors(self, tmp_path, vectors, queries, pool):
        def results(name: str, vectors: np.ndarray, sizes: int, ef: int = 2) -> dict:
            return found(build(tmp_path / name, GRAPH, vectors, pool, sizes), GRAPH, queries, pool, 2, ef)

        first = results("first", vectors, 500)
        assert results("again", vectors, 500) == first
        assert results("other parts", vectors, 33) == first
        assert results("another order", vectors[::-1], 500) != first, "so few candidates find the same in any graph"

    @SPECS
    def test_several_segments_become_one_in_order(self, tmp_path, vectors, queries, pool, spec, monkeypatch):
        monkeypatch.setattr(lucene_dense, "MOST_BUFFERED", 70)
        indexes = [build(tmp_path / str(number), spec, vectors, pool) for number in range(2)]
        assert np.array_equal(stored(indexes[0]), vectors)
        assert segments(indexes[0]) == {"_i"}  # after eighteen, counted in base 36 from 0
        first, again = (found(index, spec, queries, pool, 2, 2) for index in indexes)
        assert first == again

    def test_segments_that_were_not_merged_are_missed(self, tmp_path, vectors, pool, monkeypatch):
        def never_merge(indexer, dimensions: int) -> None:
            settings = indexer.writer.getConfig()
            settings.setMaxBufferedDocs(500)
            settings.setMergePolicy(java_class("org.apache.lucene.index.NoMergePolicy").INSTANCE)

        monkeypatch.setattr(lucene_dense, "_settle", never_merge)
        with pytest.raises(R2medError, match="its 3 segments were not merged"):
            build(tmp_path, FLAT, vectors, pool)

    @SPECS
    def test_what_fits_into_one_segment_is_written_once(self, tmp_path, vectors, pool, spec):
        assert segments(build(tmp_path, spec, vectors, pool)) == {"_0"}

    @pytest.mark.parametrize("length", [0, 0.99, 1.01, np.nan, np.inf])
    def test_a_vector_that_is_not_of_unit_length_is_an_error_of_its_text(self, tmp_path, pool, length):
        vectors = unit(1, 3)
        vectors[1] *= length
        with pytest.raises(R2medError, match=r"^text b: its vector has the length .* want vectors of length 1$"):
            lucene_dense.build([(["a", "b", "c"], vectors)], tmp_path, FLAT, pool)
        assert list(tmp_path.iterdir()) == []

    def test_what_half_precision_loses_is_no_error(self, tmp_path, pool):
        build(tmp_path, FLAT, unit(1, 50, 300).astype(np.float16).astype(np.float32), pool)

    @SPECS
    def test_lucenes_limits_are_within_reach(self, tmp_path, pool, spec):
        widest = IndexSpec(spec.kind, m=spec.m and 512, ef_construction=spec.ef_construction and 3200)
        assert stored(build(tmp_path, widest, unit(1, 5, 4096), pool)).shape == (5, 4096)

    @pytest.mark.parametrize(
        ("spec", "dimensions", "words"),
        [
            (FLAT, 4097, "dimensions is 4,097; Lucene's dense indexes take at most 4,096"),
            (GRAPH, 4097, "dimensions is 4,097; Lucene's dense indexes take at most 4,096"),
            (IndexSpec(LUCENE_HNSW, m=513, ef_construction=20), 4, "m is 513; .* at most 512"),
            (IndexSpec(LUCENE_HNSW, m=8, ef_construction=3201), 4, "ef_construction is 3,201; .* at most 3,200"),
        ],
    )
    def test_what_lucene_cannot_hold_is_an_error(self, tmp_path, pool, spec, dimensions, words):
        with pytest.raises(R2medError, match=words):
            build(tmp_path, spec, unit(1, 2, dimensions), pool)
        assert list(tmp_path.iterdir()) == []

    @SPECS
    @pytest.mark.parametrize("parts", [[], [([], np.zeros((0, 4), np.float32))]], ids=["no part", "an empty part"])
    def test_without_documents_there_is_no_index(self, tmp_path, pool, spec, parts):
        with pytest.raises(R2medError, match="there is no document to index"):
            lucene_dense.build(parts, tmp_path, spec, pool)
        assert list(tmp_path.iterdir()) == []

    def test_one_document_is_enough(self, tmp_path, pool):
        for spec in (FLAT, GRAPH):
            index = build(tmp_path / spec.kind, spec, unit(1, 1), pool)
            assert found(index, spec, unit(1, 1), pool)["q0"] == (["d0"], [pytest.approx(1)])

    @pytest.mark.parametrize("identifier", ["1", "a\u00a0b", '"', "日本", "a/b", "\\n"])
    def test_ids_come_back_as_they_are(self, tmp_path, pool, identifier):
        lucene_dense.build([([identifier], unit(1, 1))], tmp_path, FLAT, pool)
        assert found(tmp_path, FLAT, unit(1, 1), pool)["q0"][0] == [identifier]

    @SPECS
    def test_nothing_but_the_index_is_left_and_nothing_is_said(self, tmp_path, vectors, queries, pool, spec, capfd):
        build(tmp_path, spec, vectors, pool)
        assert found(tmp_path, spec, queries, pool)
        assert {path.is_file() for path in tmp_path.iterdir()} == {True}
        assert not list(tmp_path.glob("*.json*"))
        assert capfd.readouterr() == ("", "")

    def test_one_part_is_held_at_a_time(self, tmp_path, pool):
        alive: list[weakref.ref] = []

        def parts():
            for number in range(4):
                assert not [part for part in alive if part() is not None]
                vectors = unit(number, 2)
                alive.append(weakref.ref(vectors))
                yield [f"a{number}", f"b{number}"], vectors
                del vectors

        lucene_dense.build(parts(), tmp_path, FLAT, pool)
        assert len(alive) == 4

    @SPECS
    def test_a_document_that_lucene_refuses_is_missed(self, tmp_path, pool, spec, capfd):
        with pytest.raises(R2medError, match=r"1 of 3 documents reached the index; see Anserini's messages above"):
            lucene_dense.build([(["a", "x" * 40_000, "b"], unit(1, 3))], tmp_path, spec, pool)
        assert "ERROR" in capfd.readouterr().err

    def test_a_failure_of_the_source_passes_and_leaves_nothing(self, tmp_path, pool):
        def parts():
            yield ["a"], unit(1, 1)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            lucene_dense.build(parts(), tmp_path, FLAT, pool)
        assert list(tmp_path.iterdir()) == []

    def test_parts_that_do_not_fit_are_not_indexed(self, tmp_path, pool):
        for part in ((["b"], unit(1, 1, 5)), (["b"], unit(1, 2, 4))):
            with pytest.raises(ValueError, match="1 ids, vectors of shape"):
                lucene_dense.build([(["a"], unit(1, 1, 4)), part], tmp_path, FLAT, pool)

    def test_several_can_be_built_and_searched_side_by_side(self, tmp_path, queries, pool):
        def job(number: int) -> tuple:
            spec, vectors = (FLAT, GRAPH)[number % 2], unit(number // 2, 900)
            index = build(tmp_path / str(number), spec, vectors, pool, sizes=50)
            return spec, index, found(index, spec, queries, pool, ef=10)

        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(job, range(6)))
        for number, (spec, index, results) in enumerate(together):
            alone = build(tmp_path / f"alone{number}", spec, unit(number // 2, 900), pool)
            assert results == found(index, spec, queries, pool, ef=10) == found(alone, spec, queries, pool, ef=10)
