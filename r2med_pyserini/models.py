"""Encoders: what models.yaml and tasks.yaml say of them, and the exact text that each is given of a query or document.

Both files are read strictly and as a whole, and each model is described apart from the code that runs it. An
instruction that is missing, doubled or on the wrong side lowers a model's scores without a sound, so `Model.render` is
the only place that puts one before a text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath

from . import yamlfile
from .errors import BadInput, UsageError, shown
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
)
from .paths import PACKAGE
from .suggest import did_you_mean
from .yamlfile import Reader

MODELS_FILE = PACKAGE / "models.yaml"

QUERY, DOCUMENT = "query", "document"
SIDES = (QUERY, DOCUMENT)
DENSE, SPARSE = "dense", "sparse"
COSINE, DOT = "cosine", "dot"
SENTENCE_TRANSFORMERS, TRANSFORMERS, SPARSE_ENCODER = "sentence-transformers", "transformers", "sparse-encoder"
OWN_CODE, ONNX, API = "own-code", "onnx", "api"
MEAN, CLS, LAST, OWN = "mean", "cls", "last", "own"


@dataclass(frozen=True)
class Model:
    """Facts about an encoder. Mappings per side have the keys QUERY and DOCUMENT."""

    name: str
    kind: str  # DENSE or SPARSE
    loader: str  # what runs it: SENTENCE_TRANSFORMERS, TRANSFORMERS, SPARSE_ENCODER, OWN_CODE, ONNX or API
    id: str | None = None  # of the Hub, or the API's name of the model
    revision: str | None = None  # commit of the Hub repository; None: not pinned
    query_id: str | None = None  # another repository that encodes queries, and its commit
    query_revision: str | None = None
    package: str | None = None  # the Python distribution that carries the files, its version,
    version: str | None = None
    path: str | None = None  # and the folder of site-packages where it has them
    tokenizer: str | None = None  # name of another model whose tokenizer serves, where the files have none
    dimensions: int | None = None
    pooling: str = OWN  # MEAN, CLS, LAST, or OWN: as the model's files, its code or its service say
    normalize: bool = False  # to unit length
    similarity: str = COSINE  # or DOT
    max_length: Mapping[str, int | None] = field(default_factory=dict, hash=False)  # in tokens; None: the model's own
    append_eos: bool = False  # a text must end in the model's end token
    bidirectional: bool = False  # a decoder that runs without the causal mask
    pool_prompt: bool = True  # False: pooling leaves the prompt's tokens out
    pair: bool = False  # a document is tokenized as the pair of an empty title and the text
    as_json: bool = False  # each text is sent as a JSON string
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)  # per side, with TASK or without
    tasks: Mapping[str, str] = field(default_factory=dict, hash=False)  # name of a task set, for sides with TASK
    instructions: Mapping[str, TaskSet] = field(default_factory=dict, hash=False, repr=False)  # these task sets
    dtype: str | None = None  # of the published weights: float32, float16, bfloat16 or int8; None for an API
    half: str = FLOAT16  # or BFLOAT16: the half precision to use on a GPU
    remote_code: bool = False  # runs code of its repository, which the user must allow
    api: Mapping[str, str | int] | None = field(default=None, hash=False)  # see _API
    facts: Mapping[str, object] = field(default_factory=dict, hash=False, repr=False)  # for people

    def prompt(self, side: str, dataset: str) -> str:
        """What stands before a text of that side in that dataset; "" for nothing."""
        tasks = self.instructions.get(side)
        template = self.prompts[side]
        return template.replace(TASK, instruction(tasks, dataset)) if tasks else template

    def render(self, side: str, dataset: str, text: str) -> str | tuple[str, str]:
        """Exactly what the tokenizer or the API is given for a text: one text, or a pair of texts."""
        whole = self.prompt(side, dataset) + text
        if self.as_json:
            return json.dumps(whole.replace("\n", " "))
        return ("", whole) if self.pair and side == DOCUMENT else whole

    def recipe(self, side: str, dataset: str) -> dict:
        """All in the model that the vectors of a side depend on, as JSON can hold it; what it lacks is left out.

        Of a service also the address, where the environment names another one than the model's own.
        """
        if self.api:
            tokenizer = self.api.get("tokenizer")
        else:
            tokenizer = load(self.tokenizer).files(side) if self.tokenizer else None
        found = {
            **self.files(side),
            "side": side,
            "loader": self.loader,
            "tokenizer": tokenizer,
            "pooling": self.pooling,
            "normalize": self.normalize,
            "max_length": self.max_length[side],
            "append_eos": self.append_eos,
            "bidirectional": self.bidirectional,
            "pool_prompt": self.pool_prompt,
            "pair": self.pair and side == DOCUMENT,
            "as_json": self.as_json,
            "prompt": self.prompt(side, dataset),
            "server": server(self.api),
            **{key: self.api[key] for key in ("limit", "input_type") if self.api and key in self.api},
        }
        return {key: value for key, value in found.items() if value is not None}

    def files(self, side: str) -> dict[str, str | None]:
        """Which repository, or package, holds the files of a side, and in which revision, or version."""
        if self.package:
            return {"package": self.package, "version": self.version, "path": self.path}
        if side == QUERY and self.query_id:
            return {"id": self.query_id, "revision": self.query_revision}
        return {"id": self.id, "revision": self.revision}


_LOADERS = (SENTENCE_TRANSFORMERS, TRANSFORMERS, SPARSE_ENCODER, OWN_CODE, ONNX, API)
_CHOICES = {
    "kind": (DENSE, SPARSE),
    "loader": _LOADERS,
    "pooling": (MEAN, CLS, LAST, OWN),
    "similarity": (COSINE, DOT),
    "dtype": DTYPES,
    "half": HALVES,
}
_FLAGS = ("normalize", "append_eos", "bidirectional", "pool_prompt", "pair", "as_json", "remote_code")
_WORDS = ("id", "query_id", "package", "version", "path", "tokenizer")
_REVISIONS = ("revision", "query_revision")
_SECTIONS = {
    "files": (*_WORDS, *_REVISIONS, "dtype", "half", "remote_code"),
    "encode": ("kind", "loader", "dimensions", "pooling", "normalize", "similarity", "append_eos", "bidirectional",
               "pool_prompt"),
    "text": ("max_length", "pair", "as_json", "prompts", "tasks"),
}  # fmt: skip
# Of a service: its address, the environment variables that hold another address and the key, the tiktoken encoding by
# which texts are cut, the most tokens that it takes of what is sent, whether it is told which side a text is of.
_API = ("base_url", "base_url_variable", "key_variable", "tokenizer", "limit", "input_type")
_KEYS = (*(key for keys in _SECTIONS.values() for key in keys), *FACTS, *_API)  # what `unconfirmed` may name
_DECODERS = (TRANSFORMERS, SENTENCE_TRANSFORMERS)
# Properties that only some loaders see to: with another one they would be left unheeded.
_ONLY = {
    "query_id": (TRANSFORMERS,), "query_revision": (TRANSFORMERS,), "pair": (TRANSFORMERS,), "tokenizer": (ONNX,),
    "append_eos": _DECODERS, "bidirectional": _DECODERS, "pool_prompt": _DECODERS, "as_json": (API,), "api": (API,),
    "remote_code": (*_DECODERS, OWN_CODE),
}  # fmt: skip
_USUAL = {"pool_prompt": True}  # the other flags are usually false
_POOLING = {TRANSFORMERS: (MEAN, CLS, LAST), ONNX: (MEAN, CLS), SENTENCE_TRANSFORMERS: (MEAN, CLS, LAST, OWN)}


def parse(models: str, tasks: str) -> dict[str, Model]:
    """The models that the texts of models.yaml and tasks.yaml describe, by name. Raises BadInput with every fault."""
    reader, task_reader = Reader(MODELS_FILE.name), Reader(TASKS_FILE.name)
    given = described(reader, yamlfile.read(models, MODELS_FILE.name), "model")
    sets = task_sets(task_reader, yamlfile.read(tasks, TASKS_FILE.name))
    found = {name: _model(reader, name, value, sets) for name, value in given.items()}
    for name, model in found.items():
        _check_tokenizer(reader, name, model, found)
    if reader.faults or task_reader.faults:
        raise BadInput(reader.faults + task_reader.faults)
    return {name: model for name, model in found.items() if model}


def _model(reader: Reader, name: str, value: object, sets: dict[str, TaskSet]) -> Model | None:
    """One model; None after noting what is wrong."""
    before = len(reader.faults)
    top = reader.mapping(value, name, (*_SECTIONS, "api", "facts", "source", "note"), (*_SECTIONS, "facts", "source"))
    loader = top["encode"].get("loader") if isinstance(top.get("encode"), dict) else None
    parts = {}
    for section, keys in _SECTIONS.items():
        if section in top:
            parts |= reader.mapping(top[section], f"{name}: {section}", keys, _required(section, loader))
    required = ("licence", "unconfirmed") if loader == API else (*FACTS, "unconfirmed")
    facts = for_people(reader, name, top, required, _KEYS)
    if "api" in top or loader == API:
        parts["api"] = _api(reader, name, top.get("api"))
    _check_values(reader, name, parts, facts["unconfirmed"])
    _check_sides(reader, name, parts, sets)
    _check_files(reader, name, parts)
    _check_fit(reader, name, parts)
    if len(reader.faults) > before:
        return None
    tasks = parts.get("tasks", {})
    return Model(name, instructions={side: sets[tasks[side]] for side in tasks}, facts=facts, **parts)


def _required(section: str, loader: object) -> tuple[str, ...]:
    """The keys that a part of a description cannot do without."""
    of_files = () if loader == API else ("dtype",)
    of_encode = ("kind", "loader", "dimensions") + (() if loader == API else ("pooling", "normalize"))
    return {"files": of_files, "encode": of_encode, "text": ("max_length", "prompts")}[section]


def _api(reader: Reader, name: str, value: object) -> dict:
    api = reader.mapping(value, f"{name}: api", _API, _API[:3])
    for key, given in api.items():
        if key == "input_type":
            reader.flag(given, f"{name}: api: {key}")
        elif key == "limit":
            reader.numbers({key: given}, f"{name}: api", {key: (1, 1_000_000)}, (key,))
        else:
            word(reader, given, f"{name}: api: {key}")
    return api


def _check_values(reader: Reader, name: str, parts: dict, unconfirmed: list[str]) -> None:
    """Every value by itself: its type, and what it may be."""
    for key, known in _CHOICES.items():
        if key in parts:
            reader.choice(parts[key], f"{name}: {key}", known)
    for key in _FLAGS:
        if key in parts:
            reader.flag(parts[key], f"{name}: {key}")
    for key in _WORDS:
        if key in parts:
            word(reader, parts[key], f"{name}: {key}")
    check_revisions(reader, name, parts, _REVISIONS, unconfirmed)
    if "dimensions" in parts:
        reader.numbers({"dimensions": parts["dimensions"]}, name, {"dimensions": (1, 1_000_000)}, ("dimensions",))
    path = parts.get("path")
    if isinstance(path, str) and (PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts):
        reader.fault(f"{name}: path is {shown(path)}; a folder below site-packages is wanted")


def _check_sides(reader: Reader, name: str, parts: dict, sets: dict[str, TaskSet]) -> None:
    """What each side has of its own: length, prompt and task set."""
    lengths = prompts = {}
    if "max_length" in parts:
        lengths = reader.mapping(parts["max_length"], f"{name}: max_length", SIDES, SIDES)
    given = {side: length for side, length in lengths.items() if length is not None}
    reader.numbers(given, f"{name}: max_length", dict.fromkeys(SIDES, (1, 1_000_000)), SIDES)
    if "prompts" in parts:
        prompts = reader.mapping(parts["prompts"], f"{name}: prompts", SIDES, SIDES)
    tasks = reader.mapping(parts.get("tasks", {}), f"{name}: tasks", SIDES)
    for side, prompt in prompts.items():
        if not isinstance(prompt, str):
            reader.fault(f"{name}: prompts: {side} is {shown(prompt)}; a text is wanted")
            continue
        if set("{}") & set(prompt.replace(TASK, "")) or prompt.count(TASK) > 1:
            reader.fault(f"{name}: prompts: {side} is {shown(prompt)}; no braces but those of one {TASK} are known")
        if TASK in prompt and side not in tasks:
            reader.fault(f"{name}: prompts: {side} has {TASK}, but `tasks` names no task set for it")
        if TASK not in prompt and side in tasks:
            reader.fault(f"{name}: tasks: {side} has a task set, but its prompt has no {TASK}")
    for side, tasks_name in tasks.items():
        reader.choice(tasks_name, f"{name}: tasks: {side}", sets)


def _check_files(reader: Reader, name: str, parts: dict) -> None:
    """Which keys about a model's files go together."""
    where = f"{name}: files"
    if ("id" in parts) == ("package" in parts):
        reader.fault(f"{where}: either `id` or `package` is wanted")
    for one, other in (("package", "path"), ("package", "version"), ("query_id", "query_revision")):
        if (one in parts) != (other in parts):
            reader.fault(f"{where}: {one} and {other} go together")
    if "package" in parts and parts.keys() & {"revision", "query_id"}:
        reader.fault(f"{where}: a package has neither revision nor query_id")
    if "id" in parts and (parts.get("loader") == API) == ("revision" in parts):
        reader.fault(f"{where}: a Hub repository has a revision, an API has none")


def _check_fit(reader: Reader, name: str, parts: dict) -> None:
    """Whether the loader can do what is wanted of it."""
    kind, loader = parts.get("kind"), parts.get("loader")
    if loader not in _LOADERS:
        return
    if kind in (DENSE, SPARSE) and (kind == SPARSE) != (loader == SPARSE_ENCODER):
        reader.fault(f"{name}: kind {kind} and loader {loader} do not fit")
    if kind == SPARSE and parts.get("similarity") != DOT:
        reader.fault(f"{name}: similarity: sparse vectors are compared by {DOT}")
    pooling = parts.get("pooling", OWN)
    if pooling in _CHOICES["pooling"] and pooling not in _POOLING.get(loader, (OWN,)):
        reader.fault(f"{name}: pooling {pooling} and loader {loader} do not fit")
    for key, loaders in _ONLY.items():
        if parts.get(key, _USUAL.get(key, False)) != _USUAL.get(key, False) and loader not in loaders:
            reader.fault(f"{name}: {key} is for loader {' or '.join(loaders)}, not {loader}")
    if loader == OWN_CODE and parts.get("remote_code") is not True:
        reader.fault(f"{name}: remote_code: loader {OWN_CODE} runs code of the repository; true is wanted")


def _check_tokenizer(reader: Reader, name: str, model: Model | None, found: Mapping[str, Model | None]) -> None:
    if model is None or model.tokenizer is None:
        return
    others = [other for other in found if other != name]
    if reader.choice(model.tokenizer, f"{name}: tokenizer", others):
        other = found[model.tokenizer]
        if other and (other.tokenizer or other.loader == API):
            reader.fault(f"{name}: tokenizer: {other.name} has none of its own")


@cache
def _described() -> dict[str, Model]:
    return parse(MODELS_FILE.read_text(encoding="utf-8"), TASKS_FILE.read_text(encoding="utf-8"))


def names() -> tuple[str, ...]:
    """The models that the package describes, sorted. Raises BadInput if the files that describe them are wrong."""
    return tuple(sorted(_described()))


def load(name: str) -> Model:
    """The model of that name. Raises UsageError if there is none, BadInput if the files are wrong."""
    if name not in _described():
        raise UsageError(f"no encoder {name!r}{did_you_mean(name, names())} (known: {', '.join(names())})")
    return _described()[name]
