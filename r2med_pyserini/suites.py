"""Suites: named sets of datasets, and where their raw files lie.

`r2med` is the benchmark, `mini` the embedded sample, and any folder of the user's in R2MED's layout is a suite too:
one sub-folder a dataset, or the three files themselves.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from . import rawfiles
from .errors import MissingData, UsageError
from .paths import CORPUS_FILE, MINI, SUITES_FILE, Workspace
from .suggest import did_you_mean

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Dataset:
    """One dataset. `queries`, `documents` and `qrels` are the published counts, None where nobody published any.

    `words` holds the published mean words of a query and of a document.
    """

    slug: str
    name: str
    short: str
    raw: Path
    task: str | None = None
    repo: str | None = None
    revision: str | None = None
    queries: int | None = None
    documents: int | None = None
    qrels: int | None = None
    words: tuple[float, float] | None = None

    def missing(self) -> list[str]:
        """The names of the raw files that are not there in any form."""
        return rawfiles.missing(self.raw)


@dataclass(frozen=True)
class Suite:
    """A set of datasets.

    `argument` is what --suite calls it; `sample` marks a suite whose scores must not be taken for R2MED's.
    """

    name: str
    title: str
    datasets: tuple[Dataset, ...]
    argument: str
    sample: bool = False

    def select(self, slugs: tuple[str, ...]) -> tuple[Dataset, ...]:
        """The datasets of these names (slug or full name, any case), in the suite's order; all if none is given."""
        if not slugs:
            return self.datasets
        known = {key.lower(): dataset for dataset in self.datasets for key in (dataset.slug, dataset.name)}
        known |= {dataset.slug: dataset for dataset in self.datasets}  # as written goes before any case
        unknown = [slug for slug in slugs if slug not in known and slug.lower() not in known]
        if unknown:
            lines = (f"no dataset {slug!r} in suite {self.name}{did_you_mean(slug, known)}" for slug in unknown)
            raise UsageError("\n".join(lines))
        wanted = {known.get(slug) or known[slug.lower()] for slug in slugs}
        return tuple(dataset for dataset in self.datasets if dataset in wanted)


def require_data(suite: Suite, datasets: tuple[Dataset, ...]) -> None:
    """Raise MissingData unless every dataset's raw files are there, or can be fetched."""
    lacking = [dataset for dataset in datasets if dataset.repo is None and dataset.missing()]
    if lacking:
        lines = (f"  {dataset.raw}/ lacks {', '.join(dataset.missing())}" for dataset in lacking)
        raise MissingData("\n".join([f"files of suite {suite.name} are missing:", *lines]))


@cache
def _described() -> dict:
    return yaml.load(SUITES_FILE.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def builtin_names() -> tuple[str, ...]:
    """The suites that the package describes."""
    return tuple(_described()["suites"])


def slugs() -> tuple[str, ...]:
    """The names of the eight datasets."""
    return tuple(facts["slug"] for facts in _described()["datasets"])


def load_suite(name: str, workspace: Workspace) -> Suite:
    """The suite of that name, or the suite that the folder of that path holds.

    Raises UsageError for a name that is neither, and for a folder that holds no dataset.
    """
    if name not in builtin_names():
        return _folder(name)
    described = _described()["suites"][name]
    datasets = []
    for facts in _described()["datasets"]:
        if described.get("embedded"):  # the published figures are not its own
            kept = {key: facts[key] for key in ("slug", "name", "short", "task")}
            datasets.append(Dataset(raw=MINI / facts["slug"], **kept))
        else:
            raw = workspace.data(name) / facts["slug"]
            datasets.append(Dataset(raw=raw, **{**facts, "words": tuple(facts["words"])}))
    return Suite(name, described["title"], tuple(datasets), name, described.get("sample", False))


def _folder(name: str) -> Suite:
    folder = Path(name)
    if not name or not folder.is_dir():
        hint = did_you_mean(name, builtin_names())
        known = ", ".join(builtin_names())
        raise UsageError(f"no suite {name!r}; suites are {known}, or a folder of datasets in R2MED's layout{hint}")
    suite = folder.resolve().name if folder.name in ("", "..") else folder.name  # a link keeps its own name
    if suite in builtin_names():
        raise UsageError(f"{name}: a folder named {suite} would be taken for the suite of that name; rename it")
    inside = [folder] if _is_dataset(folder) else sorted(path for path in folder.iterdir() if _is_dataset(path))
    if not inside:
        raise UsageError(f"{name}: holds no dataset: neither {CORPUS_FILE} nor sub-folders with it")
    labels = {path: suite if path == folder else path.name for path in inside}
    for label in (suite, *labels.values()):
        if not _SLUG.fullmatch(label):
            raise UsageError(f"{name}: the folder name {label!r} must consist of letters, digits, - and _")
    datasets = tuple(Dataset(slug, slug, slug, path) for path, slug in labels.items())
    return Suite(suite, f"datasets of {folder}", datasets, name)


def _is_dataset(folder: Path) -> bool:
    return CORPUS_FILE in rawfiles.locate(folder)
