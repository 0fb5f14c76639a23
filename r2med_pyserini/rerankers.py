"""Rerankers: what rerankers.yaml says of them, and the exact text that each is given of a query and a document.

The file is read strictly and as a whole, as models.yaml is; tasks.yaml holds the instructions per dataset.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from . import yamlfile
from .errors import BadInput, R2medError, UsageError, shown
from .facts import (
    DTYPES,
    FACTS,
    FLOAT16,
    HALVES,
    TASK,
    TASKS_FILE,
    TaskSet,
    check_revisions,
    described,
    for_people,
    instruction,
    server,
    task_sets,
    word,
    words,
)
from .paths import PACKAGE
from .suggest import did_you_mean
from .yamlfile import Range, Reader

RERANKERS_FILE = PACKAGE / "rerankers.yaml"

CROSS_ENCODER, LORA_CLASSIFIER = "cross-encoder", "lora-classifier"
MONOT5, YES_NO = "monot5", "yes-no"
LLM_POINTWISE, LLM_LISTWISE = "llm-pointwise", "llm-listwise"
PAIRS, TEXTS, SERVED = (CROSS_ENCODER, LORA_CLASSIFIER), (MONOT5, YES_NO), (LLM_POINTWISE, LLM_LISTWISE)
LOADERS = (*PAIRS, *TEXTS, *SERVED)
LONGEST_FIRST, PASSAGE_FIRST = "longest-first", "passage-first"

_QUERY, _DOCUMENT, _PASSAGES, _COUNT, _NUMBER = "{query}", "{document}", "{passages}", "{count}", "{number}"


@dataclass(frozen=True)
class Reranker:
    """Facts about a reranker. What a loader does not have is None.

    The loaders: CROSS_ENCODER classifies a pair of texts; LORA_CLASSIFIER does so with a decoder and an adapter;
    MONOT5 and YES_NO compare two tokens that may follow one text, of an encoder-decoder and of a decoder; LLM_POINTWISE
    and LLM_LISTWISE ask a server, of one document and of a list.
    """

    name: str
    loader: str
    id: str | None = None  # of the Hub; None where a server is asked
    revision: str | None = None  # commit of the Hub repository; None: not pinned
    base_id: str | None = None  # the model that an adapter belongs to, and its commit
    base_revision: str | None = None
    model_type: str | None = None  # the type of model that a config.json should name and does not
    positive: int | None = None  # which logit is the score; None: the only one
    tokens: tuple[str, str] | None = None  # of the vocabulary: relevant, not relevant; to a server: the two answers
    max_length: int | None = None  # of query and document together, in tokens, those around them included
    query_length: int | None = None  # of the query alone
    truncation: str | None = None  # LONGEST_FIRST, or PASSAGE_FIRST: which text is cut where both are too long
    document_words: int | None = None  # of a document, as a server is sent it
    window: int | None = None  # how many documents are ranked at once, and how far the window moves up each time
    stride: int | None = None
    temperature: float | None = None  # what a server is asked for: also the most tokens of an answer,
    max_tokens: int | None = None
    logprobs: int | None = None  # and how many tokens are to come with their log-probabilities
    query: str | None = None  # templates: of the two texts of a pair,
    document: str | None = None
    prompt: str | None = None  # of the one text, or of the user's message,
    system: str | None = None  # of the message before it,
    passage: str | None = None  # and of one document of a list
    tasks: str | None = None  # name of a task set, if the prompt has TASK
    instructions: TaskSet | None = field(default=None, hash=False, repr=False)  # this task set
    dtype: str | None = None  # of the published weights: float32, float16 or bfloat16
    half: str | None = None  # the half precision to use on a GPU
    remote_code: bool = False  # runs code of its repository, which the user must allow
    api: Mapping[str, str] | None = field(default=None, hash=False)  # see _API
    facts: Mapping[str, object] = field(default_factory=dict, hash=False, repr=False)  # for people

    def render(self, dataset: str, query: str, document: str) -> str | tuple[str, str]:
        """Exactly what the tokenizer or the server is given.

        PAIRS: the two texts of a pair. TEXTS: one text. LLM_POINTWISE: the system's message and the user's.
        """
        if self.loader in PAIRS:
            return _fill(self.query, query=query), _fill(self.document, document=document)
        if self.loader == LLM_LISTWISE:
            return self.render_list(dataset, query, [document])
        prompt = _fill(self._told(self.prompt, dataset), query=query, document=self._shortened(document))
        return (self.system, prompt) if self.loader == LLM_POINTWISE else prompt

    def render_list(self, dataset: str, query: str, documents: Sequence[str]) -> tuple[str, str]:
        """For LLM_LISTWISE: the system's message and the user's, which numbers the documents from 1 on."""
        passages = [
            _fill(self.passage, number=str(number), document=self._shortened(document))
            for number, document in enumerate(documents, start=1)
        ]
        prompt = self._told(self.prompt, dataset)
        return self.system, _fill(prompt, query=query, passages="\n".join(passages), count=str(len(passages)))

    def cuts(self, document: str) -> bool:
        """Whether a server is sent a part of a document only."""
        return self.document_words is not None and len(document.split()) > self.document_words

    def around(self, dataset: str) -> tuple[str, str, str]:
        """For TEXTS: what stands before the query, between query and document, and after the document."""
        before, rest = self._told(self.prompt, dataset).split(_QUERY)
        between, after = rest.split(_DOCUMENT)
        return before, between, after

    def recipe(self, dataset: str) -> dict:
        """All that a score depends on besides query and document, as JSON can hold it; what is None is left out.

        Where a server is asked, also the model's name, and the address if it is not the usual one.
        """
        found = {key: getattr(self, key) for key in (*_ORIGIN, *_SCORE, *_LENGTHS)}
        found["tokens"] = list(self.tokens) if self.tokens else None
        found |= {key: self._told(getattr(self, key), dataset) for key in _TEMPLATES}
        found |= {"served_model": self._served_model(), "server": server(self.api)}
        return {key: value for key, value in found.items() if value is not None}

    def repositories(self) -> list[tuple[str, str | None]]:
        """The Hub's repositories that hold the files, each with its revision: the model's, and that of its base."""
        found = ((self.id, self.revision), (self.base_id, self.base_revision))
        return [(name, revision) for name, revision in found if name is not None]

    def served_model(self) -> str:
        """The name of the model that the server runs. Raises R2medError if the environment does not say it."""
        name = self._served_model()
        if name is None:
            raise R2medError(f"{self.name}: set {self.api['model_variable']} to the name of the server's model")
        return name

    def _served_model(self) -> str | None:
        return os.environ.get(self.api["model_variable"], "").strip() or None if self.api else None

    def _told(self, template: str | None, dataset: str) -> str | None:
        return template.replace(TASK, instruction(self.instructions, dataset)) if template and self.tasks else template

    def _shortened(self, document: str) -> str:
        """A document as a prompt has it; for a server on one line, and cut, as RankGPT's authors do."""
        return " ".join(document.split()[: self.document_words]) if self.loader in SERVED else document


def _fill(template: str, **values: str) -> str:
    """A template with values in its places. What looks like a place in a value is left as it is."""
    return re.sub(r"\{(" + "|".join(values) + r")\}", lambda match: values[match[1]], template)


_ORIGIN = ("id", "revision", "base_id", "base_revision", "model_type")
_SCORE = ("loader", "positive", "tokens", "window", "stride", "temperature", "max_tokens", "logprobs")
_LENGTHS = ("max_length", "query_length", "truncation", "document_words")
_TEMPLATES = ("query", "document", "prompt", "system", "passage")
_SECTIONS = {
    "files": (*_ORIGIN, "dtype", "half", "remote_code"),
    "score": _SCORE,
    "text": (*_LENGTHS, *_TEMPLATES, "tasks"),
}
# Of a server: its address, and the environment variables that hold another address, the key and the model's name.
_API = ("base_url", "base_url_variable", "key_variable", "model_variable")
_KEYS = (*(key for keys in _SECTIONS.values() for key in keys), *FACTS, *_API)  # what `unconfirmed` may name

# What a description of a loader must have, what it may have besides, and what holds where it says nothing.
_OF_HUB = frozenset(("id", "revision", "dtype", "loader", "max_length"))
_OF_TEXTS = _OF_HUB | {"tokens", "prompt"}
_OF_SERVED = frozenset(("loader", "temperature", "max_tokens", "system", "prompt"))
_REQUIRED = {
    CROSS_ENCODER: _OF_HUB,
    LORA_CLASSIFIER: _OF_HUB | {"base_id", "base_revision"},
    MONOT5: _OF_TEXTS,
    YES_NO: _OF_TEXTS,
    LLM_POINTWISE: _OF_SERVED | {"tokens", "logprobs"},
    LLM_LISTWISE: _OF_SERVED | {"window", "stride", "passage"},
}
_ON_HUB = frozenset(("model_type", "half", "remote_code", "query_length", "truncation"))
_OPTIONAL = (
    dict.fromkeys(PAIRS, _ON_HUB | {"positive", "query", "document"})
    | dict.fromkeys(TEXTS, _ON_HUB | {"tasks"})
    | dict.fromkeys(SERVED, frozenset(("document_words", "tasks")))
)
_OF_PAIRS = {"truncation": LONGEST_FIRST, "query": _QUERY, "document": _DOCUMENT}
_USUAL = {loader: {"half": FLOAT16, **_OF_PAIRS} for loader in PAIRS}
_USUAL |= {loader: {"half": FLOAT16, "truncation": PASSAGE_FIRST} for loader in TEXTS}
_CHOICES = {"dtype": DTYPES, "half": HALVES, "truncation": (LONGEST_FIRST, PASSAGE_FIRST)}
_RANGES: dict[str, Range] = {
    "positive": (0, 1000), "max_length": (8, 1_000_000), "query_length": (1, 1_000_000), "window": (2, 1000),
    "document_words": (1, 1_000_000), "stride": (1, 1000), "temperature": (0, 2), "max_tokens": (1, 1_000_000),
    "logprobs": (1, 1000),
}  # fmt: skip
_WHOLE = tuple(key for key in _RANGES if key != "temperature")
# The places of a template: those that it must have once, in this order, and those that it may have.
_PLACES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "query": ((_QUERY,), ()),
    "document": ((_DOCUMENT,), ()),
    "system": ((), ()),
    "passage": ((_NUMBER, _DOCUMENT), ()),
    "prompt": ((_QUERY, _DOCUMENT), (TASK,)),
}
_LIST_PROMPT = ((_QUERY, _PASSAGES), (TASK, _COUNT))


def parse(rerankers: str, tasks: str) -> dict[str, Reranker]:
    """The rerankers that the texts of rerankers.yaml and tasks.yaml describe. Raises BadInput with every fault."""
    reader, task_reader = Reader(RERANKERS_FILE.name), Reader(TASKS_FILE.name)
    given = described(reader, yamlfile.read(rerankers, RERANKERS_FILE.name), "reranker")
    sets = task_sets(task_reader, yamlfile.read(tasks, TASKS_FILE.name))
    found = {name: _reranker(reader, name, value, sets) for name, value in given.items()}
    if reader.faults or task_reader.faults:
        raise BadInput(reader.faults + task_reader.faults)
    return {name: reranker for name, reranker in found.items() if reranker}


def _reranker(reader: Reader, name: str, value: object, sets: Mapping[str, TaskSet]) -> Reranker | None:
    """One reranker; None after noting what is wrong."""
    before = len(reader.faults)
    score = value.get("score") if isinstance(value, dict) else None
    loader = score.get("loader") if isinstance(score, dict) else None
    if loader not in LOADERS:
        top = reader.mapping(value, name, (*_SECTIONS, "api", "facts", "source", "note"), ("score",))
        if "score" in top and reader.mapping(top["score"], f"{name}: score", _SCORE, ("loader",)).get("loader"):
            reader.choice(loader, f"{name}: loader", LOADERS)
        return None
    served = loader in SERVED
    sections = ("score", "text", *(("api",) if served else ("files",)))
    top = reader.mapping(value, name, (*sections, "facts", "source", "note"), (*sections, "facts", "source"))
    parts = dict(_USUAL.get(loader, {}))
    for section in sections:
        if section == "api":
            parts["api"] = _api(reader, name, top.get("api", {}))
        elif section in top:
            known = [key for key in _SECTIONS[section] if key in _REQUIRED[loader] | _OPTIONAL[loader]]
            required = [key for key in known if key in _REQUIRED[loader]]
            parts |= reader.mapping(top[section], f"{name}: {section}", known, required)
    facts = for_people(reader, name, top, ("unconfirmed",) if served else (*FACTS, "unconfirmed"), _KEYS)
    _check_values(reader, name, parts)
    check_revisions(reader, name, parts, ("revision", "base_revision"), facts["unconfirmed"])
    _check_templates(reader, name, parts, sets)
    if len(reader.faults) > before:
        return None
    tokens = tuple(parts.pop("tokens")) if "tokens" in parts else None
    return Reranker(name, tokens=tokens, instructions=sets.get(parts.get("tasks")), facts=facts, **parts)


def _api(reader: Reader, name: str, value: object) -> dict[str, str]:
    api = reader.mapping(value, f"{name}: api", _API, _API)
    for key, given in api.items():
        word(reader, given, f"{name}: api: {key}")
    return api


def _check_values(reader: Reader, name: str, parts: dict) -> None:
    """Every value by itself: its type, and what it may be."""
    for key, known in _CHOICES.items():
        if key in parts:
            reader.choice(parts[key], f"{name}: {key}", known)
    for key in ("id", "base_id", "model_type"):
        if key in parts:
            word(reader, parts[key], f"{name}: {key}")
    if "remote_code" in parts:
        reader.flag(parts["remote_code"], f"{name}: remote_code")
    parts |= reader.numbers({key: parts[key] for key in _RANGES if key in parts}, name, _RANGES, _WHOLE)
    if "tokens" in parts:
        found = words(reader, parts["tokens"], f"{name}: tokens")
        if isinstance(parts["tokens"], list) and len(set(found)) != 2:
            reader.fault(f"{name}: tokens is {shown(parts['tokens'])}; the relevant and the other one are wanted")
    window, stride = parts.get("window"), parts.get("stride")
    if isinstance(window, int) and isinstance(stride, int) and stride >= window:
        reader.fault(f"{name}: stride {stride} is not less than window {window}: windows would not overlap")


def _check_templates(reader: Reader, name: str, parts: Mapping, sets: Iterable[str]) -> None:
    """Whether every template has its places, and whether there is a task set where one is wanted."""
    for key in _TEMPLATES:
        if key in parts and word(reader, parts[key], f"{name}: {key}"):
            wanted, allowed = _LIST_PROMPT if key == "prompt" and "passage" in parts else _PLACES[key]
            _check_places(reader, f"{name}: {key}", parts[key], wanted, allowed)
    has_task = TASK in str(parts.get("prompt"))
    if has_task and "tasks" not in parts:
        reader.fault(f"{name}: prompt has {TASK}, but `tasks` names no task set")
    if "tasks" in parts and reader.choice(parts["tasks"], f"{name}: tasks", sets) and not has_task:
        reader.fault(f"{name}: tasks: there is a task set, but the prompt has no {TASK}")


def _check_places(reader: Reader, name: str, template: str, wanted: Sequence[str], allowed: Sequence[str]) -> None:
    places = re.findall(r"\{\w*\}", template)
    if [place for place in places if place in wanted] != list(wanted):
        reader.fault(f"{name} is {shown(template)}; {' and '.join(wanted)}, in this order and once, are wanted")
    if set(places) - {*wanted, *allowed} or re.search(r"[{}]", re.sub(r"\{\w*\}", "", template)):
        known = ", ".join((*wanted, *allowed)) or "none"
        reader.fault(f"{name} is {shown(template)}; no braces are known but those of {known}")


@cache
def _described() -> dict[str, Reranker]:
    return parse(RERANKERS_FILE.read_text(encoding="utf-8"), TASKS_FILE.read_text(encoding="utf-8"))


def names() -> tuple[str, ...]:
    """The rerankers that the package describes, sorted. Raises BadInput if the files that describe them are wrong."""
    return tuple(sorted(_described()))


def load(name: str) -> Reranker:
    """The reranker of that name. Raises UsageError if there is none, BadInput if the files are wrong."""
    if name not in _described():
        raise UsageError(f"no reranker {name!r}{did_you_mean(name, names())} (known: {', '.join(names())})")
    return _described()[name]
