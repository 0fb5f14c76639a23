"""Impact indexes, held against products of matrices; end_to_end/test_impact_identity.py holds them against Pyserini."""

import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from r2med_pyserini import impacts
from r2med_pyserini.errors import R2medError
from r2med_pyserini.javatasks import JavaPool

TIES = 0.01  # tied scores are spaced apart by less
# what WordPiece, SentencePiece and byte-level vocabularies hold, and what JSON must escape
WHOLE = ["##ing", "▁the", "Ġthe", '"', "\\", "{", "naïve", "日本", "a\u00a0b", "a\u200bb", "x" * 255, "😀" * 127]
BROKEN = ["", " ", "\0", "a b", "a\tb", "\n", "a\u2003b", "a\u3000b", "\x1c", "x" * 256, "😀" * 128]


@pytest.fixture(scope="module")
def pool() -> JavaPool:
    return JavaPool(2)


def sparse(rows: list, dtype: type = np.float32) -> csr_matrix:
    return csr_matrix(np.array(rows, dtype=dtype))


def weights(seed: int, documents: int, terms: int, share: float = 0.2) -> csr_matrix:
    """Multiples of 0.5, so that scores tie."""
    chance = np.random.default_rng(seed)
    drawn = chance.integers(1, 5, size=(documents, terms)) / 2
    return csr_matrix(np.where(chance.random((documents, terms)) < share, drawn, 0).astype(np.float32))


def names(count: int, seed: int = 3) -> list[str]:
    """Ids in an order that is not theirs."""
    found = [f"d{number}" for number in range(count)]
    random.Random(seed).shuffle(found)
    return found


def found(index: Path, queries: dict, pool: JavaPool, hits: int = 1000) -> dict:
    return {query: (ids, scores) for query, ids, scores in impacts.search(index, hits, queries, pool)}


class TestQuantize:
    def test_it_rounds_halves_to_even_and_drops_zeros(self):
        impact = impacts.quantize(sparse([[0.5, 1.5, 2.5, 0.004], [0, 0.996, 0, 0]]), 1)
        assert impact.toarray().tolist() == [[0, 2, 2, 0], [0, 1, 0, 0]]
        assert (impact.nnz, impact.dtype.kind) == (3, "i")

    @pytest.mark.parametrize(("weight", "scale", "wanted"), [(0.289, 100, 29), (2.0, 0.3, 1), (0.004, 100, 0)])
    def test_the_scale_multiplies(self, weight, scale, wanted):
        assert impacts.quantize(sparse([[weight]]), scale).toarray().tolist() == [[wanted]]

    def test_a_column_given_twice_counts_as_their_sum(self):
        twice = csr_matrix((np.array([0.3, 0.4]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
        assert impacts.quantize(twice, 10).toarray().tolist() == [[0, 7]]

    def test_the_weights_stay_as_they_were(self):
        given = sparse([[0.4, 1.0]])
        impacts.quantize(given, 1)
        assert given.toarray().tolist() == sparse([[0.4, 1.0]]).toarray().tolist()

    @pytest.mark.parametrize("weight", [-0.001, float("nan"), float("inf"), float("-inf")])
    def test_what_is_no_count_is_an_error_of_its_row(self, weight):
        rows = sparse([[1, 0], [0, 0], [1, weight]])
        with pytest.raises(R2medError, match=r"^row 2: weight .* of dimension 1: "):
            impacts.quantize(rows, 100)
        with pytest.raises(R2medError, match=r"^text c: weight "):
            impacts.quantize(rows, 100, ["a", "b", "c"])

    def test_the_weights_of_a_query_go_by_token(self):
        row = sparse([[0.004, 0, 1.5, 0.01]])
        assert impacts.query_weights(row, ["a", "b", "c", "d"], 100) == {"c": 150, "d": 1}
        assert impacts.query_weights(sparse([[0, 0]]), ["a", "b"], 100) == {}


VOCABULARY = [f"t{number}" for number in range(40)]


@pytest.fixture(scope="module")
def corpus() -> csr_matrix:
    """The last document is empty, and one token is in none."""
    rows = weights(1, 200, 40).tolil()
    rows[199] = 0
    rows[:, 39] = 0
    return rows.tocsr()


@pytest.fixture(scope="module")
def index(tmp_path_factory, corpus, pool) -> Path:
    folder = tmp_path_factory.mktemp("index")
    identifiers = names(200)
    parts = [(identifiers[a:b], corpus[a:b]) for a, b in ((0, 90), (90, 90), (90, 91), (91, 200))]
    assert impacts.build(parts, VOCABULARY, folder, 2, pool) == identifiers[199:]
    return folder


@pytest.fixture(scope="module")
def queries() -> dict:
    rows = weights(2, 25, 40, share=0.1)
    return {f"q{row}": impacts.query_weights(rows[row], VOCABULARY, 2) for row in reversed(range(25))}


class TestSearch:
    def test_the_hits_are_those_of_the_product(self, index, corpus, queries, pool):
        identifiers = names(200)
        counts = np.rint(corpus.toarray() * 2)
        results = found(index, queries, pool)
        assert list(results) == list(queries)
        tied = 0
        for query, (ids, scores) in results.items():
            row = [queries[query].get(token, 0) for token in VOCABULARY]
            wanted = {identifiers[document]: score for document, score in enumerate(counts @ row) if score}
            assert ids == sorted(wanted, key=lambda name: (-wanted[name], name))
            assert scores == pytest.approx([wanted[name] for name in ids], abs=TIES)
            tied += len(wanted) - len(set(wanted.values()))
        assert tied > 100

    @pytest.mark.parametrize("hits", [1, 7])
    def test_fewer_hits_are_the_first_ones(self, index, queries, pool, hits):
        every = found(index, queries, pool)
        for query, (ids, _) in found(index, queries, pool, hits).items():
            assert ids == every[query][0][:hits]

    def test_any_number_of_threads_finds_the_same(self, index, queries, pool):
        assert found(index, queries, JavaPool(1)) == found(index, queries, JavaPool(5))

    def test_without_a_token_of_the_index_there_is_no_hit(self, index, pool):
        queries = {"none": {}, "unknown": {"t99": 3, "t39": 2}, "some": {"t1": 3}}
        results = found(index, queries, pool)
        assert results["none"] == results["unknown"] == ([], [])
        assert results["some"][0]

    def test_a_token_of_all_documents_tells_nothing_apart(self, tmp_path, pool):
        rows = sparse([[1, 2, 0], [3, 0, 1], [2, 0, 0]])
        impacts.build([(["a", "b", "c"], rows)], ["all", "one", "two"], tmp_path, 1, pool)
        results = found(tmp_path, {"all": {"all": 5}, "both": {"all": 5, "two": 7}}, pool)
        assert results["all"] == ([], [])
        assert results["both"] == (["b"], [7])

    def test_a_folder_that_holds_no_index_is_an_error(self, tmp_path, pool):
        with pytest.raises(R2medError, match=f"cannot search {tmp_path}"):
            found(tmp_path, {"q": {"t": 1}}, pool)


class TestBuild:
    @pytest.mark.parametrize("token", WHOLE)
    def test_a_token_stays_whole(self, tmp_path, pool, token):
        impacts.build([(["a", "b"], sparse([[0, 2], [3, 0]]))], ["other", token], tmp_path, 1, pool)
        assert found(tmp_path, {"q": {token: 2}}, pool)["q"] == (["a"], [4])

    @pytest.mark.parametrize("token", BROKEN)
    def test_a_token_that_would_not_is_an_error_if_it_carries_weight(self, tmp_path, pool, token):
        vocabulary = ["other", token]
        with pytest.raises(R2medError, match=r"^token 1 of the encoder's vocabulary, .* cannot be a term"):
            impacts.build([(["a"], sparse([[1, 0]])), (["b"], sparse([[0, 1]]))], vocabulary, tmp_path, 1, pool)
        assert list(tmp_path.iterdir()) == []
        assert impacts.build([(["a", "b"], sparse([[1, 0], [0, 0.1]]))], vocabulary, tmp_path, 1, pool) == ["b"]

    def test_a_token_that_stands_twice_is_an_error_if_both_could_count(self, tmp_path, pool):
        with pytest.raises(R2medError, match=r"^token 0 .* 'same', stands there twice"):
            impacts.build([(["a"], sparse([[1, 2]]))], ["same", "same"], tmp_path, 1, pool)

    @pytest.mark.parametrize("identifier", ["1", "a b".replace(" ", "\u00a0"), '"', "日本", "a/b", "\\n"])
    def test_ids_come_back_as_they_are(self, tmp_path, pool, identifier):
        impacts.build([([identifier, "z"], sparse([[1, 0], [0, 1]]))], ["t", "u"], tmp_path, 1, pool)
        assert found(tmp_path, {"q": {"t": 1}}, pool)["q"] == ([identifier], [1])

    def test_one_part_is_held_at_a_time(self, tmp_path, pool):
        alive: list[weakref.ref] = []

        def parts():
            for number in range(4):
                assert not [part for part in alive if part() is not None]
                rows = sparse([[1, number]])
                alive.append(weakref.ref(rows))
                yield [f"d{number}"], rows
                del rows

        assert impacts.build(parts(), ["t", "u"], tmp_path, 1, pool) == []
        assert len(alive) == 4

    def test_nothing_but_the_index_is_left_and_nothing_is_said(self, tmp_path, pool, capfd):
        impacts.build([(["a"], sparse([[1]]))], ["t"], tmp_path, 1, pool)
        assert found(tmp_path, {"q": {"t": 1}}, pool)
        assert {path.is_file() for path in tmp_path.iterdir()} == {True}
        assert not list(tmp_path.glob("*.json*"))
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize("rows", [[[0.004, 0], [0, 0]], [[0, 0]], np.zeros((0, 2))], ids=["small", "zero", "none"])
    def test_if_all_documents_are_empty_there_is_no_index(self, tmp_path, pool, rows):
        identifiers = names(len(rows))
        with pytest.raises(R2medError, match="no document has a weight that is positive"):
            impacts.build([(identifiers, sparse(rows))], ["t", "u"], tmp_path, 100, pool)
        assert list(tmp_path.iterdir()) == []

    def test_a_negative_weight_names_its_document(self, tmp_path, pool):
        with pytest.raises(R2medError, match=r"^text b: weight -1 "):
            impacts.build([(["a", "b"], sparse([[1], [-1]]))], ["t"], tmp_path, 1, pool)
        assert list(tmp_path.iterdir()) == []

    def test_a_document_that_lucene_refuses_is_missed(self, tmp_path, pool, capfd):
        with pytest.raises(R2medError, match=r"1 of 3 documents reached the index; see Anserini's messages above"):
            impacts.build([(["a", "x" * 40_000, "b"], sparse([[1], [1], [1]]))], ["t"], tmp_path, 1, pool)
        assert "ERROR" in capfd.readouterr().err

    def test_a_failure_of_the_source_passes_and_leaves_nothing(self, tmp_path, pool):
        def parts():
            yield ["a"], sparse([[1]])
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            impacts.build(parts(), ["t"], tmp_path, 1, pool)
        assert list(tmp_path.iterdir()) == []

    def test_parts_that_do_not_fit_are_not_indexed(self, tmp_path, pool):
        for part in ((["a"], sparse([[1, 2, 3]])), (["a", "b"], sparse([[1, 2]]))):
            with pytest.raises(ValueError, match=r"dimensions|ids"):
                impacts.build([part], ["t", "u"], tmp_path, 1, pool)

    def test_several_can_be_built_and_searched_side_by_side(self, tmp_path, pool):
        vocabulary = [f"t{number}" for number in range(30)]
        queries = {f"q{row}": {f"t{row}": 2, f"t{row + 1}": 3} for row in range(20)}

        def job(number: int) -> dict:
            folder = tmp_path / str(number)
            impacts.build([(names(100), weights(number, 100, 30))], vocabulary, folder, 2, pool)
            return found(folder, queries, pool)

        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(job, range(4)))
        assert together == [found(tmp_path / str(number), queries, pool) for number in range(4)]
        assert together[0] != together[1]
