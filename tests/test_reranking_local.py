"""Every architecture of rerankers.yaml that runs here as a tiny random model, against plain transformers.

There a pair is scored by itself, without padding, with the weights in float32, by the class that has the architecture.
"""

import copy
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import reranking
from r2med_pyserini.encoders import Settings, batching
from r2med_pyserini.encoders.base import BFLOAT16, FLOAT16
from r2med_pyserini.errors import R2medError
from r2med_pyserini.rerankers import Reranker
from r2med_pyserini.reranking import local
from r2med_pyserini.reranking.base import Pair
from r2med_pyserini.reranking.local import LocalScorer

from . import tiny_models, tiny_rerankers
from .tiny_rerankers import NAMES

MONOBERT, MINILM, BGE, MXBAI, RANKLLAMA, MONOT5, QWEN3 = NAMES
LIMITS = dict.fromkeys(NAMES, 90) | {QWEN3: 420}
DATASET = "biology"
WORDS = ["fever", "drug", "heart", "cough", "vitamin", "liver"]  # of one token each
LONG = " ".join(random.Random(1).choices(WORDS, k=600))
PAIRS = [
    Pair("chest pain", "A cough with rusty sputum, fever of 39 °C and chills:\nit may be pneumonia."),
    Pair("Which drug eases the pain?", LONG),
    Pair("x", ""),
    Pair("", "Night blindness may stem from a lack of vitamin A."),
    Pair("Which drug eases the pain?", "x"),
    Pair("pain fever", "The liver makes bile; the gall bladder keeps bile."),
    Pair("pain fever", "The gall bladder makes bile; the liver keeps bile."),
]
needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="needs the extra `rankllama`")
EVERY = [pytest.param(name, marks=needs_peft) if name == RANKLLAMA else name for name in NAMES]


@pytest.fixture(scope="module", autouse=True)
def hub(tmp_path_factory):
    with tiny_rerankers.hub_cache(tmp_path_factory.mktemp("hub")) as folder:
        yield folder
        load.cache_clear()
        plain.cache_clear()


@cache
def load(name: str, windows: bool = False, limit: int | None = None, **settings) -> LocalScorer:
    """A reranker as users get it, but for the length."""
    reranker = tiny_rerankers.make(name, max_length=limit or LIMITS[name])
    return reranking.load(reranker, Settings(**({"threads": 2} | settings)), windows)


def score(scorer: LocalScorer, pairs: list[Pair] = PAIRS, told: Callable[[int], None] = lambda number: None):
    return scorer.score(pairs, DATASET, told)


def scores(name: str, pairs: list[Pair] = PAIRS, **how) -> np.ndarray:
    return np.array(score(load(name, **how), pairs).scores)


# plain transformers


@dataclass(frozen=True)
class Plain:
    """A tokenizer and a network of transformers."""

    tokenizer: object
    network: object

    def logits(self, *texts: str, limit: int | None = None, **more) -> np.ndarray:
        """Of one text, or of a pair, which is cut at the limit in transformers' own way."""
        import torch

        cut = {"truncation": limit is not None, "max_length": limit}
        lists = [[text] for text in texts]  # by itself an empty document would be none
        tokens = self.tokenizer(*lists, return_tensors="pt", **cut)
        with torch.inference_mode():
            found = self.network(**tokens, **{key: torch.tensor(value) for key, value in more.items()}).logits[0]
        return found.numpy()


@cache
def plain(name: str) -> Plain:
    import torch
    import transformers

    *adapter, folder = tiny_rerankers.folders(tiny_rerankers.make(name))
    tokenizer, network = {
        MONOBERT: ("BertTokenizer", "BertForSequenceClassification"),
        MINILM: ("AutoTokenizer", "BertForSequenceClassification"),
        BGE: ("AutoTokenizer", "XLMRobertaForSequenceClassification"),
        MXBAI: ("AutoTokenizer", "DebertaV2ForSequenceClassification"),
        RANKLLAMA: ("AutoTokenizer", "LlamaForSequenceClassification"),
        MONOT5: ("AutoTokenizer", "T5ForConditionalGeneration"),
        QWEN3: ("AutoTokenizer", "Qwen3ForCausalLM"),
    }[name]
    how = {"num_labels": 1} if adapter else {}
    made = getattr(transformers, network).from_pretrained(folder, dtype=torch.float32, **how)
    if adapter:
        from peft import PeftModel

        made = PeftModel.from_pretrained(made, adapter[0])  # which is not merged
    return Plain(getattr(transformers, tokenizer).from_pretrained(folder), made.eval())


def of_class(number: int, query: str = "{}", document: str = "{}") -> Callable[[Plain, Pair, int], float]:
    def logit(known: Plain, pair: Pair, limit: int) -> float:
        return known.logits(query.format(pair.query), document.format(pair.document), limit=limit)[number]

    return logit


def of_words(prompt: str, yes: str, no: str, **more) -> Callable[[Plain, Pair, int], float]:
    """For a document of words that are a token each: it loses words at its end until all fits."""

    def difference(known: Plain, pair: Pair, limit: int) -> float:
        words = pair.document.split(" ")
        while len(known.tokenizer(prompt.format(pair.query, " ".join(words)))["input_ids"]) > limit:
            words.pop()
        logits = known.logits(prompt.format(pair.query, " ".join(words)), **more)[-1]
        return logits[known.tokenizer.convert_tokens_to_ids(yes)] - logits[known.tokenizer.convert_tokens_to_ids(no)]

    return difference


QWEN3_PROMPT = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "<Instruct>: Given a Biology post, retrieve relevant passages that help answer the post\n"
    "<Query>: {}\n<Document>: {}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
FORMULAS = {
    MONOBERT: of_class(1),
    MINILM: of_class(0),
    BGE: of_class(0),
    MXBAI: of_class(0),
    RANKLLAMA: of_class(0, "query: {}", "document: {}"),
    MONOT5: of_words("Query: {} Document: {} Relevant:", "▁true", "▁false", decoder_input_ids=[[0]]),
    QWEN3: of_words(QWEN3_PROMPT, "yes", "no"),
}


def expected(name: str, pairs: list[Pair] = PAIRS, limit: int | None = None) -> np.ndarray:
    return np.array([FORMULAS[name](plain(name), pair, limit or LIMITS[name]) for pair in pairs])


def close(found: np.ndarray, wanted: np.ndarray, most: float = 1e-5) -> bool:
    """Whether they are the same but for rounding, and not all alike."""
    return bool(np.abs(found - wanted).max() <= most * max(1, np.abs(wanted).max()) and np.ptp(wanted) > 0.1)


@pytest.mark.parametrize("name", EVERY)
class TestFormulas:
    def test_pairs_together_have_the_scores_of_the_formula(self, name):
        found = score(load(name))
        assert close(np.array(found.scores), expected(name))
        assert found.cut == [pair.document == LONG for pair in PAIRS]

    def test_a_pair_alone_has_the_score_of_the_formula(self, name):
        assert close(np.concatenate([scores(name, [pair]) for pair in PAIRS]), expected(name))

    def test_at_the_length_that_the_facts_name(self, name):
        usual = tiny_rerankers.described(name).max_length
        pairs = [Pair("chest pain", (LONG + " ") * (2 if usual <= 1024 else 0)), *PAIRS]
        assert close(scores(name, pairs, limit=usual), expected(name, pairs, limit=usual))

    def test_query_and_document_are_not_the_same_to_it(self, name):
        found = scores(name, [Pair("chest pain", "The liver makes bile."), Pair("The liver makes bile.", "chest pain")])
        assert abs(found[0] - found[1]) > 1e-3


@pytest.mark.parametrize("name", [MINILM, BGE, MXBAI])
def test_sentence_transformers_scores_alike(name):
    import torch
    from sentence_transformers import CrossEncoder

    folder = tiny_rerankers.folders(tiny_rerankers.make(name))[0]
    theirs = CrossEncoder(str(folder), device="cpu", max_length=LIMITS[name], model_kwargs={"dtype": torch.float32})
    wanted = theirs.predict([tuple(pair) for pair in PAIRS], batch_size=3, activation_fn=torch.nn.Identity())
    assert close(scores(name), wanted)


def test_positions_are_counted_from_the_first_token_of_a_text():
    """Qwen3 itself sees only how far tokens are apart; others would not."""
    scorer, seen = load(QWEN3), []
    (module,) = scorer._model.placed.values()
    hook = module.register_forward_pre_hook(lambda module, args, given: seen.append(given), with_kwargs=True)
    try:
        score(scorer)
    finally:
        hook.remove()
    masks = [given["attention_mask"].bool() for given in seen]
    assert any(not mask[:, 0].all() for mask in masks)
    for given, mask in zip(seen, masks, strict=True):
        for row, places in zip(mask, given["position_ids"], strict=True):
            assert row[-1]
            assert places[row].tolist() == list(range(int(row.sum())))


def test_the_probability_that_monot5_s_authors_rank_by_ranks_the_same():
    """softmax over the two logits, https://arxiv.org/abs/2003.06713."""
    known = plain(MONOT5)
    yes, no = known.tokenizer.convert_tokens_to_ids(["▁true", "▁false"])
    logits = [
        known.logits(f"Query: {pair.query} Document: {pair.document} Relevant:", decoder_input_ids=[[0]])[-1]
        for pair in PAIRS
        if pair.document != LONG
    ]
    odds = np.array([np.exp(one[yes]) / (np.exp(one[yes]) + np.exp(one[no])) for one in logits])
    found = scores(MONOT5, [pair for pair in PAIRS if pair.document != LONG])
    assert 1 / (1 + np.exp(-found)) == pytest.approx(odds, abs=1e-6)


# windows


@pytest.mark.parametrize("name", EVERY)
def test_with_windows_the_best_one_counts(name):
    blank = " " if name == QWEN3 else ""  # without it a first word has other tokens than later ones
    words = f"{LONG} liver".split()
    pairs = [Pair(query, f"{blank}{LONG} liver") for query in ("chest pain", "Which drug eases the pain?")]
    found = score(load(name, windows=True), [*pairs, PAIRS[0], PAIRS[2]])
    assert found.cut == [False] * 4
    later = []
    for pair, best in zip(pairs, found.scores, strict=False):
        usual = rows(name, pair)
        kept = next(n for n in range(600) if rows(name, Pair(pair.query, blank + " ".join(words[:n]))) == usual)
        starts = [0]
        while starts[-1] + kept < len(words):
            starts.append(starts[-1] + kept - kept // 2)
        windows = [Pair(pair.query, blank + " ".join(words[start : start + kept])) for start in starts]
        by_window = scores(name, windows)
        assert len(windows) > 3
        assert best == pytest.approx(by_window.max(), abs=1e-5)
        later.append(best > by_window[0] + 1e-4)
    assert any(later)  # or the first window would do
    assert found.scores[2:] == pytest.approx(scores(name, [PAIRS[0], PAIRS[2]]), abs=1e-5)


def rows(name: str, pair: Pair) -> list[dict]:
    return load(name)._model.tokenizer([pair], DATASET)[0].rows


# the same bits

MANY = [Pair(WORDS[row % 4], " ".join(WORDS[(row * place) % 5] for place in range(row % 41))) for row in range(120)]


class TestSameBits:
    @pytest.mark.parametrize("name", [MINILM, MONOT5, QWEN3])
    def test_whatever_the_number_of_threads(self, name):
        one, two, five = (scores(name, MANY, threads=threads) for threads in (1, 2, 5))
        assert np.array_equal(one, two)
        assert np.array_equal(one, five)

    def test_whatever_the_order_of_the_batches(self, monkeypatch):
        plan, usual = batching.plan, scores(MINILM, MANY)
        monkeypatch.setattr(batching, "plan", lambda *how: plan(*how)[::-1])
        assert np.array_equal(scores(MINILM, MANY), usual)

    @pytest.mark.parametrize("windows", [False, True])
    def test_every_pair_is_told_of_once(self, windows):
        told, pairs = [], [*MANY, *PAIRS]
        found = score(load(MINILM, windows=windows, threads=5), pairs, told.append)
        assert (sum(told), len(found.scores), len(told) > 1) == (len(pairs), len(pairs), True)

    def test_a_model_is_not_loaded_before_it_is_used(self, own):
        scorer = load.__wrapped__(MINILM)
        (folder,) = tiny_rerankers.folders(tiny_rerankers.described(MINILM))
        shutil.rmtree(folder)
        assert scorer.precision == "float32"
        with pytest.raises(R2medError, match="not in the cache"):
            score(scorer)

    def test_no_pairs_have_no_scores(self):
        found = score(load(MINILM), [])
        assert (found.scores, found.cut) == ([], [])

    def test_what_pytorch_says_of_a_failure_is_told_in_one_line(self):
        def fail(*_):
            raise RuntimeError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA")

        scorer = load.__wrapped__(MINILM)
        scorer._model = scorer._model._replace(score=fail)
        with pytest.raises(R2medError, match=r"^model \S+ failed on cpu: CUDA error: device-side assert triggered$"):
            score(scorer)

    def test_too_little_memory_for_a_batch_is_no_harm(self, monkeypatch):
        scorer, usual = load(MINILM, threads=1), scores(MINILM, MANY, threads=1)
        work, refused = scorer._work, []

        def small_only(rows, found, device, batch):
            if len(batch) > 3:
                refused.append(batch)
                raise RuntimeError("CUDA out of memory")
            work(rows, found, device, batch)

        monkeypatch.setattr(scorer, "_work", small_only)
        told = []
        assert score(scorer, MANY, told.append).scores == pytest.approx(usual.tolist(), abs=1e-5)
        assert refused
        assert sum(told) == len(MANY)


# precision


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize("name", EVERY)
class TestHalfPrecision:
    def test_is_close(self, name, dtype):
        assert load(name, dtype=dtype).precision == dtype
        found, full = scores(name, dtype=dtype), scores(name)
        assert not np.array_equal(found, full)
        assert close(found, full, most=0.05)

    def test_with_weights_in_it_too_as_on_a_gpu(self, name, dtype):
        scorer = load.__wrapped__(name)
        scorer._machine.weights = dtype
        found = np.array(score(scorer).scores)
        (module,) = scorer._model.placed.values()
        assert str(module.get_input_embeddings().weight.dtype) == f"torch.{dtype}"
        assert not np.array_equal(found, scores(name))
        assert close(found, scores(name), most=0.05)

    def test_the_last_layer_tells_more_scores_apart_than_half_precision_could(self, name, dtype):
        import torch

        found = torch.tensor(score(load(name, dtype=dtype), MANY).scores, dtype=torch.float64)
        in_half = found.to(getattr(torch, dtype)).to(torch.float64)
        assert (found != in_half).float().mean() > 0.9
        assert torch.equal(found, found.float().double())


@pytest.mark.parametrize("name", EVERY)
def test_a_copy_for_another_device_has_weights_of_its_own(name):
    import torch

    scorer = LocalScorer(tiny_rerankers.make(name), Settings())
    (module,) = scorer._model.placed.values()
    features = scorer._model.tokenizer.pad(
        [row for found in scorer._model.tokenizer(PAIRS[:1], DATASET) for row in found.rows]
    )
    other = copy.deepcopy(module)
    with torch.inference_mode():
        before = scorer._model.score(module, features)
        for weight in module.parameters():
            weight.zero_()
        assert torch.equal(scorer._model.score(other, features), before)
        assert not torch.equal(scorer._model.score(module, features), before)


# what cannot be used


@pytest.fixture
def own(tmp_path):
    """A cache for one test, in which files may be damaged."""
    with tiny_rerankers.hub_cache(tmp_path / "hub"):
        yield


def failure(reranker: Reranker, **settings) -> str:
    """What is said when a reranker is loaded, and scores: one line."""
    with pytest.raises(R2medError) as caught:
        score(LocalScorer(reranker, Settings(**settings)))
    said = str(caught.value)
    assert "\n" not in said
    return said


def edit(file: Path, change: Callable[[dict], None]) -> None:
    import safetensors.torch

    weights = safetensors.torch.load_file(file)
    change(weights)
    safetensors.torch.save_file(weights, file, {"format": "pt"})


def without(*names: str) -> Callable[[dict], None]:
    def change(weights: dict) -> None:
        for name in names:
            del weights[name]

    return change


@pytest.mark.usefixtures("own")
class TestDamage:
    @pytest.mark.parametrize(
        ("name", "weight"),
        [
            (MINILM, "bert.pooler.dense.weight"),
            (MINILM, "classifier.weight"),
            (MINILM, "classifier.bias"),
            (MINILM, "bert.encoder.layer.1.output.dense.weight"),
            (BGE, "classifier.dense.weight"),
            (BGE, "classifier.out_proj.weight"),
            (MXBAI, "pooler.dense.weight"),
            (MONOT5, "decoder.block.1.layer.1.EncDecAttention.q.weight"),
            (QWEN3, "model.norm.weight"),
        ],
    )
    def test_weights_that_are_missing_are_an_error(self, name, weight):
        reranker = tiny_rerankers.make(name)
        (folder,) = tiny_rerankers.folders(reranker)
        edit(folder / "model.safetensors", without(weight))
        assert f"its files in {folder} lack weights, or have them in another shape ({weight})" in failure(reranker)

    @needs_peft
    def test_without_an_adapter_a_decoder_must_have_its_head(self):
        base_id, revision = tiny_rerankers.make(RANKLLAMA).repositories()[1]
        said = failure(tiny_rerankers.described(MINILM, id=base_id, revision=revision))
        assert "lack weights, or have them in another shape (score.weight)" in said

    @needs_peft
    @pytest.mark.parametrize(
        "weight",
        [
            "base_model.model.score.weight",
            "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
            "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight",
        ],
    )
    def test_weights_that_an_adapter_lacks_are_an_error(self, weight):
        reranker = tiny_rerankers.make(RANKLLAMA)
        adapter, base = tiny_rerankers.folders(reranker)
        edit(adapter / "adapter_model.safetensors", without(weight))
        said = failure(reranker)
        assert f"the adapter in {adapter} lacks weights, or does not belong to its base in {base}" in said

    @needs_peft
    def test_an_adapter_that_does_not_say_what_it_is_for_brings_its_head_nevertheless(self):
        reranker = tiny_rerankers.make(RANKLLAMA, max_length=LIMITS[RANKLLAMA])
        adapter, _ = tiny_rerankers.folders(reranker)
        config = json.loads((adapter / "adapter_config.json").read_text())
        tiny_models.write(adapter, "adapter_config.json", config | {"task_type": None, "modules_to_save": None})
        assert close(np.array(score(LocalScorer(reranker, Settings())).scores), expected(RANKLLAMA))

    @needs_peft
    def test_weights_that_a_base_lacks_are_an_error(self):
        reranker = tiny_rerankers.make(RANKLLAMA)
        _, base = tiny_rerankers.folders(reranker)
        edit(base / "model.safetensors", without("model.layers.1.mlp.up_proj.weight"))
        assert f"its files in {base} lack weights" in failure(reranker)

    @needs_peft
    def test_an_adapter_of_another_base_is_an_error(self):
        reranker = tiny_rerankers.make(RANKLLAMA)
        adapter, _ = tiny_rerankers.folders(reranker)
        edit(adapter / "adapter_model.safetensors", lambda weights: weights.update(grown(weights)))
        assert f"model {RANKLLAMA} cannot be loaded from" in failure(reranker)

    def test_numbers_that_are_none_are_an_error(self):
        reranker = tiny_rerankers.make(MINILM)
        (folder,) = tiny_rerankers.folders(reranker)
        edit(folder / "model.safetensors", lambda weights: weights["classifier.weight"].fill_(float("nan")))
        assert failure(reranker) == f"model {MINILM} gives no number for 7 of 7 texts: its files must be damaged"
        assert failure(reranker, dtype=BFLOAT16).endswith("7 of 7 texts: try --dtype float32")

    def test_numbers_without_end_are_an_error(self):
        reranker = tiny_rerankers.make(QWEN3)
        (folder,) = tiny_rerankers.folders(reranker)
        edit(folder / "model.safetensors", lambda weights: weights["model.norm.weight"].fill_(float("inf")))
        assert f"model {QWEN3} gives no number for" in failure(reranker)

    def test_a_vocabulary_of_another_model_is_an_error(self):
        reranker = tiny_rerankers.make(MINILM)
        (folder,) = tiny_rerankers.folders(reranker)
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        known = tokenizer["model"]["vocab"]
        tokenizer["model"]["vocab"] = {word: number for word, number in known.items() if number < 20}
        tiny_models.write(folder, "tokenizer.json", tokenizer)
        assert "its tokenizer in" in failure(reranker)


def grown(weights: dict) -> dict:
    return {name: weight.repeat(1, 2) for name, weight in weights.items() if "lora_A" in name}


def changed(name: str, **changes) -> str:
    tiny_rerankers.make(name)
    return failure(tiny_rerankers.described(name, **changes))


class TestFacts:
    """rerankers.yaml and the files tell the same, or one of them is wrong."""

    def test_of_two_classes_one_must_be_named(self):
        assert "of its 2 classes, one is wanted" in changed(MONOBERT, positive=None)

    @pytest.mark.parametrize(("name", "number", "labels"), [(MONOBERT, 2, 2), (MINILM, 1, 1)])
    def test_a_class_that_there_is_not_is_an_error(self, name, number, labels):
        assert f"of its {labels} classes, number {number} is wanted" in changed(name, positive=number)

    @pytest.mark.parametrize(("name", "tokens"), [(MONOT5, ("true", "▁false")), (QWEN3, ("yes", "Ġnope"))])
    def test_answers_that_the_vocabulary_has_not_are_an_error(self, name, tokens):
        missing = tokens[0] if name == MONOT5 else tokens[1]
        assert f"model {name}: its vocabulary has no {missing!r}" in changed(name, tokens=tokens)

    @pytest.mark.parametrize(("name", "limit"), [(MINILM, 4), (MONOT5, 5), (QWEN3, 50)])
    def test_a_length_without_room_for_texts_is_an_error(self, name, limit):
        assert f"leaves no room for them within {limit} tokens" in changed(name, max_length=limit)

    def test_a_repository_that_is_not_pinned_is_not_used(self):
        assert "no revision of castorini/rankllama-v1-7b-lora-passage is pinned" in changed(RANKLLAMA, revision=None)

    def test_a_configuration_that_names_its_type_does_no_harm(self, own):
        reranker = tiny_rerankers.make(MONOBERT)
        (folder,) = tiny_rerankers.folders(reranker)
        before = score(LocalScorer(reranker, Settings())).scores
        config = json.loads((folder / "config.json").read_text())
        tiny_models.write(folder, "config.json", config | {"model_type": "bert"})
        assert score(LocalScorer(reranker, Settings())).scores == before


def test_without_peft_one_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    said = failure(tiny_rerankers.described(RANKLLAMA))
    assert said == f"{RANKLLAMA}: the package peft is not installed: pip install 'r2med-pyserini[rankllama]'"


def test_files_that_are_neither_here_nor_to_be_had_are_an_error(own):
    said = failure(tiny_rerankers.described(MINILM))
    assert said.startswith(f"{MINILM}: HF_HUB_OFFLINE is set, and the model is not in the cache: ")


def test_what_padding_is_called_does_not_matter(own):
    """Llama 2 has no token for it, and older configurations call the unknown one so."""
    reranker = tiny_rerankers.make(RANKLLAMA, max_length=LIMITS[RANKLLAMA])
    _, base = tiny_rerankers.folders(reranker)
    config = json.loads((base / "config.json").read_text())
    tiny_models.write(base, "config.json", config | {"pad_token_id": 0})
    assert close(np.array(score(LocalScorer(reranker, Settings())).scores), expected(RANKLLAMA))


@pytest.fixture
def pieces(tmp_path) -> Path:
    """The tokenizer of the folders of Castorini's T5 models: sentencepiece's file alone."""
    import sentencepiece

    from .tiny_tokenizers import SENTENCES

    lines = [line for sentence in SENTENCES for line in sentence.splitlines()]
    texts = [*lines, *["It is true.", "It is false, and not true", "Relevant: true", "false"] * 30]
    model = tmp_path / "spiece"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(model), vocab_size=200, hard_vocab_limit=False, pad_id=0,
        eos_id=1, unk_id=2, bos_id=-1, minloglevel=2, num_threads=1,
    )  # fmt: skip
    return model.with_suffix(".model")


def test_the_tokenizer_may_be_one_of_sentencepiece(own, pieces):
    import sentencepiece
    import transformers

    reranker = tiny_rerankers.make(MONOT5)
    (folder,) = tiny_rerankers.folders(reranker)
    (folder / "tokenizer.json").unlink()
    shutil.copy(pieces, folder / "spiece.model")
    sentinels = [f"<extra_id_{number}>" for number in range(100)]
    names = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    tiny_models.write(folder, "special_tokens_map.json", names)
    tiny_models.write(
        folder, "tokenizer_config.json", names | {"extra_ids": 100, "additional_special_tokens": sentinels}
    )
    known = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    config = transformers.T5Config.from_pretrained(folder)
    config.vocab_size = known.get_piece_size() + 100
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)

    scorer = LocalScorer(reranker, Settings())
    texts = Pair("Which  drug eases\nthe pain?", "½ of the ﬁre: </s> A cough <pad>")
    (found,) = scorer._model.tokenizer([texts], DATASET)
    wanted = f"Query: {texts.query} Document: ½ of the ﬁre: < /s> A cough < pad> Relevant:"
    assert found.rows[0]["input_ids"] == [*known.encode(wanted), 1]
    assert np.isfinite(score(scorer).scores).all()
