"""Conditions: one retrieval system each, described by one YAML file, validated as a whole before anything runs."""

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from . import evaluation, published, suites, trec
from .errors import BadInput, UsageError, cut, shown
from .paths import CONDITIONS
from .published import System
from .suggest import did_you_mean

LUCENE = "lucene"
BM25, QLD, BM25QS, BM25_OFFICIAL = "bm25", "qld", "bm25qs", "bm25-official"
RM3, ROCCHIO = "rm3", "rocchio"
MAX_HITS = 1_000_000
DEFAULT_TOLERANCE = 0.0005  # from a published figure
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class IndexSpec:
    """What a condition needs of its index."""

    kind: str = LUCENE
    exact_lengths: bool = False  # document lengths kept exactly, not rounded to one byte as Lucene's norms are
    docvectors: bool = False  # term vectors, which relevance feedback reads


@dataclass(frozen=True)
class SearchSpec:
    """How a condition searches: a ranking model, its parameters, optional relevance feedback.

    `hits` is how many documents are kept a query. Parameters that the model does not have stay None.
    """

    model: str
    hits: int = 1000
    k1: float | None = None
    b: float | None = None
    mu: float | None = None
    feedback: str | None = None
    fb_terms: int | None = None
    fb_docs: int | None = None
    original_query_weight: float | None = None
    alpha: float | None = None
    beta: float | None = None

    def parameters(self) -> dict:
        """The settings that the run depends on, for recipes and for display."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Published:
    """The published counterpart, and how far from it a score may lie."""

    system: System
    tolerance: float = DEFAULT_TOLERANCE


@dataclass(frozen=True)
class Recorded:
    """Our own figures for one suite, and what they were made with.

    `data` holds the digest of each dataset's raw files (see `plan.digest`), `scores` dataset -> measure -> value.
    """

    made_with: dict[str, str]
    data: dict[str, str]
    scores: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Condition:
    """A retrieval system, as the YAML file `file` describes it. `recorded` holds our own figures by suite."""

    name: str
    title: str
    index: IndexSpec
    search: SearchSpec
    published: Published | None = None
    recorded: dict[str, Recorded] = field(default_factory=dict)
    file: Path | None = None

    def recorded_scores(self, suite: str, dataset: str, data: str | None) -> dict[str, float]:
        """The figures recorded for one dataset: measure -> value; empty if there are none for data of this digest."""
        known = self.recorded.get(suite)
        return known.scores.get(dataset, {}) if known and data and known.data.get(dataset) == data else {}


# Which parameters a ranking model or a feedback method has, with the defaults of Pyserini's command line.
_MODELS: dict[str, dict[str, float]] = {
    BM25: {"k1": 0.9, "b": 0.4},
    BM25QS: {"k1": 0.9, "b": 0.4},
    BM25_OFFICIAL: {"k1": 0.9, "b": 0.4},
    QLD: {"mu": 1000.0},
}
_FEEDBACK: dict[str, dict[str, float | int]] = {
    RM3: {"fb_terms": 10, "fb_docs": 10, "original_query_weight": 0.5},
    ROCCHIO: {"fb_terms": 10, "fb_docs": 10, "alpha": 1.0, "beta": 0.75},
}
PYSERINI_DEFAULTS = {key: value for keys in (*_MODELS.values(), *_FEEDBACK.values()) for key, value in keys.items()}
_LARGEST = 1_000_000  # what would be larger is a slip of the pen
_RANGES = {
    "k1": (0, _LARGEST), "b": (0, 1), "mu": (0, _LARGEST), "original_query_weight": (0, 1), "alpha": (0, _LARGEST),
    "beta": (0, _LARGEST), "fb_terms": (1, 1000), "fb_docs": (1, 50), "hits": (1, MAX_HITS), "tolerance": (0, 1),
}  # fmt: skip
_WHOLE = ("fb_terms", "fb_docs", "hits")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML in which a key given twice is a fault, not a silent choice of the last."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            problem = f"key {key!r} stands twice" if str(key) in seen else None
            if isinstance(key, (list, dict)):
                problem = f"a key is a word, not {key!r}"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(str(key))
        return super().construct_mapping(node, deep)


class _Reader:
    """Reads one description, collecting every fault."""

    def __init__(self, where: str):
        self._where = where
        self.faults: list[str] = []

    def fault(self, text: str) -> None:
        self.faults.append(cut(f"{self._where}: {text}"))

    def mapping(self, value: object, name: str, known: set[str], required: set[str] = frozenset()) -> dict:
        """`value` as a mapping that has no unknown key and every required one."""
        if not isinstance(value, dict):
            self.fault(f"{name}: a mapping is wanted, not {shown(value)}")
            return {}
        for key in value:
            if key not in known:
                self.fault(f"{name}: unknown key {key!r}{did_you_mean(str(key), known)}")
        for key in sorted(required - value.keys()):
            self.fault(f"{name}: key {key!r} is missing")
        return {key: value[key] for key in value if key in known}

    def choice(self, value: object, name: str, known: tuple[str, ...]) -> bool:
        if value not in known:
            self.fault(f"{name}: {shown(value)} is none of {', '.join(known)}{did_you_mean(str(value), known)}")
        return value in known

    def numbers(self, values: dict, name: str) -> dict:
        """The numeric settings among `values`, each in its range."""
        good = {}
        for key, value in values.items():
            low, high = _RANGES[key]
            kind = "a whole number" if key in _WHOLE else "a number"
            number = isinstance(value, int if key in _WHOLE else (int, float)) and not isinstance(value, bool)
            if not number or not low <= value <= high:
                hint = (
                    " (YAML takes 1e-3 for text: write 1.0e-3)" if isinstance(value, str) and trec.number(value) else ""
                )
                self.fault(f"{name}: {key} is {shown(value)}; {kind}, {low:,} to {high:,}, is wanted{hint}")
            else:
                good[key] = value if key in _WHOLE else float(value)
        return good


def _flag(reader: _Reader, values: dict, key: str) -> bool:
    value = values.get(key, False)
    if not isinstance(value, bool):
        reader.fault(f"index: {key} is {shown(value)}; true or false is wanted")
    return value is True


def _index(reader: _Reader, value: object, model: str | None, feedback: str | None) -> IndexSpec:
    values = reader.mapping(value, "index", {"kind", "exact_lengths"}, {"kind"})
    if "kind" in values:
        reader.choice(values["kind"], "index: kind", (LUCENE,))
    exact = _flag(reader, values, "exact_lengths")
    if model is not None and exact != (model == BM25_OFFICIAL):
        wanted = "needs" if model == BM25_OFFICIAL else "cannot read"
        reader.fault(f"search: model {model} {wanted} an index with exact_lengths: true")
    return IndexSpec(LUCENE, exact, docvectors=feedback is not None)


def _search(reader: _Reader, value: object) -> SearchSpec | None:
    others = {"model", "hits", "feedback"}
    values = reader.mapping(value, "search", others | PYSERINI_DEFAULTS.keys(), {"model"})
    model, feedback = values.get("model"), values.get("feedback")
    if "model" not in values or not reader.choice(model, "search: model", tuple(_MODELS)):
        return None
    if feedback is not None and not reader.choice(feedback, "search: feedback", tuple(_FEEDBACK)):
        return None
    if feedback and model in (BM25_OFFICIAL, BM25QS):
        reader.fault(f"search: model {model} cannot be combined with feedback {feedback}")
    has = _MODELS[model] | _FEEDBACK.get(feedback, {})
    for key in sorted(values.keys() - others - has.keys()):
        reader.fault(f"search: {model}{f' with {feedback}' if feedback else ''} has no parameter {key!r}")
    given = {key: values[key] for key in values if key in has or key == "hits"}
    return SearchSpec(model=model, feedback=feedback, **{**has, **reader.numbers(given, "search")})


def _published(reader: _Reader, value: object) -> Published | None:
    values = reader.mapping(value, "published", {*published.FIELDS, "tolerance"}, {"source", "retriever"})
    if not {"source", "retriever"} <= values.keys():
        return None
    numbers = reader.numbers({key: values[key] for key in values if key == "tolerance"}, "published")
    system = System(**{key: str(values[key]) for key in values if key != "tolerance"})
    if system not in published.table():
        known = [str(other) for other in published.table()]
        reader.fault(f"published: no figures of {str(system)!r}{did_you_mean(str(system), known)}")
    return Published(system, **numbers)


def _recorded(reader: _Reader, value: object) -> dict[str, Recorded]:
    if not isinstance(value, dict):
        reader.fault("recorded: a mapping by suite is wanted")
        return {}
    found = {}
    for suite, record in value.items():
        where = f"recorded: {suite}"
        keys = {"with", "data", "scores"}
        parts = reader.mapping(record, where, keys, keys)
        if parts.keys() != keys or not all(isinstance(part, dict) for part in parts.values()):
            reader.fault(f"{where}: `with`, `data` and `scores` are mappings")
            continue
        for dataset, measures in parts["scores"].items():
            if suite in suites.builtin_names() and dataset not in suites.slugs():
                reader.fault(f"{where}: no dataset {dataset!r}{did_you_mean(str(dataset), suites.slugs())}")
            _figures(reader, f"{where} {dataset}", measures)
        found[str(suite)] = Recorded(parts["with"], parts["data"], parts["scores"])
    return found


def _figures(reader: _Reader, where: str, measures: object) -> None:
    if not isinstance(measures, dict):
        reader.fault(f"{where}: a mapping measure -> value is wanted")
        return
    for measure, figure in measures.items():
        if measure not in evaluation.MEASURES:
            reader.fault(f"{where}: no measure {measure!r}{did_you_mean(str(measure), evaluation.MEASURES)}")
        if isinstance(figure, bool) or not isinstance(figure, (int, float)) or not 0 <= figure <= 1:
            reader.fault(f"{where} {measure}: {shown(figure)} is no number between 0 and 1")


def parse(text: str, file: Path) -> Condition:
    """The condition that the text of a YAML file describes, named by the file. Raises BadInput with every fault."""
    where = str(file)
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}:{error.problem_mark.column + 1}" if error.problem_mark else ""
        raise BadInput(f"{where}{line}: not valid YAML: {error.problem}") from error
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise BadInput(f"{where}: not valid YAML: {shown(str(error))}") from error  # PyYAML lets some of these through
    reader = _Reader(where)
    values = reader.mapping(
        value, "condition", {"title", "index", "search", "published", "recorded"}, {"title", "index", "search"}
    )
    search = _search(reader, values["search"]) if "search" in values else None
    index = IndexSpec()
    if "index" in values:
        index = _index(reader, values["index"], search and search.model, search and search.feedback)
    counterpart = _published(reader, values["published"]) if "published" in values else None
    recorded = _recorded(reader, values["recorded"]) if "recorded" in values else {}
    if not isinstance(values.get("title", ""), str):
        reader.fault(f"title: {shown(values['title'])} is no text")
    if reader.faults or search is None:
        raise BadInput(reader.faults)
    return Condition(file.stem, values["title"], index, search, counterpart, recorded, file)


@cache
def names() -> tuple[str, ...]:
    """The conditions that the package describes, sorted."""
    return tuple(sorted(path.stem for path in CONDITIONS.glob("*.yaml")))


def load(name: str) -> Condition:
    """The condition of that name, or of that YAML file. Raises UsageError if there is none, BadInput if it is wrong."""
    own = name.endswith((".yaml", ".yml"))
    path = Path(name) if own else CONDITIONS / f"{name}.yaml"
    if not own and name not in names():
        raise UsageError(f"no condition {name!r}{did_you_mean(name, names())} (`r2med list` shows all)")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if own and not _NAME.fullmatch(path.stem):
        raise UsageError(f"{path}: the file's name becomes the condition's; letters, digits, . _ + and - are wanted")
    if own and path.stem in names():
        raise UsageError(f"{path}: {path.stem} is the name of a condition of the package; rename the file")
    return parse(text, path)


def load_all(wanted: tuple[str, ...]) -> list[Condition]:
    """Several conditions, once each; the faults of all of them are reported together."""
    loaded, faults, unknown = [], [], []
    files: dict[str, Path | None] = {}
    for name in dict.fromkeys(wanted):
        try:
            condition = load(name)
            first = files.setdefault(condition.name, condition.file)
            if first != condition.file:
                unknown.append(f"{first} and {condition.file} both describe a condition {condition.name!r}; rename one")
            else:
                loaded.append(condition)
        except BadInput as error:
            faults += error.faults
        except UsageError as error:
            unknown.append(str(error))
    if faults:
        raise BadInput(faults + unknown)
    if unknown:
        raise UsageError("\n".join(unknown))
    return loaded
