"""A model behind a server that speaks OpenAI's protocol: where it is, asking it, and what its errors mean.

What is asked, and what an answer must hold, is for the callers: encoders/api.py and reranking/chat.py.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread
from urllib.parse import urlsplit

from .errors import R2medError, cut, shown

TIMEOUT_VARIABLE = "R2MED_API_TIMEOUT"
TIMEOUT = 300.0  # seconds
RETRIES = 6  # after 0.5 s, 1 s, 2 s, ... up to 8 s, or as long as the server asks for (Retry-After)
REQUESTS = 4  # in flight at once
SHOWN = 60  # characters of a text, or of an answer, in a message

# What a failure says of the requests to come: every one would fail; so would they unless one has been answered before;
# the server has trouble, which may pass; or there is something about this request alone.
ALL, UNLESS_ANSWERED, TROUBLE, THIS = "all", "unless answered", "trouble", "this"

_FIRST_RETRIES = 2  # before the first answer: a server that is not there is told of soon, not after half a minute
_CONNECT_S = 10.0
_TRIED_AGAIN = (408, 409, 429)  # by the client, besides 5xx
_OF_ALL = (401, 402, 404)  # the key, the account, the address or the model
_SECRET = 8  # characters; a shorter key is a stand-in, for a server that wants none
_LIKE = "such as http://localhost:8080/v1"


class Failure(Exception):
    """Why a request came to nothing; its text names the server, and shows no key.

    `kind` is ALL, UNLESS_ANSWERED, TROUBLE or THIS; `parameter` the one that the server says it does not take.
    """

    def __init__(self, text: str, kind: str, parameter: str | None = None):
        super().__init__(text)
        self.kind, self.parameter = kind, parameter


class Service:
    """Where a model is served, as the environment or else `api` says. Raises R2medError if that is wrong.

    `name` is the user's name of the model and `model` the server's; `path` is what is asked for (`embeddings`), `what`
    the noun for that which is sent. `timeout` is the seconds to wait for an answer (None: what R2MED_API_TIMEOUT says,
    or 300), `retries` how often a request is sent again after a time-out, a broken connection, or HTTP 408, 409, 429 or
    5xx. No message shows the key, nor a password in the address.
    """

    def __init__(
        self, name: str, model: str | None, api: Mapping, path: str, what: str, timeout: float | None, retries: int
    ):
        self._name, self._model, self._api, self._retries = name, model, api, retries
        self._path, self._what = path, what
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
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}/{self._path}"

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
        try:
            import openai
        except ImportError as error:
            raise R2medError("the package openai is not installed: pip install 'r2med-pyserini[models]'") from error

        timeout = openai.Timeout(self._timeout, connect=min(_CONNECT_S, self._timeout))
        client = openai.OpenAI(base_url=url, api_key=self._key or "none", timeout=timeout)
        if self._api.get("key_variable") != "OPENAI_API_KEY":  # OPENAI_ORG_ID and OPENAI_PROJECT_ID are not for others
            client.organization = client.project = None
        return client

    def ask(self, body: Mapping[str, object]) -> str:
        """The text of the answer to a request. Raises Failure. Several threads may ask at once."""
        import openai

        def post(retries: int) -> str:
            # Not by the client's methods: they cannot leave parameters out, and take any JSON for what was asked for.
            answer = self._client.post(f"/{self._path}", cast_to=str, body=body, options={"max_retries": retries})
            self._answers = True
            return answer

        try:
            if not self._answers:
                try:
                    return post(min(_FIRST_RETRIES, self._retries))
                except openai.APIStatusError as error:
                    self._answers = True
                    if not _passes(error.status_code):
                        raise
            return post(self._retries)
        except openai.APIError as error:
            raise self._failure(error) from None  # the client's own error may quote the key

    def fault(self, what: object, kind: str = TROUBLE) -> Failure:
        """The failure of a request whose answer is of no use, because of `what`."""
        return Failure(self._without_key(f"{self.address}: {what}"), kind)

    def _failure(self, error: Exception) -> Failure:
        status = getattr(error, "status_code", None)
        unsupported = str(error.code).startswith("unsupported_")
        if status is None or _passes(status):
            kind = TROUBLE
        elif status == 403:  # the key's fault, or a filter's that dislikes one text
            kind = UNLESS_ANSWERED
        else:
            kind = ALL if status in _OF_ALL or unsupported else THIS
        return Failure(self._without_key(self._explain(error)), kind, str(error.param) if unsupported else None)

    def _explain(self, error: Exception) -> str:
        """What an error of the client means, and what to do."""
        import openai

        where = self.address
        if isinstance(error, openai.APITimeoutError):
            return f"{where} did not answer within {self._timeout:g} s (set {TIMEOUT_VARIABLE} to wait longer)"
        if isinstance(error, openai.APIConnectionError):
            hint = f"is it running, and is {self._named_by} right?" if self._named else "is there a network?"
            return f"{where} is out of reach, or broke off ({line(str(error.__cause__ or error))}): {hint}"
        if not isinstance(error, openai.APIStatusError):
            return f"{where}: {line(str(error))}"
        status, words = error.status_code, said(error.body)
        told = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        if status in (401, 403):
            return f"{where} refuses the key ({told}): is {self._api.get('key_variable', 'the key')} right?"
        if status == 404:
            return f"{where} does not exist, or serves no model {self._model!r} ({told})"
        if status == 429:
            return f"{where} asks to wait, or the account is used up ({told})"
        return f"{where} {'failed' if status >= 500 else f'refuses the {self._what}'} ({told})"

    def _without_key(self, text: str) -> str:
        """A message without the key, which servers may quote."""
        secret = len(self._key) >= _SECRET
        return text.replace(self._key, "***") if secret else text


def _passes(status: int) -> bool:
    """Whether an HTTP status tells of trouble that may pass."""
    return status >= 500 or status in _TRIED_AGAIN


def _timeout() -> float:
    """The seconds to wait for an answer, if the environment or nobody says."""
    text = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    with suppress(ValueError):
        seconds = float(text) if text else TIMEOUT
        if 0 < seconds < float("inf"):
            return seconds
    raise R2medError(f"{TIMEOUT_VARIABLE} is {shown(text)}; a number of seconds is wanted")


def side_by_side[Job, Result](
    work: Callable[[Job], Result], jobs: Sequence[Job], threads: int, collect: Callable[[Job, Result], None], name: str
) -> None:
    """Call `collect(job, work(job))` for every job, in this thread, in the order in which they are done.

    The first error is raised. The threads, whose names begin with `name`, are daemons, not an executor's: after an
    error or Ctrl-C nobody waits for the requests under way, which may be sent again and again for minutes.
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
        Thread(target=run, name=f"{name}-{number}", daemon=True).start()
    try:
        for _ in jobs:
            job, result, error = done.get()
            if error is not None:
                raise error
            collect(job, result)
    finally:
        over.set()


def read_json(answer: str, **how: object) -> object:
    """The value of an answer. Raises ValueError that says what is wrong. `how` is for json.loads."""
    try:
        return json.loads(answer, **how)
    except (ValueError, RecursionError):
        raise ValueError(f"the answer is not JSON, or not all of it: {shown(line(answer), SHOWN)}") from None


def said(body: object) -> str:
    """What a server says in the body of an error, in one line; "" of a web page."""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            body = body[key]
    return line(body) if isinstance(body, str) and not body.lstrip().startswith("<") else ""


def line(text: str) -> str:
    """A text in one short line."""
    return cut(" ".join(text[:2000].split()), 200).rstrip(".")
