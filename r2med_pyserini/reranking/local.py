"""Rerankers that run here, in PyTorch: cross-encoders, with or without an adapter, monoT5, and yes-or-no decoders."""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from .. import weights
from ..encoders import batching
from ..encoders.base import FLOAT32, Advance, Settings
from ..encoders.loading import check_vocabulary, loading, require
from ..encoders.machine import MOST, Machine
from ..encoders.tokens import Features
from ..errors import R2medError
from ..rerankers import LORA_CLASSIFIER, MONOT5, PAIRS, Reranker
from .base import Scored
from .cache import ScoreCache
from .pairs import Pair
from .tokens import PairTokenizer, PromptTokenizer

_HEAD = "score."  # the classifier of decoders, which an adapter brings and its base lacks
_LOST = "missing adapter keys"  # stands in peft's warning about an adapter that lacks weights


class LocalScorer:
    """Scores pairs with a model of PyTorch; see `Machine` for how batches are worked on.

    A score is the logit that the model gives, before any activation: for a classifier that of the relevant class, for a
    model that answers with a word the difference of the logits of its two answers (the log of the odds,
    https://arxiv.org/abs/2003.06713 takes its softmax, which ranks the same). Whatever the model computes in, its last
    layer works in float32: half precision has so few numbers that many documents would have the same score. With
    `windows` a pair with a long passage has the score of the best of its windows.
    """

    def __init__(self, reranker: Reranker, settings: Settings, windows: bool = False):
        require("torch")
        self._reranker, self._machine, self._windows = reranker, Machine(settings, reranker), windows
        self.precision = self._machine.precision

    @cached_property
    def _model(self) -> "_Model":
        """Loaded when there is something to score: where all scores are known, nobody waits for gigabytes."""
        module, tokenizer = _load(self._reranker, self._machine.weights)
        kind = PairTokenizer if self._reranker.loader in PAIRS else PromptTokenizer
        texts = kind(tokenizer, self._reranker, self._windows)
        score = _scoring(self._reranker, module, tokenizer)
        return _Model(texts, score, self._machine.place(module))

    def score(
        self, pairs: Sequence[Pair], dataset: str, advance: Advance, cache: ScoreCache | None = None, known: int = 0
    ) -> Scored:
        """See `Scorer`. `cache` and `known` are of no use here: pairs are scored together, or not at all."""
        self._machine.begin()
        found = self._model.tokenizer(pairs, dataset)
        rows = [(position, row) for position, windows in enumerate(found) for row in windows.rows]
        scores: list[list[float]] = [[] for _ in pairs]
        work = partial(self._work, rows, scores)
        counter = _Counter([len(windows.rows) for windows in found], rows, advance)
        workers = [counter.around(partial(work, device)) for device in self._machine.workers]
        lengths = [len(row["input_ids"]) for _, row in rows]
        batching.run(batching.plan(lengths, self._machine.tokens, MOST), workers, lambda rows_done: None)
        self._check([score for several in scores for score in several])
        return Scored([max(several) for several in scores], [windows.cut for windows in found])

    def _work(self, rows: list[tuple[int, Features]], scores: list[list[float]], device: str, batch: list[int]) -> None:
        """Score one batch, and add what it gives to the `scores` of each pair."""
        features = self._model.tokenizer.pad([rows[at][1] for at in batch])
        with self._machine.working(device):
            features = {name: tensor.to(device) for name, tensor in features.items()}
            found = self._model.score(self._model.placed[device], features).cpu().tolist()
        for at, score in zip(batch, found, strict=True):
            scores[rows[at][0]].append(score)

    def _check(self, scores: list[float]) -> None:
        """Raise R2medError for a score that is no number: it would stand for a pair that could not be scored."""
        wrong, name = sum(not math.isfinite(score) for score in scores), self._reranker.name
        if wrong:
            why = "its files must be damaged" if self.precision == FLOAT32 else "try --dtype float32"
            raise R2medError(f"model {name} gives no number for {wrong:,} of {len(scores):,} texts: {why}")


class _Model(NamedTuple):
    """How texts become tokens, how a module scores a batch (see `_scoring`), and the module on every device."""

    tokenizer: PairTokenizer | PromptTokenizer
    score: Callable
    placed: dict[str, object]


class _Counter:
    """Tells how many pairs are done, where a pair may have several rows."""

    def __init__(self, counts: list[int], rows: list[tuple[int, Features]], advance: Advance):
        self._left, self._rows, self._advance, self._lock = counts, rows, advance, Lock()

    def around(self, work: Callable[[list[int]], None]) -> Callable[[list[int]], None]:
        """The work, and the count after it."""

        def counted(batch: list[int]) -> None:
            work(batch)
            with self._lock:
                for at in batch:
                    self._left[self._rows[at][0]] -= 1
                done = sum(not self._left[position] for position in {self._rows[at][0] for at in batch})
                if done:
                    self._advance(done)

        return counted


def _load(reranker: Reranker, dtype: str) -> tuple[object, object]:
    """The module and the tokenizer of a reranker. Raises R2medError."""
    with_adapter = reranker.loader == LORA_CLASSIFIER
    if with_adapter and find_spec("peft") is None:
        raise R2medError(f"{reranker.name}: the package peft is not installed: pip install 'r2med-pyserini[rankllama]'")
    folders = [weights.fetched(weights.repository(reranker.name, *place)) for place in reranker.repositories()]
    with loading(reranker.name, folders[-1], unused=_HEAD if with_adapter else None):
        from transformers import AutoConfig, AutoTokenizer

        if with_adapter:
            module, tokenizer = _with_adapter(reranker, *folders, dtype)
        else:
            how = {"trust_remote_code": reranker.remote_code}
            if reranker.model_type:
                how["config"] = AutoConfig.for_model(reranker.model_type, **_settings(folders[0]))
            tokenizer = AutoTokenizer.from_pretrained(str(folders[0]), **how)
            module = _architecture(reranker).from_pretrained(str(folders[0]), dtype=dtype, **how)
    check_vocabulary(reranker.name, folders[-1], tokenizer, module)
    return module.eval(), tokenizer


def _settings(folder: Path) -> dict:
    """What a config.json says, but for the type of model, which the facts say."""
    found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {key: value for key, value in found.items() if key != "model_type"}


def _architecture(reranker: Reranker):
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

    if reranker.loader in PAIRS:
        return AutoModelForSequenceClassification
    return AutoModelForSeq2SeqLM if reranker.loader == MONOT5 else AutoModelForCausalLM


def _with_adapter(reranker: Reranker, adapter: Path, base: Path, dtype: str) -> tuple[object, object]:
    """A classifier whose weights an adapter changes, merged into one; the head comes with the adapter."""
    import torch
    from peft import PeftModel
    from peft.utils import load_peft_weights
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    given = load_peft_weights(str(adapter), device="cpu")
    head = next((weight for name, weight in given.items() if name.endswith(f".{_HEAD}weight")), None)
    lacking = [] if head is not None else [_HEAD]
    tokenizer = AutoTokenizer.from_pretrained(str(base))
    module = AutoModelForSequenceClassification.from_pretrained(str(base), num_labels=1, dtype=dtype)
    if not lacking:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            module = PeftModel.from_pretrained(module, str(adapter)).merge_and_unload()
        lacking = [str(one.message) for one in told if _LOST in str(one.message)]
    if lacking or not torch.equal(head.to(module.score.weight.dtype), module.score.weight):
        raise R2medError(
            f"model {reranker.name}: the adapter in {adapter} lacks weights, or does not belong to its base in {base}"
        )
    return module, tokenizer


def _scoring(reranker: Reranker, module, tokenizer) -> Callable:
    """How a module scores a batch: (module, features) -> float32 tensor [rows]. Makes the last layer work in float32.

    Raises R2medError if the model's answers or classes are not those that the facts name.
    """
    module.config.use_cache = False  # of states of use for a next token only
    if reranker.loader in PAIRS:
        return _of_class(reranker, module, tokenizer)
    return _of_answers(reranker, module, tokenizer)


def _of_class(reranker: Reranker, module, tokenizer) -> Callable:
    import torch

    labels, index = module.config.num_labels, reranker.positive or 0
    if index >= labels or (labels > 1 and reranker.positive is None):
        wanted = "one" if reranker.positive is None else f"number {index}"
        raise R2medError(f"model {reranker.name}: of its {labels} classes, {wanted} is wanted by rerankers.yaml")
    if hasattr(module, "score"):  # of a decoder, which finds the last token of a row by what stands for padding
        module.config.pad_token_id = tokenizer.pad_token_id
    linear = (part for part in module.modules() if isinstance(part, torch.nn.Linear))
    _work_in_float32([layer for layer in linear if layer.out_features == labels][-1])
    return lambda module, features: module(**features).logits[:, index]


def _of_answers(reranker: Reranker, module, tokenizer) -> Callable:
    import torch

    known = tokenizer.get_vocab()
    unknown = [token for token in reranker.tokens if token not in known]
    if unknown:
        raise R2medError(f"model {reranker.name}: its vocabulary has no {' and no '.join(map(repr, unknown))}")
    whole = module.get_output_embeddings()
    head = torch.nn.Linear(whole.in_features, 2, bias=whole.bias is not None)
    rows = [known[token] for token in reranker.tokens]
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.copy_(getattr(whole, name)[rows])
    _work_in_float32(head)
    module.set_output_embeddings(head)

    def of_t5(module, features: dict):
        start = torch.full_like(features["input_ids"][:, :1], module.config.decoder_start_token_id)
        return module(**features, decoder_input_ids=start).logits

    def of_decoder(module, features: dict):
        places = (features["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)  # padding stands before a text
        return module(**features, position_ids=places, logits_to_keep=1).logits

    answer = of_t5 if reranker.loader == MONOT5 else of_decoder

    def difference(module, features: dict):
        yes, no = answer(module, features)[:, -1].unbind(dim=1)
        return yes - no

    return difference


def _work_in_float32(layer) -> None:
    """Have a linear layer compute in float32, whatever it is given."""
    import torch

    class InFloat32(torch.nn.Linear):
        def forward(self, states):
            with torch.autocast(states.device.type, enabled=False):
                return super().forward(states.float())

    layer.float()
    layer.__class__ = InFloat32  # not a new forward of its own, which would not be copied to other devices
