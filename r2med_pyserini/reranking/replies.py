"""What the answers of a language model mean: the odds between two answers, or an order of numbered passages."""

import math
import re
from collections.abc import Sequence

Listed = list[tuple[str, float]]  # tokens with their log-probabilities

_MARKS = " \t\r\n▁Ġ"  # blanks, also as tokenizers write them
# Where an order may stand: numbers in brackets, else a chain of numbers, else any numbers.
_BRACKETED = re.compile(r"\[([\d\s,;>]+)\]")
_CHAIN = re.compile(r"\d+(?:\s*[>,]\s*\d+)+")
_NUMBER = re.compile(r"\d+")
_DIGITS = 6  # of a number that can be meant
_BEGIN, _END = "<think>", "</think>"


def text(choice: dict) -> str:
    """What the model says in a choice; "" if nothing. Of content in parts, what it thinks is left out."""
    content = choice["message"].get("content") or ""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(str(part.get("text") or "") for part in parts)


def conclusion(reply: str) -> str:
    """A reply without the thoughts before it; "" if they have no end."""
    return reply.rpartition(_END)[2].partition(_BEGIN)[0].strip()


def first_tokens(choice: dict) -> Listed:
    """What the first token of an answer may be; empty if the answer does not say. Its numbers are all floats."""
    value = choice.get("logprobs")
    content = value.get("content") if isinstance(value, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top = first.get("top_logprobs") if isinstance(first, dict) else None
    entries = [entry for entry in top if isinstance(entry, dict)] if isinstance(top, list) else []
    found = [(entry.get("token"), entry.get("logprob")) for entry in entries]
    return [(token, logprob) for token, logprob in found if isinstance(token, str) and _is_finite(logprob)]


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def log_odds(listed: Listed, answers: tuple[str, str]) -> float | None:
    """The log-probability of the first of two answers, less that of the second; None if neither is listed.

    Tokens are compared without case and blanks, and those that are the same then (" Yes", "yes") are added up. What is
    not listed is at most as likely as the least likely token that is; that bound stands for it.
    """
    bare = [(token.strip(_MARKS).casefold(), logprob) for token, logprob in listed]
    least = min((logprob for _, logprob in listed), default=0.0)
    found = [[logprob for token, logprob in bare if token == answer.casefold()] for answer in answers]
    if not any(found):
        return None
    first, second = (_log_sum(logprobs) if logprobs else least for logprobs in found)
    return first - second


def _log_sum(logprobs: Sequence[float]) -> float:
    """The logarithm of the sum of probabilities."""
    top = max(logprobs)
    return top + math.log(sum(math.exp(logprob - top) for logprob in logprobs))


def order(reply: str, count: int) -> tuple[list[int], bool] | None:
    """The order of `count` passages that a reply says, as positions from 0, and whether it had to be repaired.

    A passage that is named twice stands where it is named first; those that are not named follow in their old order;
    other numbers mean nothing. None if the reply names no passage.
    """
    for pattern in (_BRACKETED, _CHAIN, _NUMBER):
        numbers = [number for place in pattern.finditer(reply) for number in _NUMBER.findall(place[0])]
        named = [int(number) - 1 if len(number) <= _DIGITS else count for number in numbers]
        known = dict.fromkeys(place for place in named if 0 <= place < count)
        if known:
            rest = [place for place in range(count) if place not in known]
            return [*known, *rest], len(named) != count or bool(rest)
    return None


def windows(count: int, size: int, stride: int) -> list[tuple[int, int]]:
    """Where windows of a list of `count` begin and end, from the end of the list to its beginning.

    The last one is shorter if the strides do not add up. A list of less than two needs none.
    """
    found, start, end = [], max(0, count - size), count
    while count > 1:
        found.append((start, end))
        if start == 0:
            break
        start, end = max(0, start - stride), end - stride
    return found
