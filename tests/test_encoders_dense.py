"""Every architecture of models.yaml as a tiny random model, against its formula on states of plain transformers.

The formulas are written out in NumPy: which tokens a text becomes, which of their states are pooled, and how.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from r2med_pyserini import encoders, models
from r2med_pyserini.encoders import Settings, batching, dense
from r2med_pyserini.encoders.base import BFLOAT16, FLOAT16
from r2med_pyserini.encoders.running import Route, TorchEncoder
from r2med_pyserini.models import DOCUMENT, QUERY, SIDES, Model

from . import tiny_models
from .plain_models import Plain

LIMITS = {QUERY: 110, DOCUMENT: 90}
LONG = "Which drug eases chest pain with fever and chills? " * 67  # 603 words
TEXTS = [
    "chest pain",
    "A cough with rusty sputum, fever of 39 °C and chills:\nit may be pneumonia, which needs a drug at once.",
    "",
    LONG,
    "Night blindness",
    "x",
]
DATASET = "biology"


@pytest.fixture(scope="module", autouse=True)
def hub(tmp_path_factory):
    with tiny_models.hub_cache(tmp_path_factory.mktemp("hub")) as folder:
        yield folder
        load.cache_clear()
        route.cache_clear()
        plain.cache_clear()


@cache
def load(name: str, short: bool = True, **settings) -> TorchEncoder:
    """An encoder as users get it, but for the lengths, which are LIMITS if `short`."""
    model = tiny_models.make(name)
    return encoders.load(replace(model, max_length=LIMITS) if short else model, Settings(**({"threads": 2} | settings)))


@cache
def route(name: str, short: bool = True) -> Route:
    """What documents go through in such an encoder."""
    model = tiny_models.make(name)
    return dense.load(
        replace(model, max_length=LIMITS) if short else model, tiny_models.snapshot(model), "float32", False
    )


@cache
def plain(name: str, side: str) -> Plain:
    model = tiny_models.make(name)
    return Plain(tiny_models.snapshot(model, side), "T5EncoderModel" if "instructor" in name else "AutoModel")


def encode(encoder, texts, side=DOCUMENT, dataset=DATASET):
    return encoder.encode(texts, side, dataset, lambda number: None)


Pool = Callable[[np.ndarray, int], np.ndarray]  # states, number of tokens that come before the text


def mean(states: np.ndarray, prompt: int) -> np.ndarray:
    return states.mean(axis=0)


def mean_of_text(states: np.ndarray, prompt: int) -> np.ndarray:
    return states[prompt:].mean(axis=0) if len(states) > prompt else np.zeros(states.shape[1])


def first(states: np.ndarray, prompt: int) -> np.ndarray:
    return states[0]


def last(states: np.ndarray, prompt: int) -> np.ndarray:
    return states[-1]


@dataclass(frozen=True)
class Formula:
    """What a model makes of a text: the special tokens around it, what is pooled, and whether lengths become one."""

    begin: tuple[str, ...]
    end: tuple[str, ...]
    pool: Pool
    unit: bool
    both_ways: bool = False

    def ids(self, plain: Plain, text: str, limit: int | None = None) -> tuple[list[int], bool]:
        """The tokens of a text with its prompt, cut at the limit; and whether it was cut."""
        begin, end = ([plain.number(token) for token in tokens] for tokens in (self.begin, self.end))
        body = plain.tokenizer.encode(text, add_special_tokens=False).ids
        room = len(body) if limit is None else limit - len(begin) - len(end)
        return [*begin, *body[:room], *end], len(body) > room

    def vector(self, plain: Plain, model: Model, side: str, text: str, both_ways: bool | None = None) -> np.ndarray:
        prompt = model.prompt(side, DATASET)
        ids, _ = self.ids(plain, prompt + text, model.max_length[side])
        before = len(replace(self, end=()).ids(plain, prompt)[0]) if prompt else 0
        more = {}
        if len(self.begin) == 2:  # a pair of texts: the first, with its end token, and the second
            more["token_type_ids"] = [0] * 2 + [1] * (len(ids) - 2)
        states = plain.states(ids, self.both_ways if both_ways is None else both_ways, **more)
        vector = self.pool(states, before)
        if model.name.startswith("instructor"):
            vector = dense_layer(model) @ vector
        return vector / max(np.linalg.norm(vector), 1e-12) if self.unit else vector


def dense_layer(model: Model) -> np.ndarray:
    import torch

    return torch.load(tiny_models.snapshot(model) / "2_Dense" / "pytorch_model.bin")["linear.weight"].numpy()


BERT = Formula(("[CLS]",), ("[SEP]",), first, unit=False)
E5 = Formula(("<s>",), ("</s>",), last, unit=True)
QWEN2 = Formula((), ("<|endoftext|>",), last, unit=True, both_ways=True)
FORMULAS = {
    "contriever-msmarco": replace(BERT, pool=mean),
    "medcpt": BERT,
    "medcpt-fixed": BERT,
    "bge-large-en-v1.5": replace(BERT, unit=True),
    "all-mpnet-base-v2": Formula(("<s>",), ("</s>",), mean, unit=True),
    "bge-m3": Formula(("<s>",), ("</s>",), first, unit=True),
    "instructor-large": Formula((), ("</s>",), mean_of_text, unit=True),
    "bmretriever-410m": Formula((), ("<|endoftext|>",), last, unit=False),
    "bmretriever-2b": Formula(("<bos>",), ("<eos>",), last, unit=False),
    "bmretriever-7b": replace(E5, unit=False),
    "e5-mistral-7b-instruct": E5,
    "sfr-embedding-mistral": E5,
    "gritlm-7b": Formula(("<s>",), (), mean_of_text, unit=True, both_ways=True),
    "gte-qwen2-7b-instruct": QWEN2,
    "inf-retriever-v1": QWEN2,
    "qwen3-embedding-0.6b": replace(QWEN2, both_ways=False),
}
PAIRS = {"medcpt": replace(BERT, begin=("[CLS]", "[SEP]")), "medcpt-fixed": replace(BERT, begin=("[CLS]", "[SEP]"))}


def formula(name: str, side: str) -> Formula:
    return PAIRS[name] if name in PAIRS and side == DOCUMENT else FORMULAS[name]


def expected(name: str, side: str, texts: list[str]) -> np.ndarray:
    model = replace(models.load(name), max_length=LIMITS)
    return np.array([formula(name, side).vector(plain(name, side), model, side, text) for text in texts])


def close(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether they are the same but for rounding: measured were 2e-6 of the largest value at most."""
    return bool(np.abs(found - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max()))


def cut(name: str, side: str, texts: list[str]) -> int:
    """How many of the texts are longer than the model takes."""
    prompt = models.load(name).prompt(side, DATASET)
    return sum(formula(name, side).ids(plain(name, side), prompt + text, LIMITS[side])[1] for text in texts)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", FORMULAS)
class TestFormulas:
    def test_texts_together_have_the_vectors_of_the_formula(self, name, side):
        found = encode(load(name), TEXTS, side)
        assert found.vectors.dtype == np.float32
        assert close(found.vectors, expected(name, side, TEXTS))
        assert found.truncated == cut(name, side, TEXTS) > 0

    def test_a_text_alone_has_the_vector_of_the_formula(self, name, side):
        texts = TEXTS[1:4]
        found = np.concatenate([encode(load(name), [text], side).vectors for text in texts])
        assert close(found, expected(name, side, texts))


class TestBothWays:
    NAMES = [name for name, known in FORMULAS.items() if known.both_ways]  # noqa: RUF012

    @pytest.mark.parametrize("texts", [TEXTS[1:2], TEXTS[3:4], TEXTS], ids=["alone", "cut", "padded"])
    @pytest.mark.parametrize("name", NAMES)
    def test_with_a_causal_mask_the_vectors_would_be_others(self, name, texts):
        found = encode(load(name), texts).vectors
        model = replace(models.load(name), max_length=LIMITS)
        causal = [FORMULAS[name].vector(plain(name, DOCUMENT), model, DOCUMENT, text, False) for text in texts]
        long = [len(text) > 20 for text in texts]
        assert np.abs(found - causal)[long].max(axis=1).min() > 0.02

    @pytest.mark.parametrize("together", [[], ["x " * 40]], ids=["alone", "padded"])
    @pytest.mark.parametrize("name", NAMES)
    def test_a_later_token_changes_the_state_of_the_first(self, name, together):
        first = [first_state(name, [text, *together]) for text in ("pain eases", "pain angina")]
        assert np.abs(first[0] - first[1]).max() > 0.02

    def test_in_a_causal_decoder_it_does_not(self):
        first = [first_state("e5-mistral-7b-instruct", [text]) for text in ("pain eases", "pain angina")]
        assert np.array_equal(*first)


def first_state(name: str, texts: list[str]) -> np.ndarray:
    """The state of the first text's first token, in the network as it is prepared for documents."""
    import torch

    tokenizer, module = route(name).tokenizer, route(name).module
    features = tokenizer.pad(tokenizer(texts, DOCUMENT, DATASET).features)
    with torch.inference_mode():
        states = module[0](features)["token_embeddings"]
    return states[0, int(features["attention_mask"][0].argmax())].numpy()


def filled(name: str, side: str, tokens: int) -> str:
    """A text that has so many tokens with its prompt and the special tokens."""
    known, how, prompt = plain(name, side), formula(name, side), models.load(name).prompt(side, DATASET)
    text = "pain"
    while len(how.ids(known, prompt + text)[0]) < tokens:
        longer = (text + more for more in (" pain", " a", "a", "?"))
        text = next(text for text in longer if len(how.ids(known, prompt + text)[0]) <= tokens)
    return text


class TestLimits:
    @pytest.mark.parametrize("name", [*FORMULAS])
    def test_a_text_as_long_as_the_limit_is_whole_and_one_token_more_is_cut(self, name):
        at, over = (filled(name, DOCUMENT, LIMITS[DOCUMENT] + more) for more in (0, 1))
        whole, both = encode(load(name), [at]), encode(load(name), [at, over])
        assert (whole.truncated, both.truncated) == (0, 1)
        assert close(both.vectors, expected(name, DOCUMENT, [at, over]))

    def test_a_text_of_600_words_is_cut_at_the_models_own_length(self):
        name, text = "contriever-msmarco", LONG.strip()
        assert len(text.split()) == 603
        known = plain(name, DOCUMENT)
        by_hand = [*known.ids(text)[:511], known.number("[SEP]")]
        found = encode(load(name, short=False), [text, "chest pain"])
        assert found.truncated == 1
        assert close(found.vectors[0], known.states(by_hand).mean(axis=0))

    @pytest.mark.parametrize("name", ["bmretriever-410m", "e5-mistral-7b-instruct", "qwen3-embedding-0.6b"])
    def test_a_text_that_is_cut_still_ends_in_one_end_token(self, name):
        ids = [row["input_ids"] for row in route(name).tokenizer([LONG, "x"], DOCUMENT, DATASET).features]
        end = plain(name, DOCUMENT).number(FORMULAS[name].end[0])
        assert [len(ids[0]), ids[0].count(end), ids[0][-1]] == [LIMITS[DOCUMENT], 1, end]
        assert [ids[1].count(end), ids[1][-1]] == [1, end]

    @pytest.mark.parametrize(("name", "limit"), [("instructor-large", 512), ("gte-qwen2-7b-instruct", 8192)])
    def test_where_the_facts_name_no_length_it_is_that_of_the_files(self, name, limit):
        assert models.load(name).max_length == {QUERY: None, DOCUMENT: None}
        found = route(name, short=False).tokenizer(["pain " * limit, "x"], DOCUMENT, DATASET)
        assert found.truncated == 1
        assert found.lengths[0] == limit


SAME = ["contriever-msmarco", "e5-mistral-7b-instruct", "gritlm-7b", "instructor-large"]
WORDS = ["chest", "pain", "fever", "cough", "drug", "x"]
MANY = [" ".join(WORDS[(row * place) % 6] for place in range(row % 23)) for row in range(150)]


class TestSameBits:
    @pytest.mark.parametrize("name", SAME)
    def test_whatever_the_number_of_threads(self, name):
        one, two, five = (encode(load(name, threads=threads), MANY).vectors for threads in (1, 2, 5))
        assert np.array_equal(one, two)
        assert np.array_equal(one, five)

    @pytest.mark.parametrize("name", SAME)
    def test_whatever_the_order_of_the_batches(self, name, monkeypatch):
        plan = batching.plan
        usual = encode(load(name), MANY).vectors
        assert len(plan([len(text) for text in MANY], 1024, 256)) > 3
        monkeypatch.setattr(batching, "plan", lambda *how: plan(*how)[::-1])
        assert np.array_equal(encode(load(name), MANY).vectors, usual)

    def test_every_text_is_told_of_once(self):
        told = []
        load("contriever-msmarco").encode(MANY, DOCUMENT, DATASET, told.append)
        assert sum(told) == len(MANY)
        assert len(told) > 1

    def test_no_text_has_no_vector(self):
        found = encode(load("contriever-msmarco", short=False), [])
        assert (found.vectors.shape, found.vectors.dtype, found.truncated) == ((0, 768), np.float32, 0)


class TestPrecision:
    @pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
    @pytest.mark.parametrize("name", [*SAME, "bge-m3", "bmretriever-2b", "qwen3-embedding-0.6b", "all-mpnet-base-v2"])
    def test_half_precision_is_close(self, name, dtype):
        encoder = load(name, dtype=dtype)
        assert encoder.precision == dtype
        found, full = encode(encoder, TEXTS[:2]).vectors, encode(load(name), TEXTS[:2]).vectors
        assert found.dtype == np.float32
        assert not np.array_equal(found, full)
        cosines = (found * full).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(full, axis=1)
        assert cosines.min() > 0.999

    def test_on_processors_it_is_single_unless_one_says_otherwise(self):
        encoder = load("gritlm-7b")
        assert (encoder.precision, encoder.device) == ("float32", "cpu")


@pytest.mark.parametrize("name", ["gritlm-7b", "gte-qwen2-7b-instruct"])
def test_remote_code_that_is_not_needed_is_not_run_even_where_allowed(name):
    assert encode(load(name, trust_remote_code=True), ["x"]).vectors.shape == (1, tiny_models.DIMENSIONS)


def test_a_text_is_worth_what_its_prompt_says():
    """The other way round, a prompt that is lost would not be seen."""
    encoder = load("bge-large-en-v1.5")
    query, document = (encode(encoder, ["chest pain"], side).vectors for side in (QUERY, DOCUMENT))
    assert np.abs(query - document).max() > 0.02
