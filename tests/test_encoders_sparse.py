"""Learned sparse encoders as tiny random models, against the formulas on logits of plain transformers."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import encoders
from r2med_pyserini.encoders import Settings, sparse
from r2med_pyserini.encoders.running import TorchEncoder
from r2med_pyserini.models import DOCUMENT, QUERY, SIDES

from . import tiny_models
from .plain_models import Plain

TEXTS = [
    "chest pain",
    "A cough with rusty sputum, fever of 39 °C and chills.",
    "",
    "pain " * 60,
    "Night blindness",
    "x",
]
LIMIT = 40
SPLADE = ["splade-v3", "splade-pp-ensembledistil"]
FREE = "opensearch-doc-v3-distill"


@pytest.fixture(scope="module", autouse=True)
def hub(tmp_path_factory):
    with tiny_models.hub_cache(tmp_path_factory.mktemp("hub")) as folder:
        yield folder
        load.cache_clear()
        plain.cache_clear()


@cache
def load(name: str, **settings):
    model = replace(tiny_models.make(name), max_length={QUERY: LIMIT, DOCUMENT: LIMIT})
    size = plain(name).tokenizer.get_vocab_size()
    return encoders.load(replace(model, dimensions=size), Settings(**({"threads": 2} | settings)))


@cache
def plain(name: str) -> Plain:
    return Plain(tiny_models.snapshot(tiny_models.make(name)), "AutoModelForMaskedLM")


def encode(encoder, texts, side):
    found = encoder.encode(texts, side, "biology", lambda number: None)
    assert found.vectors.dtype == np.float32
    assert found.vectors.format == "csr"
    return found


def splade(name: str, text: str) -> np.ndarray:
    """The largest log(1 + relu(logit)) over a text's positions, of each token of the vocabulary."""
    known = plain(name)
    ids = known.ids(text)
    ids = [*ids[: LIMIT - 1], ids[-1]] if len(ids) > LIMIT else ids
    return np.log1p(np.maximum(known.states(ids, output="logits"), 0)).max(axis=0)


def table(text: str) -> np.ndarray:
    """The weight of each token that a text has."""
    import safetensors.numpy

    known = plain(FREE)
    path = tiny_models.snapshot(tiny_models.make(FREE)) / "query_0_SparseStaticEmbedding" / "model.safetensors"
    weights = safetensors.numpy.load_file(path)["weight"]
    ids = known.tokenizer.encode(text, add_special_tokens=False).ids[:LIMIT]
    vector = np.zeros_like(weights)
    vector[ids] = weights[ids]
    return vector


def close(found, wanted: list[np.ndarray]) -> bool:
    """Measured were 5e-7."""
    return bool(np.abs(found.toarray() - np.array(wanted)).max() <= 1e-5)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", SPLADE)
class TestSplade:
    def test_weights_are_those_of_the_formula_whatever_else_is_in_the_batch(self, name, side):
        found = encode(load(name), TEXTS, side)
        assert close(found.vectors, [splade(name, text) for text in TEXTS])
        assert found.truncated == 1

    def test_a_text_alone_has_the_same(self, name, side):
        assert close(encode(load(name), TEXTS[:1], side).vectors, [splade(name, TEXTS[0])])

    def test_what_is_zero_is_not_kept(self, name, side):
        vectors = encode(load(name), TEXTS, side).vectors
        assert vectors.nnz == np.count_nonzero(vectors.toarray()) < vectors.shape[0] * vectors.shape[1]
        assert vectors.data.min() > 0


class TestInferenceFree:
    def test_a_query_has_the_weights_of_its_tokens(self):
        found = encode(load(FREE), TEXTS, QUERY)
        assert np.array_equal(found.vectors.toarray(), np.array([table(text) for text in TEXTS]))
        assert found.truncated == 1

    def test_start_and_end_tokens_have_no_weight_in_a_query(self):
        row = encode(load(FREE), ["chest pain"], QUERY).vectors
        vocabulary = load(FREE).vocabulary()
        assert sorted(vocabulary[column] for column in row.indices) == ["chest", "pain"]

    def test_an_empty_query_has_no_weight_at_all(self):
        vectors = encode(load(FREE), ["", "chest pain"], QUERY).vectors
        assert np.diff(vectors.indptr).tolist() == [0, 2]
        assert encode(load(FREE), [""], QUERY).vectors.nnz == 0

    def test_documents_go_through_the_network_and_the_logarithm_twice(self):
        found = encode(load(FREE), TEXTS, DOCUMENT)
        assert close(found.vectors, [np.log1p(splade(FREE, text)) for text in TEXTS])
        assert found.truncated == 1


@pytest.mark.parametrize(("name", "side"), [(SPLADE[0], DOCUMENT), (FREE, QUERY), (FREE, DOCUMENT)])
class TestAnyKind:
    def test_bits_are_the_same_whatever_the_number_of_threads(self, name, side):
        texts = [" ".join(["chest", "pain", "fever"] * (row % 9)) for row in range(200)]
        one, three = (encode(load(name, threads=threads), texts, side).vectors for threads in (1, 3))
        assert np.array_equal(one.toarray(), three.toarray())

    def test_no_text_has_no_vector(self, name, side):
        size = plain(name).tokenizer.get_vocab_size()
        assert encode(load(name), [], side).vectors.shape == (0, size)

    def test_the_vocabulary_names_every_dimension(self, name, side):
        vocabulary = load(name).vocabulary()
        assert [plain(name).number(token) for token in vocabulary] == list(range(len(vocabulary)))


@pytest.mark.parametrize(
    ("name", "first", "loaded"),
    [
        (SPLADE[0], QUERY, [QUERY]),
        (SPLADE[1], DOCUMENT, [DOCUMENT]),
        (FREE, QUERY, [QUERY, DOCUMENT]),
        (FREE, DOCUMENT, [DOCUMENT, QUERY]),
    ],
)
def test_a_model_is_loaded_once_unless_its_sides_go_different_ways(name, first, loaded):
    model, asked = tiny_models.make(name), []

    def load(side: str, dtype: str):
        asked.append(side)
        return sparse.load(model, tiny_models.snapshot(model), dtype, side)

    encoder = TorchEncoder(replace(model, dimensions=plain(name).tokenizer.get_vocab_size()), Settings(), load)
    encode(encoder, ["chest pain"], first)
    assert encoder.vocabulary()[plain(name).number("chest")] == "chest"
    assert asked == [first]
    for side in (first, DOCUMENT, QUERY):
        encode(encoder, ["chest pain"], side)
    assert asked == loaded


def test_half_precision_is_close():
    half, full = (encode(load("splade-v3", **how), TEXTS, DOCUMENT).vectors for how in ({"dtype": "bfloat16"}, {}))
    half, full = half.toarray(), full.toarray()
    cosines = (half * full).sum(axis=1) / np.linalg.norm(half, axis=1) / np.linalg.norm(full, axis=1)
    assert cosines.min() > 0.999
    assert not np.array_equal(half, full)


def test_pooling_by_the_sum_is_that_of_the_files(tmp_path):
    """Only pooling by the largest has a shorter way here."""
    folder = tiny_models.snapshot(tiny_models.make("splade-v3"))
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    pooling = {"pooling_strategy": "sum", "activation_function": "relu", "word_embedding_dimension": None}
    tiny_models.write(copied, "1_SpladePooling/config.json", pooling)
    model = tiny_models.make("splade-v3")
    encoder = TorchEncoder(model, Settings(), lambda side, dtype: sparse.load(model, copied, dtype, side))
    known = plain("splade-v3")
    texts = ["chest pain", "x", "Night blindness may stem from a lack of vitamin A."]
    wanted = [np.log1p(np.maximum(known.states(known.ids(text), output="logits"), 0)).sum(axis=0) for text in texts]
    assert close(encode(encoder, texts, DOCUMENT).vectors, wanted)
