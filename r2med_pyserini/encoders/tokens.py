"""Texts -> tokens, cut at the model's length; those that were cut are counted."""

from collections.abc import Sequence

from ..errors import R2medError
from ..models import Model

_NO_LIMIT = 1_000_000  # tokenizers without a limit say an enormous one
_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")

Features = dict[str, list[int]]


class Tokens:
    """The tokens of some texts: `features` a text, and how many of the texts were `truncated`."""

    def __init__(self, features: list[Features], truncated: int):
        self.features, self.truncated = features, truncated

    @property
    def lengths(self) -> list[int]:
        """How many tokens each text has."""
        return [len(features["input_ids"]) for features in self.features]


class TextTokenizer:
    """A tokenizer of transformers, used as the facts about a model say.

    `limit` is the length of the model itself, which counts where the facts name none; None for no limit.
    `special` is false where the model is to see no start and end tokens. Raises R2medError for a tokenizer that cannot
    be used so.
    """

    def __init__(self, tokenizer, model: Model, limit: int | None = None, special: bool = True):
        if not getattr(tokenizer, "is_fast", False):
            raise R2medError(f"model {model.name}: its tokenizer does not tell which texts it cuts")
        self._tokenizer, self._model, self._special = tokenizer, model, special
        own = min(limit or _NO_LIMIT, getattr(tokenizer, "model_max_length", None) or _NO_LIMIT)
        self._limit = None if own >= _NO_LIMIT else own
        tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True  # we pad later than we tokenize
        if tokenizer.pad_token_id is None:
            # Any token does: what is padded is masked.
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.convert_ids_to_tokens(0)
        self._append = self._end_to_append()

    def _end_to_append(self) -> int | None:
        """The end token's number if the model wants one and the tokenizer leaves it out."""
        if not self._model.append_eos:
            return None
        end = self._tokenizer.eos_token_id
        if end is None:
            raise R2medError(f"model {self._model.name}: a text must end in its end token, but its tokenizer has none")
        return None if self._tokenizer("x")["input_ids"][-1:] == [end] else end

    def limit(self, side: str) -> int | None:
        """The most tokens that a text of a side may have, start and end tokens among them."""
        wanted = self._model.max_length[side]
        return self._limit if wanted is None else wanted

    def prompt_length(self, side: str, dataset: str) -> int:
        """How many tokens come before the text itself: the prompt's, and what the tokenizer puts before them.

        As sentence-transformers counts them: the tokens of the prompt alone, without an end token.
        """
        prompt = self._model.prompt(side, dataset)
        if not prompt:
            return 0
        found = self._tokenizer(prompt, add_special_tokens=self._special)["input_ids"]
        return len(found) - (found[-1:] != [] and found[-1] in self._tokenizer.all_special_ids)

    def __call__(self, texts: Sequence[str], side: str, dataset: str) -> Tokens:
        """The tokens of bare texts with the model's prompt."""
        rendered = [self._model.render(side, dataset, text) for text in texts]
        if not rendered:
            return Tokens([], 0)
        limit = self.limit(side)
        room = None if limit is None else limit - (self._append is not None)
        found = self._tokenizer(
            *([list(part) for part in zip(*rendered, strict=True)] if isinstance(rendered[0], tuple) else [rendered]),
            truncation=False if room is None else "longest_first",
            max_length=room,
            add_special_tokens=self._special,
            return_attention_mask=True,
        )
        names = [name for name in _OF_TOKENS if name in found]
        features = [{name: list(found[name][row]) for name in names} for row in range(len(rendered))]
        for row in features:
            if self._append is not None:
                _add(row, self._append)
            elif not row["input_ids"]:  # no model takes a text without a token, but a table of weights need not see it
                _add(row, self._tokenizer.pad_token_id, mask=int(self._special))
        truncated = sum(bool(encoding.overflowing) for encoding in found.encodings or ())
        return Tokens(features, truncated)

    def vocabulary(self, size: int) -> list[str]:
        """The tokens of the numbers below `size`; a model may have more numbers than its tokenizer has tokens."""
        names = {number: token for token, number in self._tokenizer.get_vocab().items()}
        return [names.get(number, f"[no-token-{number}]") for number in range(size)]

    def pad(self, rows: list[Features]) -> dict:
        """One batch: name -> tensor [rows, longest row]."""
        return dict(self._tokenizer.pad(rows, padding=True, return_tensors="pt"))


def _add(row: Features, token: int, mask: int = 1) -> None:
    row["input_ids"].append(token)
    row["attention_mask"].append(mask)
    if "token_type_ids" in row:
        row["token_type_ids"].append(row["token_type_ids"][-1] if row["token_type_ids"] else 0)
