"""Embeddings from a server that speaks OpenAI's protocol: OpenAI's own, Voyage's, or one on this machine.

The protocol: POST {base_url}/embeddings, https://platform.openai.com/docs/api-reference/embeddings/create. Voyage's
dialect (https://docs.voyageai.com/reference/embeddings-api) adds `input_type`, and knows no encoding format "float".
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import R2medError, shown
from ..models import API, Model
from ..service import ALL, REQUESTS, RETRIES, SHOWN, Failure, Service, line, read_json, said, side_by_side
from .base import Advance, Encoded

if TYPE_CHECKING:
    import numpy as np

BATCH = 128  # texts of a request
# UTF-8 bytes of a request's texts, unless one text alone has more. A token is at least one byte, so that a request
# stays below what the services take: 300,000 tokens (OpenAI), 120,000 for the largest models (Voyage).
BATCH_BYTES = 100_000

_EMPTY = " "  # is sent for an empty text


class ApiEncoder:
    """Encodes by a server; see `encode`. Before its first call nothing is sent, and no key is looked for.

    `batch_size` is the number of texts of a request, `requests` that of requests in flight; `timeout` and `retries` are
    those of `Service`.
    """

    def __init__(
        self,
        model: Model,
        *,
        batch_size: int = BATCH,
        requests: int = REQUESTS,
        timeout: float | None = None,
        retries: int = RETRIES,
    ):
        self.precision = model.dtype or API  # which only the server knows
        self._model, self._api = model, model.api or {}
        self._batch_size, self._requests = batch_size, requests
        self._timeout, self._retries = timeout, retries
        self._dimensions = model.dimensions

    @property
    def device(self) -> str:
        """The server's address. Raises R2medError as `encode` does for what the environment lacks."""
        return self._server.address

    def vocabulary(self) -> None:
        """See `Encoder`."""

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        """Vectors of bare texts: float32 [texts, dimensions], in the order of the texts.

        If the model's `api` names a tiktoken encoding, a text is cut at `max_length` of its tokens, the prompt
        included; otherwise it is sent whole, and the server cuts it or refuses it. For an empty text one space is
        sent: servers refuse "", and its vector is then what the model makes of a text without words, as it is with a
        model that runs here. A zero vector would have no direction, and no cosine.

        `advance(n)` is called, in the calling thread, whenever n more texts are done. Raises R2medError if the key is
        missing, if the server is out of reach or gives up, or if it does not answer with one vector for every text,
        finite, not zero, of the right dimensions. Nothing is ever filled in.
        """
        import numpy as np

        if not texts:
            return Encoded(np.empty((0, self._dimensions or 0), dtype=np.float32), 0)
        server = self._server
        fitted = [self._fit(text, side, dataset) for text in texts]
        sent = [text or _EMPTY for text, _ in fitted]
        found: dict[int, np.ndarray] = {}

        def collect(batch: slice, vectors: "np.ndarray") -> None:
            self._dimensions = self._dimensions or vectors.shape[1]
            if vectors.shape[1] != self._dimensions:
                raise Failure(
                    f"{server.address} gave vectors of {vectors.shape[1]:,} dimensions, not {self._dimensions:,}: "
                    f"is {self._model.id!r} what it serves?",
                    ALL,
                )
            found[batch.start] = vectors
            advance(len(vectors))

        def work(batch: slice) -> "np.ndarray":
            return self._embed(sent[batch], side)

        batches = list(_batches(sent, self._batch_size))
        try:
            side_by_side(work, batches, self._requests, collect, "embeddings")
        except Failure as failure:
            done = sum(map(len, found.values()))
            raise R2medError(
                f"{failure} ({done:,} of the {len(sent):,} texts of this shard were done; earlier shards are kept, and "
                "the same command goes on from there)"
            ) from None
        vectors = np.concatenate([found[batch.start] for batch in batches])
        if self._model.normalize:
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Encoded(vectors, sum(was_cut for _, was_cut in fitted))

    @cached_property
    def _server(self) -> Service:
        model = self._model
        return Service(model.name, model.id, self._api, "embeddings", "texts", self._timeout, self._retries)

    def _embed(self, texts: list[str], side: str) -> "np.ndarray":
        """Vectors of the texts of one request, float32 [texts, dimensions]. Raises Failure."""
        # Voyage gives lists of numbers if it is asked for no format; other servers may then give base64.
        dialect = {"input_type": side} if self._api.get("input_type") else {"encoding_format": "float"}
        answer = self._server.ask({"model": self._model.id, "input": texts, **dialect})
        try:
            return _vectors(answer, texts)
        except ValueError as fault:
            raise self._server.fault(fault) from None

    def _fit(self, text: str, side: str, dataset: str) -> tuple[str, bool]:
        """What is sent for a text, and whether the text was cut.

        It is cut before it becomes a JSON string, as R2MED's authors do (RetrievalOPENAI.encode in their src/utils.py).
        As JSON it can have more tokens (an escaped character has several): if `limit` in the model's `api` says how
        many the server takes, the text is cut further until what is sent keeps to it.
        """
        prompt, sent, was_cut = self._model.prompt(side, dataset), self._model.render(side, dataset, text), False
        if not self._api.get("tokenizer"):
            return sent, False
        most, limit = self._model.max_length.get(side), self._api.get("limit")
        if most is not None and _may_exceed(prompt + text, most):
            beginning = self._cut(prompt + text, most)[len(prompt) :]
            was_cut, text = beginning != text, beginning
            sent = self._model.render(side, dataset, text)
        while limit and text and _may_exceed(sent, limit) and (size := len(self._tokens(sent))) > limit:
            fewer = len(self._tokens(prompt + text)) * limit // size
            text = self._cut(prompt + text, fewer)[len(prompt) :]
            sent, was_cut = self._model.render(side, dataset, text), True
        return sent, was_cut

    def _tokens(self, text: str) -> list[int]:
        return self._encoding.encode_ordinary(text)

    def _cut(self, text: str, most: int) -> str:
        """The longest beginning of a text that ends with a character, ends with one of its tokens, and has `most`.

        A beginning by itself can have more tokens than it has within the text; it is shortened until it fits.
        """
        tokens = self._tokens(text)
        if len(tokens) <= most:
            return text
        for kept in range(most, 0, -1):
            beginning = self._encoding.decode_bytes(tokens[:kept]).decode("utf-8", errors="ignore")
            if len(self._tokens(beginning)) <= most:
                return beginning
        return ""

    @cached_property
    def _encoding(self):
        """The tiktoken encoding. Raises R2medError if its file is not in tiktoken's cache, nor to be fetched."""
        name = self._api["tokenizer"]
        try:
            import tiktoken

            return tiktoken.get_encoding(name)
        except Exception as error:  # of the network, of the file, or no such name
            raise R2medError(
                f"{self._model.name}: to see whether a text is too long, tiktoken needs its file for {name}, which "
                f"cannot be had ({line(str(error))}): connect to the internet for once, or set TIKTOKEN_CACHE_DIR to "
                "a folder that tiktoken has filled elsewhere"
            ) from error


def _may_exceed(text: str, tokens: int) -> bool:
    """Whether a text can have more tokens than that: a token is at least one byte of UTF-8."""
    return len(text) > tokens or len(text.encode("utf-8")) > tokens


def _batches(texts: Sequence[str], most: int) -> Iterator[slice]:
    """Where to part texts: at most `most` in a batch, and BATCH_BYTES bytes unless one text alone has more."""
    start = size = 0
    for position, text in enumerate(texts):
        length = len(text.encode("utf-8"))
        if position > start and (position - start >= most or size + length > BATCH_BYTES):
            yield slice(start, position)
            start, size = position, 0
        size += length
    yield slice(start, len(texts))


def _vectors(answer: str, texts: Sequence[str]) -> "np.ndarray":
    """The embeddings of an answer, float32, in the order of the texts. Raises ValueError that says what is wrong."""
    import numpy as np

    value = read_json(answer, parse_int=float)
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise ValueError(f"the answer holds no embeddings: {said(value) or shown(line(answer), SHOWN)}")
    if len(data) != len(texts):
        raise ValueError(f"the answer holds {len(data):,} embeddings for {len(texts):,} texts")
    found = {entry.get("index"): entry.get("embedding") for entry in data if type(entry.get("index")) is float}
    if found.keys() != set(range(len(texts))):
        raise ValueError(f"the embeddings do not have the indices 0 to {len(texts) - 1:,}, each once")
    rows = [found[index] for index in range(len(texts))]
    if not all(isinstance(row, list) and set(map(type, row)) == {float} for row in rows):
        raise ValueError("an embedding is not a list of numbers")
    if len(set(map(len, rows))) > 1:
        raise ValueError("the embeddings are not all of the same length")
    with np.errstate(over="ignore"):
        vectors = np.array(rows, dtype=np.float32)
    for bad, what in ((~np.isfinite(vectors).all(axis=1), "holds NaN or infinity"), (~vectors.any(axis=1), "is zero")):
        if bad.any():
            raise ValueError(f"the embedding of {shown(texts[int(bad.argmax())], SHOWN)} {what}")
    return vectors
