"""Pairs and prompts -> tokens within a reranker's length: passages are cut, queries only as a last resort.

Texts are texts: what looks like a special token of the model in a query or a document ("[SEP]", "</s>", "<|im_end|>")
is parted by a blank after its first character, and so becomes ordinary tokens. Tokenizers would take it for the token,
by which a document could end its own prompt and go on with an answer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ..encoders.tokens import Features
from ..errors import R2medError
from ..rerankers import PASSAGE_FIRST, YES_NO, Reranker
from .pairs import Pair

Span = tuple[int, int]  # the first token, and the one after the last


@dataclass
class Windows:
    """The tokens of one pair: `rows` has one entry, or one for each window of a long passage; `cut`: what was lost."""

    rows: list[Features]
    cut: bool


def share(query: int, document: int, room: int, how: str) -> tuple[int, int]:
    """How many tokens of a query and of a document fit into `room` tokens, which are two at least.

    PASSAGE_FIRST cuts the document down to half of the room before it cuts the query. LONGEST_FIRST cuts the longer
    one until both are equal, as transformers does when a pair is truncated.
    """
    if query + document <= room:
        return query, document
    half = room // 2
    if how == PASSAGE_FIRST:
        kept = min(query, room - min(document, half))
        return kept, room - kept
    shorter = min(query, document, half)
    longer = room - shorter
    return (shorter, longer) if query <= document else (longer, shorter)


def windows(length: int, size: int) -> list[Span]:
    """Windows of at most `size` tokens over `length` tokens; each overlaps the one before by half."""
    found = [(0, min(size, length))]
    while found[-1][1] < length:
        start = found[-1][0] + size - size // 2
        found.append((start, min(start + size, length)))
    return found


class _Tokenizer:
    """A fast tokenizer of transformers, by whose parts rows of at most the reranker's length are put together.

    With `parted` a passage that is too long is parted into windows. Raises R2medError for a tokenizer that cannot be
    used so.
    """

    def __init__(self, tokenizer, reranker: Reranker, parted: bool):
        if not getattr(tokenizer, "is_fast", False):
            raise R2medError(f"model {reranker.name}: its tokenizer does not tell where texts can be cut")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        # A decoder's answer is to begin at the end of every row; positions are counted from the beginning elsewhere.
        tokenizer.padding_side = "left" if reranker.loader == YES_NO else "right"
        tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True  # we pad later than we tokenize
        self._tokenizer, self._reranker, self._parted = tokenizer, reranker, parted
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        special = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._special = re.compile("|".join(map(re.escape, sorted(special - {""}))) or r"(?!)")

    def _as_text(self, pair: Pair) -> Pair:
        """A pair without special tokens."""
        return Pair(*(self._special.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text) for text in pair))

    def _fit(self, query: int, document: int, room: int, prefix: int = 0) -> tuple[int, list[Span], bool]:
        """How many tokens of a query are kept, which spans of a document, and whether anything is lost.

        The first `prefix` tokens of the document go before every window, and are in no span of several.
        """
        limit = self._reranker.query_length
        wanted = query if limit is None else min(query, limit)
        of_query, of_document = share(wanted, document, room, self._reranker.truncation) if room > 1 else (0, 0)
        if room < 2 or of_document <= prefix < document:
            raise R2medError(
                f"model {self._reranker.name}: what stands around query and passage leaves no room for them within "
                f"{self._reranker.max_length:,} tokens"
            )
        if not self._parted or of_document == document:
            return of_query, [(0, of_document)], of_query < query or of_document < document
        spans = windows(document - prefix, of_document - prefix)
        return of_query, [(prefix + start, prefix + end) for start, end in spans], of_query < query

    def pad(self, rows: list[Features]) -> dict:
        """One batch: name -> tensor [rows, longest row]."""
        return dict(self._tokenizer.pad(rows, padding=True, return_tensors="pt"))


class PairTokenizer(_Tokenizer):
    """For models that take two texts."""

    def __init__(self, tokenizer, reranker: Reranker, parted: bool):
        super().__init__(tokenizer, reranker, parted)
        self._types = "token_type_ids" in tokenizer.model_input_names
        # What comes before, between and after the texts: for each part the text (0 or 1) or None, its type, its tokens.
        sample = self._backend.encode("x", "x")
        tokens = zip(sample.sequence_ids, sample.type_ids, sample.ids, strict=True)
        groups = groupby(tokens, key=lambda token: token[:2])
        self._frame = [(which, type_, [number for *_, number in group]) for (which, type_), group in groups]

    def __call__(self, pairs: Sequence[Pair], dataset: str) -> list[Windows]:
        """The tokens of every pair."""
        rendered = [self._reranker.render(dataset, *self._as_text(pair)) for pair in pairs]
        texts = list(dict.fromkeys(text for pair in rendered for text in pair))
        encodings = dict(zip(texts, self._backend.encode_batch(texts, add_special_tokens=False), strict=True))
        return [self._together(encodings[query], encodings[document]) for query, document in rendered]

    def _together(self, query, document) -> Windows:
        """The tokens of a pair of encodings."""
        room = self._reranker.max_length - self._backend.num_special_tokens_to_add(is_pair=True)
        prefix = self._prefix(document) if self._parted else 0
        kept, spans, cut = self._fit(len(query), len(document), room, prefix)
        query, document = query.ids[:kept], document.ids
        before = document[:prefix] if len(spans) > 1 else []
        return Windows([self._row(query, before + document[start:end]) for start, end in spans], cut)

    def _prefix(self, document) -> int:
        """How many tokens of an encoding stand for what the template has before a document."""
        length = len(self._reranker.document.partition("{document}")[0].rstrip())
        return sum(end <= length for _, end in document.offsets[:length])

    def _row(self, *texts: list[int]) -> Features:
        parts = [(type_, own if which is None else texts[which]) for which, type_, own in self._frame]
        ids = [number for _, part in parts for number in part]
        found = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        if self._types:
            found["token_type_ids"] = [type_ for type_, part in parts for _ in part]
        return found


class PromptTokenizer(_Tokenizer):
    """For models that take one text, of which only query and document may be cut, and nothing around them.

    The whole text is tokenized at once, since tokens may reach from one part into the next. Texts that are too long
    are cut where a token of theirs ends, until the whole fits. A decoder's text gets no end token: its answer would
    come after that.
    """

    def __init__(self, tokenizer, reranker: Reranker, parted: bool):
        super().__init__(tokenizer, reranker, parted)
        added = self._backend.encode("x").special_tokens_mask
        self._end = added[::-1].index(0) if reranker.loader == YES_NO else 0  # tokens to leave out

    def __call__(self, pairs: Sequence[Pair], dataset: str) -> list[Windows]:
        """The tokens of every pair."""
        pairs = [self._as_text(pair) for pair in pairs]
        found = [Windows([row], False) for row in self._rows(pairs, dataset)]
        for at, whole in enumerate(found):
            length = len(whole.rows[0]["input_ids"])
            if length > self._reranker.max_length or self._reranker.query_length is not None:
                found[at] = self._cut(pairs[at], dataset, length)
        return found

    def _rows(self, pairs: Sequence[Pair], dataset: str) -> list[Features]:
        """The tokens of whole texts."""
        encodings = self._backend.encode_batch([self._reranker.render(dataset, *pair) for pair in pairs])
        rows = [encoding.ids[: len(encoding) - self._end] for encoding in encodings]
        return [{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows]

    def _cut(self, pair: Pair, dataset: str, length: int) -> Windows:
        """The tokens of a pair that may be too long: `length` with all around it."""
        query, document = (one.offsets for one in self._backend.encode_batch(list(pair), add_special_tokens=False))
        room = self._reranker.max_length - (length - len(query) - len(document))
        while True:
            kept, spans, cut = self._fit(len(query), len(document), room)
            beginning = _part(pair.query, query, (0, kept))
            rows = self._rows([Pair(beginning, _part(pair.document, document, span)) for span in spans], dataset)
            excess = max(len(row["input_ids"]) for row in rows) - self._reranker.max_length
            if excess <= 0:
                return Windows(rows, cut)
            room -= excess  # a cut may part one token into several


def _part(text: str, offsets: list[Span], span: Span) -> str:
    """The part of a text that a span of its tokens stands for; `offsets` are those of all of its tokens."""
    if span == (0, len(offsets)):
        return text
    places = [place for place in offsets[slice(*span)] if place[1] > place[0]]
    return text[places[0][0] : places[-1][1]] if places else ""
