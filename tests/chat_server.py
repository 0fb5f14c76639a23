"""A language model's server on this machine that speaks OpenAI's protocol for chats, and misbehaves as it is told.

What the model says is `reply` of the user's message; the likely first tokens are `tokens` of it, each with its
log-probability (None: the answer has none).
"""

import re
from collections.abc import Callable, Mapping

from .scripted_server import WAIT_S, Fault, Request, ScriptedServer

__all__ = ["WAIT_S", "ChatServer", "Fault"]

PASSAGE = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)


def by_weight(prompt: str) -> str:
    """The order of the passages by the number that each ends with, the largest first: [2] > [1]."""
    passages = PASSAGE.findall(prompt)
    ranked = sorted(passages, key=lambda passage: -int(passage[1].split()[-1]))
    return " > ".join(f"[{number}]" for number, _ in ranked)


class ChatServer(ScriptedServer):
    """Answers with what `reply` and `tokens` say."""

    def __init__(self):
        super().__init__()
        self.reply: Callable[[str], object] = lambda prompt: "yes"
        self.tokens: Callable[[str], Mapping[str, float] | None] = lambda prompt: None

    def prompts(self) -> list[str]:
        """The user's messages that have arrived."""
        return [prompt_of(request) for request in self.requests]

    def is_about(self, request: Request, text: str) -> bool:
        """Whether the user's message holds a text."""
        return text in prompt_of(request)

    def answer(self, request: Request) -> object:
        """A chat's completion, by OpenAI's protocol."""
        prompt = prompt_of(request)
        likely = self.tokens(prompt) if request.body.get("logprobs") else None
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": self.reply(prompt), "refusal": None},
            "logprobs": None if likely is None else {"content": [first_token(likely)], "refusal": None},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": request.body["model"]}
        return self.alter(whole | {"choices": [choice], "usage": usage})


def prompt_of(request: Request) -> str:
    """The user's message."""
    return request.body["messages"][-1]["content"]


def first_token(likely: Mapping[str, float]) -> dict:
    """The entry of the first token, which is the likeliest."""
    entries = [{"token": token, "logprob": value, "bytes": list(token.encode())} for token, value in likely.items()]
    return max(entries, key=lambda entry: entry["logprob"]) | {"top_logprobs": entries}
