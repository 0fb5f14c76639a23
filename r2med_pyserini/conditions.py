"""Conditions: one retrieval system each, described by one YAML file, validated as a whole before anything runs."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from . import composites, evaluation, published, specs, suites, yamlfile
from .composites import FusionSpec, RerankSpec
from .errors import BadInput, UsageError, shown
from .paths import CONDITIONS
from .published import System
from .specs import IndexSpec, Parameters, SearchSpec
from .suggest import did_you_mean
from .yamlfile import Reader

_WAYS = ("index", "search", "fusion", "rerank")
DEFAULT_TOLERANCE = 0.0005  # from a published figure
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


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
    """A retrieval system, as the YAML file `file` describes it. `recorded` holds our own figures by suite.

    It has an index and searches it; or it fuses the runs of other conditions, or reranks that of one.
    """

    name: str
    title: str
    index: IndexSpec | None = None
    search: SearchSpec | None = None
    published: Published | None = None
    recorded: dict[str, Recorded] = field(default_factory=dict)
    file: Path | None = None
    fusion: FusionSpec | None = None
    rerank: RerankSpec | None = None

    @property
    def encoder(self) -> str | None:
        """The model whose vectors the index holds, if any."""
        return self.index.encoder if self.index else None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The conditions whose runs this one is made from."""
        if self.fusion:
            return self.fusion.inputs
        return (self.rerank.input,) if self.rerank else ()

    @property
    def specs(self) -> tuple[Parameters, ...]:
        """All that the file says of how the run is made."""
        return tuple(spec for spec in (self.index, self.search, self.fusion, self.rerank) if spec)

    def recorded_scores(self, suite: str, dataset: str, data: str | None) -> dict[str, float]:
        """The figures recorded for one dataset: measure -> value; empty if there are none for data of this digest."""
        known = self.recorded.get(suite)
        return known.scores.get(dataset, {}) if known and data and known.data.get(dataset) == data else {}


def _published(reader: Reader, value: object) -> Published | None:
    values = reader.mapping(value, "published", {*published.FIELDS, "tolerance"}, {"source", "retriever"})
    if not {"source", "retriever"} <= values.keys():
        return None
    numbers = reader.numbers(
        {key: values[key] for key in values if key == "tolerance"}, "published", {"tolerance": (0, 1)}, ()
    )
    system = System(**{key: str(values[key]) for key in values if key != "tolerance"})
    if system not in published.table():
        known = [str(other) for other in published.table()]
        reader.fault(f"published: no figures of {str(system)!r}{did_you_mean(str(system), known)}")
    return Published(system, **numbers)


def _recorded(reader: Reader, value: object) -> dict[str, Recorded]:
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


def _figures(reader: Reader, where: str, measures: object) -> None:
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
    value = yamlfile.read(text, file)
    reader = Reader(file)
    values = reader.mapping(value, "condition", {"title", "published", "recorded", *_WAYS}, {"title"})
    parts = _way(reader, values) if isinstance(value, dict) else None
    counterpart = _published(reader, values["published"]) if "published" in values else None
    recorded = _recorded(reader, values["recorded"]) if "recorded" in values else {}
    if not isinstance(values.get("title", ""), str):
        reader.fault(f"title: {shown(values['title'])} is no text")
    if reader.faults or parts is None:
        raise BadInput(reader.faults)
    return Condition(file.stem, values["title"], published=counterpart, recorded=recorded, file=file, **parts)


def _way(reader: Reader, values: dict) -> dict | None:
    """How the run is made: the parts of a Condition that say it; None after noting what is wrong."""
    given = [key for key in _WAYS if key in values]
    if given == ["fusion"]:
        fusion = composites.read_fusion(reader, values["fusion"])
        return fusion and {"fusion": fusion}
    if given == ["rerank"]:
        rerank = composites.read_rerank(reader, values["rerank"])
        return rerank and {"rerank": rerank}
    if given == ["index", "search"]:
        found = specs.read(reader, values["index"], values["search"])
        return found and {"index": found[0], "search": found[1]}
    lacking = {"index": "search", "search": "index"}
    if len(given) == 1:
        reader.fault(f"condition: key {lacking[given[0]]!r} is missing")
    else:
        what = f"{', '.join(given)} do not go together; " if given else ""
        reader.fault(f"condition: {what}`index` and `search`, or `fusion`, or `rerank` is wanted")
    return None


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
    except (OSError, ValueError) as error:  # not UTF-8, or a name with a NUL in it
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


def closure(wanted: Iterable[Condition]) -> dict[str, Condition]:
    """The conditions, and all that they are made from, by name; each after its inputs.

    Raises BadInput with every fault of the inputs: one that does not exist or is wrong, that stands there twice, and
    circles.
    """
    found: dict[str, Condition] = {}
    faults: list[str] = []

    def visit(condition: Condition, above: tuple[Condition, ...]) -> None:
        files = [one.file.resolve() for one in above]
        if condition.file.resolve() in files:
            circle = (*above[files.index(condition.file.resolve()) :], condition)
            faults.append(f"{condition.file}: its inputs lead back to it: {' -> '.join(one.name for one in circle)}")
            return
        if condition.name in found:
            if found[condition.name].file.resolve() != condition.file.resolve():
                both = f"{found[condition.name].file} and {condition.file}"
                faults.append(f"{both} both describe a condition {condition.name!r}; rename one")
            return
        names = []
        for name in condition.inputs:
            own = name.endswith((".yaml", ".yml"))
            try:
                one = load(os.path.normpath(condition.file.parent / name) if own else name)
            except BadInput as error:
                faults.extend(error.faults)
            except UsageError as error:
                faults.append(f"{condition.file}: inputs: {error}")
            else:
                names.append(one.name)
                visit(one, (*above, condition))
        for name in sorted({name for name in names if names.count(name) > 1}):
            faults.append(f"{condition.file}: inputs: {name} stands there twice")
        found.setdefault(condition.name, condition)

    for condition in wanted:
        visit(condition, ())
    if faults:
        raise BadInput(list(dict.fromkeys(faults)))
    return found
