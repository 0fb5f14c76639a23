"""Rerankers that run here, in PyTorch: cross-encoders, with or without an adapter, monoT5, and yes-or-no decoders."""

from collections.abc import Callable, Sequence
from functools import partial

from .. import weights
from ..encoders import batching
from ..encoders.base import Advance, Settings
from ..encoders.loading import loading, require
from ..encoders.machine import MOST, Machine
from ..encoders.tokens import Features
from ..rerankers import LORA_CLASSIFIER, MONOT5, PAIRS, Reranker
from .base import Pair, Scored
from .tokens import PairTokenizer, PromptTokenizer


class LocalScorer:
    """Scores pairs with a model of PyTorch; see `Machine` for how batches are worked on.

    A score is the logit that the model gives, in float32, before any activation: for a classifier that of the relevant
    class, for a model that answers with a word the difference of the logits of its two answers (the log of the odds,
    https://arxiv.org/abs/2003.06713 takes its softmax, which ranks the same). With `windows` a pair with a long passage
    has the score of the best of its windows.
    """

    def __init__(self, reranker: Reranker, settings: Settings, windows: bool = False):
        require("torch")
        self._reranker, self._machine = reranker, Machine(settings, reranker)
        self.precision = self._machine.precision
        module, tokenizer = _load(reranker, self._machine.weights)
        kind = PairTokenizer if reranker.loader in PAIRS else PromptTokenizer
        self._tokenizer = kind(tokenizer, reranker, windows)
        self._score = _scoring(reranker, tokenizer)
        self._placed = self._machine.place(module)

    def score(self, pairs: Sequence[Pair], dataset: str, advance: Advance) -> Scored:
        """See `Scorer`."""
        self._machine.begin()
        found = self._tokenizer(pairs, dataset)
        rows = [(position, row) for position, windows in enumerate(found) for row in windows.rows]
        scores: list[list[float]] = [[] for _ in pairs]
        work = partial(self._work, rows, scores)
        workers = [partial(work, device) for device in self._machine.workers]
        lengths = [len(row["input_ids"]) for _, row in rows]
        counter = _Counter([len(windows.rows) for windows in found], rows, advance)
        batches = batching.plan(lengths, self._machine.tokens, MOST)
        batching.run(batches, [counter.around(worker) for worker in workers], lambda rows_done: None)
        return Scored([max(several) for several in scores], [windows.cut for windows in found])

    def _work(self, rows: list[tuple[int, Features]], scores: list[list[float]], device: str, batch: list[int]) -> None:
        import torch

        features = self._tokenizer.pad([rows[at][1] for at in batch])
        features = {name: tensor.to(device) for name, tensor in features.items()}
        with torch.inference_mode(), self._machine.autocast(device):
            found = self._score(self._placed[device], features).float().cpu().tolist()
        for at, score in zip(batch, found, strict=True):
            scores[rows[at][0]].append(score)


class _Counter:
    """Tells how many pairs are done, where a pair may have several rows."""

    def __init__(self, counts: list[int], rows: list[tuple[int, Features]], advance: Advance):
        self._left, self._rows, self._advance = counts, rows, advance

    def around(self, work: Callable[[list[int]], None]) -> Callable[[list[int]], None]:
        """The work, and the count after it."""

        def counted(batch: list[int]) -> None:
            work(batch)
            for at in batch:
                position = self._rows[at][0]
                self._left[position] -= 1
                if not self._left[position]:
                    self._advance(1)

        return counted


def _load(reranker: Reranker, dtype: str) -> tuple[object, object]:
    """The module and the tokenizer of a reranker. Raises R2medError."""
    folders = [weights.fetched(weights.repository(reranker.name, *place)) for place in reranker.repositories()]
    with loading(reranker.name, folders[0], unused=None):
        from transformers import AutoConfig, AutoTokenizer

        if reranker.loader == LORA_CLASSIFIER:
            return _with_adapter(reranker, *folders, dtype)
        how = {"trust_remote_code": reranker.remote_code}
        if reranker.model_type:
            how["config"] = AutoConfig.for_model(reranker.model_type, **_settings(folders[0]))
        tokenizer = AutoTokenizer.from_pretrained(str(folders[0]), **how)
        module = _architecture(reranker).from_pretrained(str(folders[0]), dtype=dtype, **how)
        return module.eval(), tokenizer


def _settings(folder) -> dict:
    import json

    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def _architecture(reranker: Reranker):
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

    if reranker.loader in PAIRS:
        return AutoModelForSequenceClassification
    return AutoModelForSeq2SeqLM if reranker.loader == MONOT5 else AutoModelForCausalLM


def _with_adapter(reranker: Reranker, adapter, base, dtype: str) -> tuple[object, object]:
    """A classifier whose weights an adapter changes, merged into one."""
    require("peft")
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(base))
    module = AutoModelForSequenceClassification.from_pretrained(str(base), num_labels=1, dtype=dtype)
    module = PeftModel.from_pretrained(module, str(adapter)).merge_and_unload()
    if module.config.pad_token_id is None:  # by it the classifier finds the last token of a row
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        module.config.pad_token_id = tokenizer.pad_token_id
    return module.eval(), tokenizer


def _scoring(reranker: Reranker, tokenizer) -> Callable:
    """How a module scores a batch: (module, features) -> tensor [rows]."""
    if reranker.loader in PAIRS:
        return lambda module, features: module(**features).logits.float()[:, reranker.positive or 0]
    yes, no = tokenizer.convert_tokens_to_ids(list(reranker.tokens))

    def of_answers(module, features: dict):
        import torch

        if reranker.loader == MONOT5:
            start = torch.full_like(features["input_ids"][:, :1], module.config.decoder_start_token_id)
            logits = module(**features, decoder_input_ids=start).logits[:, 0]
        else:
            logits = module(**features, logits_to_keep=1, use_cache=False).logits[:, -1]
        return logits[:, yes].float() - logits[:, no].float()

    return of_answers
