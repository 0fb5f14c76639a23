"""Embeddings from a server that speaks OpenAI's protocol: OpenAI's own, Voyage's, or one on this machine.

The protocol: POST {base_url}/embeddings, https://platform.openai.com/docs/api-reference/embeddings/create. Voyage's
dialect (https://docs.voyageai.com/reference/embeddings-api) adds `input_type`, and knows no encoding format "float".
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import R2medError, cut, shown
from ..models import API, Model
from .base import Advance, Encoded

if TYPE_CHECKING:
    import numpy as np

TIMEOUT_VARIABLE = "R2MED_API_TIMEOUT"
TIMEOUT = 300.0  # seconds
RETRIES = 6  # after 0.5 s, 1 s, 2 s, ... up to 8 s, or as long as the server asks for (Retry-After)
REQUESTS = 4  # in flight at once
BATCH = 128  # texts of a request
# UTF-8 bytes of a request's texts, unless one text alone has more. A token is at least one byte, so that a request
# stays below what the services take: 300,000 tokens (OpenAI), 120,000 for the largest models (Voyage).
BATCH_BYTES = 100_000

_FIRST_RETRIES = 2  # before the first answer: a server that is not there is told of soon, not after half a minute
_CONNECT_S = 10.0
_TRIED_AGAIN = (408, 409, 429)  # by the client, besides 5xx
_EMPTY = " "  # is sent for an empty text
_SHOWN = 60  # characters of a text, or of an answer, in a message
_SECRET = 8  # characters; a shorter key is a stand-in, for a server that wants none
_LIKE = "such as http://localhost:8080/v1"


class ApiEncoder:
    """Encodes by a server; see `encode`. Before its first call nothing is sent, and no key is looked for.

    `batch_size` is the number of texts of a request, `requests` that of requests in flight, `timeout` the seconds to
    wait for an answer (None: what R2MED_API_TIMEOUT says, or 300), `retries` how often a request is sent again after a
    time-out, a broken connection, or HTTP 408, 409, 429 or 5xx.
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
                raise _Failure(
                    f"{server.address} gave vectors of {vectors.shape[1]:,} dimensions, not {self._dimensions:,}: "
                    f"is {self._model.id!r} what it serves?"
                )
            found[batch.start] = vectors
            advance(len(vectors))

        batches = list(_batches(sent, self._batch_size))
        try:
            _side_by_side(lambda batch: server.embed(sent[batch], side), batches, self._requests, collect)
        except _Failure as failure:
            done = sum(map(len, found.values()))
            raise R2medError(
                f"{failure} ({done:,} of the {len(sent):,} texts of this shard were done; earlier shards are kept, and "
                "the same command goes on from there)"
            ) from None  # the client's own error may quote the key
        vectors = np.concatenate([found[batch.start] for batch in batches])
        if self._model.normalize:
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Encoded(vectors, sum(was_cut for _, was_cut in fitted))

    @cached_property
    def _server(self) -> "_Server":
        return _Server(self._model.name, self._model.id, self._api, self._timeout, self._retries)

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
                f"cannot be had ({_line(str(error))}): connect to the internet for once, or set TIKTOKEN_CACHE_DIR to "
                "a folder that tiktoken has filled elsewhere"
            ) from error


class _Failure(Exception):
    """Why a request came to nothing; its text names the server."""


class _Server:
    """Where a model is served, as the environment or else the model's `api` says. Raises R2medError if that is wrong.

    No message shows the key, nor a password in the address.
    """

    def __init__(self, name: str, model_id: str | None, api: Mapping, timeout: float | None, retries: int):
        self._name, self._id, self._api, self._retries = name, model_id, api, retries
        self._named_by = api.get("base_url_variable")
        self._named = os.environ.get(self._named_by or "", "").strip()
        url = self._named or api.get("base_url") or ""
        self.address = self._checked(url)
        self._key = self._find_key(url)
        self._timeout = timeout or _timeout()
        self._client = self._make_client(url)
        self._answers = False  # whether it has ever answered

    def _checked(self, url: str) -> str:
        """Where requests go, for messages."""
        good = False
        with suppress(ValueError):
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        if not good:
            what = self._named_by if self._named or not url else "base_url"
            raise R2medError(f"{self._name}: {what or 'base_url'} wants the address of a server, {_LIKE}")
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}/embeddings"

    def _find_key(self, url: str) -> str:
        """The key that the environment holds; "" if there is none, and the server is not the model's own."""
        variable = self._api.get("key_variable")
        key = os.environ.get(variable, "").strip() if variable else ""
        elsewhere = url.rstrip("/") != str(self._api.get("base_url", "")).rstrip("/")
        if variable and not key and not elsewhere:
            hint = f" (or {self._named_by} to the address of a server that wants none)" if self._named_by else ""
            raise R2medError(f"{self._name}: set {variable} to a key for {self.address}{hint}")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise R2medError(f"{self._name}: {variable} holds white space, or letters that no key has: set it anew")
        return key

    def _make_client(self, url: str):
        import openai

        timeout = openai.Timeout(self._timeout, connect=min(_CONNECT_S, self._timeout))
        client = openai.OpenAI(base_url=url, api_key=self._key or "none", timeout=timeout)
        if self._api.get("key_variable") != "OPENAI_API_KEY":  # OPENAI_ORG_ID and OPENAI_PROJECT_ID are not for others
            client.organization = client.project = None
        return client

    def embed(self, texts: list[str], side: str) -> "np.ndarray":
        """Vectors of the texts of one request, float32 [texts, dimensions]. Raises _Failure."""
        import openai

        # Voyage gives lists of numbers if it is asked for no format; other servers may then give base64.
        dialect = {"input_type": side} if self._api.get("input_type") else {"encoding_format": "float"}
        try:
            answer = self._send({"model": self._id, "input": texts, **dialect})
        except openai.APIError as error:
            raise _Failure(self._without_key(self._explain(error))) from None
        try:
            return _vectors(answer, texts)
        except ValueError as fault:
            raise _Failure(self._without_key(f"{self.address}: {fault}")) from None

    def _send(self, body: Mapping[str, object]) -> str:
        """The text of the answer to a request."""
        import openai

        def post(retries: int) -> str:
            # Not client.embeddings: it cannot leave the format out, and takes any JSON for embeddings.
            answer = self._client.post("/embeddings", cast_to=str, body=body, options={"max_retries": retries})
            self._answers = True
            return answer

        if not self._answers:
            try:
                return post(min(_FIRST_RETRIES, self._retries))
            except openai.APIStatusError as error:
                self._answers = True
                if error.status_code < 500 and error.status_code not in _TRIED_AGAIN:
                    raise
        return post(self._retries)

    def _explain(self, error: Exception) -> str:
        """What an error of the client means, and what to do."""
        import openai

        where = self.address
        if isinstance(error, openai.APITimeoutError):
            return f"{where} did not answer within {self._timeout:g} s (set {TIMEOUT_VARIABLE} to wait longer)"
        if isinstance(error, openai.APIConnectionError):
            hint = f"is it running, and is {self._named_by} right?" if self._named else "is there a network?"
            return f"{where} is out of reach, or broke off ({_line(str(error.__cause__ or error))}): {hint}"
        if not isinstance(error, openai.APIStatusError):
            return f"{where}: {_line(str(error))}"
        status, words = error.status_code, _said(error.body)
        told = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        if status in (401, 403):
            return f"{where} refuses the key ({told}): is {self._api.get('key_variable', 'the key')} right?"
        if status == 404:
            return f"{where} does not exist, or serves no model {self._id!r} ({told})"
        if status == 429:
            return f"{where} asks to wait, or the account is used up ({told})"
        return f"{where} {'failed' if status >= 500 else 'refuses the texts'} ({told})"

    def _without_key(self, text: str) -> str:
        """A message without the key, which servers may quote."""
        secret = len(self._key) >= _SECRET
        return text.replace(self._key, "***") if secret else text


def _timeout() -> float:
    """The seconds to wait for an answer, if the environment or nobody says."""
    text = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    with suppress(ValueError):
        seconds = float(text) if text else TIMEOUT
        if 0 < seconds < float("inf"):
            return seconds
    raise R2medError(f"{TIMEOUT_VARIABLE} is {shown(text)}; a number of seconds is wanted")


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


def _side_by_side[Job, Result](
    work: Callable[[Job], Result], jobs: Sequence[Job], threads: int, collect: Callable[[Job, Result], None]
) -> None:
    """Call `collect(job, work(job))` for every job, in this thread, in the order in which they are done.

    The first error is raised. The threads are daemons, not an executor's: after an error or Ctrl-C nobody waits for
    the requests under way, which may be sent again and again for minutes.
    """
    waiting, done, over = SimpleQueue(), SimpleQueue(), Event()
    for job in jobs:
        waiting.put(job)

    def run() -> None:
        with suppress(Empty):
            while not over.is_set():
                job = waiting.get_nowait()
                try:
                    done.put((job, work(job), None))
                except BaseException as error:
                    over.set()
                    done.put((job, None, error))

    for number in range(min(threads, len(jobs))):
        Thread(target=run, name=f"embeddings-{number}", daemon=True).start()
    try:
        for _ in jobs:
            job, result, error = done.get()
            if error is not None:
                raise error
            collect(job, result)
    finally:
        over.set()


def _vectors(answer: str, texts: Sequence[str]) -> "np.ndarray":
    """The embeddings of an answer, float32, in the order of the texts. Raises ValueError that says what is wrong."""
    import numpy as np

    try:
        value = json.loads(answer, parse_int=float)
    except (ValueError, RecursionError):
        raise ValueError(f"the answer is not JSON, or not all of it: {shown(_line(answer), _SHOWN)}") from None
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise ValueError(f"the answer holds no embeddings: {_said(value) or shown(_line(answer), _SHOWN)}")
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
            raise ValueError(f"the embedding of {shown(texts[int(bad.argmax())], _SHOWN)} {what}")
    return vectors


def _said(body: object) -> str:
    """What a server says in the body of an error, in one line; "" of a web page."""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            body = body[key]
    return _line(body) if isinstance(body, str) and not body.lstrip().startswith("<") else ""


def _line(text: str) -> str:
    """A text in one short line."""
    return cut(" ".join(text[:2000].split()), 200).rstrip(".")
