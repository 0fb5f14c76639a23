"""Asking a language model behind any server that speaks OpenAI's protocol for chats.

The protocol: POST {base_url}/chat/completions, https://platform.openai.com/docs/api-reference/chat/create. OpenAI's
models that think take no `max_tokens`, but `max_completion_tokens`, and no temperature; they say so in an error that
names the parameter (code unsupported_parameter or unsupported_value), as in
https://github.com/FoundationAgents/OpenManus/issues/555 and https://github.com/johny-b/llmcomp/issues/69.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock

from ..errors import R2medError, shown
from ..rerankers import Reranker
from ..service import ALL, SHOWN, THIS, TROUBLE, UNLESS_ANSWERED, Failure, Service, line, read_json, said

PATIENCE = 10  # failures in a row, each after all its tries, that are taken for the end of the server

_PAUSE_S = 0.5  # before a request is sent again whose answer cannot be read
_MOST, _MOST_INSTEAD, _TEMPERATURE = "max_tokens", "max_completion_tokens", "temperature"


class Ended(Exception):
    """Why it is of no use to ask any more."""


def precision(reranker: Reranker) -> str:
    """What is noted as the precision: the name of the server's model, which alone knows; "api" if there is none yet."""
    with suppress(R2medError):
        return reranker.served_model()
    return "api"


class Chat:
    """The server of a reranker. Before the first `ask` nothing is sent, and no key is looked for.

    `timeout` and `retries` are those of `Service`.
    """

    def __init__(self, reranker: Reranker, timeout: float | None, retries: int):
        self._reranker, self._timeout, self._retries = reranker, timeout, retries
        self._lock = Lock()
        self._service: Service | None = None
        self._answered = False  # whether any answer has been of use
        self._in_a_row = 0  # failures since
        self._unsupported: frozenset[str] = frozenset()  # parameters that the server does not take

    def ask[Found](
        self, messages: tuple[str, str], read: Callable[[dict], Found], more: Mapping[str, object] | None = None
    ) -> Found:
        """What `read` makes of the answer to the system's message and the user's; `more` goes with them.

        `read` is given the first choice, and raises Failure if it is of no use. Raises Failure if this request came to
        nothing, Ended if so would all others, and R2medError for what the environment lacks. Several threads may ask at
        once.
        """
        self._open()
        system, user = messages
        body = {
            "model": self._reranker.served_model(),
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            _TEMPERATURE: self._reranker.temperature,
            _MOST: self._reranker.max_tokens,
            **(more or {}),
        }
        try:
            found = read(self._choice(body))
        except Failure as failure:
            self._note(failure)
            raise
        with self._lock:
            self._answered, self._in_a_row = True, 0
        return found

    def _open(self) -> None:
        with self._lock:
            if self._service is None:
                name, model, api = self._reranker.name, self._reranker.served_model(), self._reranker.api
                self._service = Service(name, model, api, "chat/completions", "prompt", self._timeout, self._retries)

    def fault(self, what: str, kind: str = THIS) -> Failure:
        """For `read`: the failure of a request whose answer is of no use, because of `what`."""
        return self._service.fault(what, kind)

    def _note(self, failure: Failure) -> None:
        """Raise Ended if a failure means that others would fail too."""
        with self._lock:
            self._in_a_row = self._in_a_row + 1 if failure.kind == TROUBLE else 0
            if failure.kind == ALL or (failure.kind == UNLESS_ANSWERED and not self._answered):
                raise Ended(str(failure)) from None
            if self._in_a_row >= PATIENCE:
                raise Ended(f"{failure}; {self._in_a_row} requests in a row have failed") from None

    def _choice(self, body: dict) -> dict:
        """The first choice of the answer; if it cannot be read, of a second one. Raises Failure."""
        try:
            return _first_choice(self._send(body))
        except ValueError as fault:
            if self._retries == 0:
                raise self._service.fault(fault) from None
        time.sleep(_PAUSE_S)
        try:
            return _first_choice(self._send(body))
        except ValueError as fault:
            raise self._service.fault(fault) from None

    def _send(self, body: dict) -> str:
        """The answer to a request, without the parameters that the server turns out not to take."""
        while True:
            sent = _without(self._unsupported, body)
            try:
                return self._service.ask(sent)
            except Failure as failure:
                if failure.parameter not in {_MOST, _TEMPERATURE} & sent.keys():
                    raise
                self._unsupported |= {failure.parameter}


def _without(unsupported: frozenset[str], body: dict) -> dict:
    """What is sent to a server that does not take some parameters."""
    sent = {key: value for key, value in body.items() if key not in unsupported}
    return sent | ({_MOST_INSTEAD: body[_MOST]} if _MOST in unsupported else {})


def _first_choice(answer: str) -> dict:
    """The first choice of an answer, whose numbers are floats. Raises ValueError if it has none with a message."""
    value = read_json(answer, parse_int=float)
    choices = value.get("choices") if isinstance(value, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list | None):
        raise ValueError(f"the answer holds no message: {said(value) or shown(line(answer), SHOWN)}")
    return choice
