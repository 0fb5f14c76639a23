import math
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from r2med_pyserini.errors import R2medError
from r2med_pyserini.reranking.base import Pair
from r2med_pyserini.reranking.cache import Cache, ScoreCache

RECIPE = {"reranker": {"name": "a", "max_length": 512}, "precision": "float32"}
PAIRS = [Pair("cough", "A cough."), Pair("cough", "Chest pain."), Pair("fièvre 39 °C 𝛼", "")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "down" / "found.sqlite"


class TestCache:
    VALUES = ("[2] > [1]", 1.5, [1, None, {"a": "é"}], "", 0)

    def test_values_come_back_whatever_they_are(self, path):
        texts = [("q", str(number)) for number in range(len(self.VALUES))]
        Cache(path, RECIPE).keep(texts, self.VALUES)
        assert tuple(Cache(path, RECIPE).lookup([*texts, ("q", "other")])) == (*self.VALUES, None)

    def test_a_file_that_is_not_there_is_not_made_by_looking(self, path):
        assert Cache(path, RECIPE).lookup(PAIRS) == [None] * 3
        assert not path.parent.exists()

    @pytest.mark.parametrize(
        "texts", [("q", "b", "a"), ("q", "a"), ("q", "a", "b", ""), ("qa", "b"), ("q", "ab"), ("Q", "a", "b"), ("q",)]
    )
    def test_other_texts_in_another_order_are_others(self, path, texts):
        cache = Cache(path, RECIPE)
        cache.keep([("q", "a", "b")], ["found"])
        assert cache.lookup([texts, ("q", "a", "b"), ["q", "a", "b"]]) == [None, "found", "found"]

    def test_caches_with_other_recipes_share_a_file_and_nothing_else(self, path):
        Cache(path, RECIPE).keep([("q", "a")], [1])
        other = Cache(path, RECIPE | {"precision": "float16"})
        assert other.lookup([("q", "a")]) == [None]
        other.keep([("q", "a")], [2])
        assert Cache(path, dict(reversed(RECIPE.items()))).lookup([("q", "a")]) == [1]

    def test_a_later_value_takes_the_place_of_an_earlier_one(self, path):
        cache = Cache(path, RECIPE)
        cache.keep([("q", "a")], [1])
        cache.keep([("q", "a")], [2])
        assert cache.lookup([("q", "a")]) == [2]

    def test_more_than_one_statement_can_name(self, path):
        texts = [("q", str(number)) for number in range(1203)]
        Cache(path, RECIPE).keep(texts[::2], list(range(0, 1203, 2)))
        found = Cache(path, RECIPE).lookup(texts)
        assert found == [None if number % 2 else number for number in range(1203)]

    def test_several_threads_write_and_read_at_once(self, path):
        def work(number):
            cache = Cache(path, RECIPE)
            cache.keep([("q", str(number))], [number])
            return cache.lookup([("q", str(number))])

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(40))) == [[number] for number in range(40)]

    def test_what_is_no_cache_is_a_clear_error(self, path):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"no database " * 200)
        for use in (lambda cache: cache.lookup([("q",)]), lambda cache: cache.keep([("q",)], [1])):
            with pytest.raises(
                R2medError, match=r"found\.sqlite: .*; remove the file, and what it holds is asked for again"
            ):
                use(Cache(path, RECIPE))

    @pytest.mark.parametrize("value", ["[1, ", "", "NaN x", 3, None, b"1"])
    def test_a_damaged_value_is_asked_for_again(self, path, value):
        cache = Cache(path, RECIPE)
        cache.keep([("q",)], [1])
        overwrite(path, value)
        assert cache.lookup([("q",)]) == [None]

    def test_a_folder_that_cannot_be_made_is_a_clear_error(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(R2medError, match=r"file: File exists"):
            Cache(tmp_path / "file" / "found.sqlite", RECIPE).keep([("q",)], [1])


def overwrite(path, value):
    """Put something else in the place of every value that is kept."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other AS SELECT key, ? AS value FROM found", [value])
        connection.execute("DROP TABLE found")
        connection.execute("ALTER TABLE other RENAME TO found")
    connection.close()


class TestScores:
    @pytest.mark.parametrize(
        "value", ["3", "[]", "[null, true]", '["x", 1]', '{"a": 1}', "NaN", "[1e999, false]", "[NaN, false]", "[1, 1]"]
    )
    def test_an_odd_score_is_asked_for_again(self, path, value):
        cache = ScoreCache(path, RECIPE)
        cache.put(PAIRS[:1], [1.0], [False])
        overwrite(path, value)
        assert cache.get(PAIRS[:1]) == [None]

    def test_scores_come_back_bit_for_bit(self, path):
        scores = [0.1 + 0.2, -1e-300, 12345678.900000001]
        ScoreCache(path, RECIPE).put(PAIRS, scores, [True, False, True])
        found = ScoreCache(path, RECIPE).get([*PAIRS, Pair("A cough.", "cough")])
        assert found == [(scores[0], True), (scores[1], False), (scores[2], True), None]
        assert [type(value) for value in found[0]] == [float, bool]

    def test_numbers_of_numpy_are_taken(self, path):
        import numpy as np

        ScoreCache(path, RECIPE).put(PAIRS[:1], np.array([0.5], dtype=np.float32), np.array([True]))
        assert ScoreCache(path, RECIPE).get(PAIRS[:1]) == [(0.5, True)]

    def test_what_is_no_score_is_not_kept(self, path):
        cache = ScoreCache(path, RECIPE)
        cache.put(PAIRS, [math.nan, 1.0, -math.inf], [False] * 3)
        assert cache.get(PAIRS) == [None, (1.0, False), None]
