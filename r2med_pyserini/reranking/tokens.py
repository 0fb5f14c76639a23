"""Pairs and prompts -> tokens within a reranker's length: passages are cut, queries only as a last resort."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..encoders.tokens import Features
from ..errors import R2medError
from ..rerankers import MONOT5, PASSAGE_FIRST, Reranker
from .base import Pair


@dataclass
class Windows:
    """The tokens of one pair: `rows` has one entry, or one for each window of a long passage; `cut`: what was lost."""

    rows: list[Features]
    cut: bool


def share(query: int, document: int, room: int, how: str) -> tuple[int, int]:
    """How many tokens of a query and of a document fit into `room` tokens.

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


class _Tokenizer:
    """A fast tokenizer of transformers, by whose parts rows of at most the reranker's length are put together.

    With `windows` a passage that is too long is parted into windows, each of which overlaps the one before by half.
    """

    def __init__(self, tokenizer, reranker: Reranker, windows: bool):
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True  # we pad later than we tokenize
        self._tokenizer, self._reranker, self._windows = tokenizer, reranker, windows
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()

    def _encoded(self, texts: Sequence[str]) -> list:
        return self._backend.encode_batch(list(texts), add_special_tokens=False)

    def _fit(self, query, document, room: int) -> tuple[list, bool]:
        """Cut the encodings of a query and a document; the document's windows, and whether anything is lost."""
        limit = self._reranker.query_length
        wanted = len(query) if limit is None else min(len(query), limit)
        of_query, of_document = share(wanted, len(document), room, self._reranker.truncation)
        lost = of_query < len(query)
        query.truncate(of_query)
        if of_document == len(document):
            return [document], lost
        if of_document < 1:
            raise R2medError(f"{self._reranker.name}: {room} tokens are too few for a query and a passage")
        document.truncate(of_document, stride=of_document // 2 if self._windows else 0)
        return ([document, *document.overflowing], lost) if self._windows else ([document], True)

    def pad(self, rows: list[Features]) -> dict:
        """One batch: name -> tensor [rows, longest row]."""
        return dict(self._tokenizer.pad(rows, padding=True, return_tensors="pt"))


class PairTokenizer(_Tokenizer):
    """For models that take two texts."""

    def __call__(self, pairs: Sequence[Pair], dataset: str) -> list[Windows]:
        """The tokens of every pair."""
        rendered = [self._reranker.render(dataset, *pair) for pair in pairs]
        room = self._reranker.max_length - self._backend.num_special_tokens_to_add(is_pair=True)
        queries = self._encoded([query for query, _ in rendered])
        documents = self._encoded([document for _, document in rendered])
        found = []
        for query, document in zip(queries, documents, strict=True):
            parts, cut = self._fit(query, document, room)
            found.append(Windows([self._row(query, part) for part in parts], cut))
        return found

    def _row(self, query, document) -> Features:
        whole = self._backend.post_process(query, document)
        found = {"input_ids": whole.ids, "attention_mask": whole.attention_mask}
        types = "token_type_ids" in self._tokenizer.model_input_names
        return found | ({"token_type_ids": whole.type_ids} if types else {})


class PromptTokenizer(_Tokenizer):
    """For models that take one text, of which only query and document may be cut, and nothing around them.

    The whole text is tokenized at once, since tokens may reach from one part into the next. Texts that are too long
    are cut where a token of theirs ends, until the whole fits.
    """

    def __init__(self, tokenizer, reranker: Reranker, windows: bool):
        super().__init__(tokenizer, reranker, windows)
        if reranker.loader != MONOT5:
            tokenizer.padding_side = "left"  # so that the answer begins at the end of every row

    def __call__(self, pairs: Sequence[Pair], dataset: str) -> list[Windows]:
        """The tokens of every pair."""
        limit = self._reranker.max_length
        whole = self._backend.encode_batch([self._reranker.render(dataset, *pair) for pair in pairs])
        return [
            Windows([_features(encoding)], False) if len(encoding) <= limit else self._cut(pair, dataset, len(encoding))
            for pair, encoding in zip(pairs, whole, strict=True)
        ]

    def _cut(self, pair: Pair, dataset: str, length: int) -> Windows:
        """The tokens of a pair that is too long: `length` with all around it."""
        counts = [len(encoding) for encoding in self._encoded(pair)]
        room = self._reranker.max_length - (length - sum(counts))
        while True:
            query, document = self._encoded(pair)
            parts, cut = self._fit(query, document, room)
            texts = [Pair(_text(pair.query, query), _text(pair.document, part)) for part in parts]
            found = self._backend.encode_batch([self._reranker.render(dataset, *text) for text in texts])
            excess = max(map(len, found)) - self._reranker.max_length
            if excess <= 0:
                return Windows([_features(encoding) for encoding in found], cut)
            room -= excess  # a cut may part one token into several


def _text(text: str, encoding) -> str:
    """The part of a text that an encoding stands for."""
    offsets = [place for place in encoding.offsets if place[1] > place[0]]
    return text[offsets[0][0] : offsets[-1][1]] if offsets else ""


def _features(encoding) -> Features:
    return {"input_ids": encoding.ids, "attention_mask": encoding.attention_mask}
