"""The only module that knows the whole way: conditions x datasets -> stages, in order of need."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from . import adoption, collection, evaluation, hub, lucene, trec
from .artifacts import Artifact, Hashes, write_json
from .conditions import BM25_OFFICIAL, Condition, IndexSpec
from .errors import UsageError
from .javatasks import JavaPool
from .jvm import anserini_version
from .paths import CORPUS_FILE, Collection, Workspace
from .rawfiles import locate
from .stages import Progress, Result, Stage, execute, preview
from .suites import Dataset, Suite, load_suite, require_data

# Raised when a stage's code changes what it writes for the same inputs, so that older outputs are made anew.
FORMATS = {"fetch": 1, "collection": 1, "index": 1, "search": 2, "scores": 1}


@dataclass(frozen=True, eq=False)
class Cell:
    """One condition on one dataset: the stage that ends in its scores, and the files that people look at."""

    condition: Condition
    dataset: Dataset
    scores: Stage
    run_path: Path

    def read(self) -> evaluation.Scores:
        """The scores that the stage wrote."""
        return evaluation.Scores(**json.loads(self.scores.artifact.path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Setting:
    """Where and how a plan is carried out. `source` is a folder to take raw files from, instead of the Hub."""

    workspace: Workspace
    hashes: Hashes
    threads: int
    source: Path | None = None


@dataclass(frozen=True)
class Plan:
    """Stages in order of need, dataset by dataset, and the cells of the table that they fill."""

    suite: Suite
    setting: Setting
    stages: list[Stage]
    cells: list[Cell]

    def only(self, verb: str) -> list[Stage]:
        """The stages of one verb."""
        return [stage for stage in self.stages if stage.verb == verb]

    def execute(self, observe: Callable[[Progress], None]) -> Result:
        """Bring everything up to date."""
        return execute(self.stages, self.setting.threads, self.setting.hashes, observe)

    def preview(self) -> dict[Stage, str]:
        """What `execute` would do."""
        state = preview(self.stages, self.setting.hashes)
        self.setting.hashes.save()
        return state


def index_serves(have: dict, want: dict) -> bool:
    """An index that holds document vectors serves a condition that needs none."""
    return have == want or have == {**want, "docvectors": True}


def digest(dataset: Dataset, hashes: Hashes) -> str | None:
    """A short digest of a dataset's raw files; None if they are not all here."""
    if dataset.missing():
        return None
    together = "".join(hashes.of(path) for path in locate(dataset.raw).values())
    return hashlib.sha256(together.encode()).hexdigest()[:12]


def prepare(
    suite: str,
    slugs: tuple[str, ...] = (),
    threads: int = 1,
    conditions: Iterable[Condition] = (),
    source: Path | None = None,
    need_data: bool = True,
) -> Plan:
    """The plan for the datasets `slugs` (all, if there are none) of a suite, in the workspace of the environment.

    Raises UsageError for names that do not exist, and MissingData unless the raw files are there or can be fetched
    (`need_data=False` leaves that open).
    """
    workspace = Workspace.default()
    found = load_suite(suite, workspace)
    chosen = found.select(slugs)
    if source is not None and any(dataset.repo is None for dataset in chosen):
        raise UsageError(f"the files of suite {found.name} are here already; --from is for suite r2med")
    if source is not None and not source.is_dir():
        raise UsageError(f"--from {source}: no such folder")
    for dataset in chosen:
        for outputs in (workspace.collections, workspace.indexes, workspace.runs):
            if dataset.raw.resolve().is_relative_to(outputs.resolve()):
                raise UsageError(f"{dataset.raw} lies in {outputs}, where outputs go: move it elsewhere")
    if need_data:
        require_data(found, chosen)
    return make_plan(conditions, found, chosen, Setting(workspace, Hashes(workspace.hashes), threads, source))


def make_plan(conditions: Iterable[Condition], suite: Suite, datasets: Iterable[Dataset], setting: Setting) -> Plan:
    """Plan every condition on every dataset; stages that conditions share appear once.

    Datasets come largest first, so that the long ones do not stand alone at the end.
    """
    conditions, datasets = list(conditions), list(datasets)
    builder = _Builder(suite, setting, alone=len(datasets) == 1)
    stages: list[Stage] = []
    cells: list[Cell] = []
    for dataset in sorted(datasets, key=_size, reverse=True):
        more_stages, more_cells = builder.dataset(dataset, conditions)
        stages += more_stages
        cells += more_cells
    cells.sort(key=lambda cell: (conditions.index(cell.condition), suite.datasets.index(cell.dataset)))
    return Plan(suite, setting, stages, cells)


def _size(dataset: Dataset) -> int:
    corpus = locate(dataset.raw).get(CORPUS_FILE)
    words = dataset.words or (0, 0)
    return corpus.stat().st_size if corpus else round((dataset.documents or 0) * words[1])


class _Builder:
    """Makes the stages of one plan; they share one pool of Java threads."""

    def __init__(self, suite: Suite, setting: Setting, alone: bool):
        self._suite, self._workspace, self._hashes = suite, setting.workspace, setting.hashes
        self._source, self._alone = setting.source, alone
        self._pool, self._hub = JavaPool(setting.threads), hub.Hub()

    def dataset(self, dataset: Dataset, conditions: list[Condition]) -> tuple[list[Stage], list[Cell]]:
        """The stages and cells of one dataset."""
        fetched = [self._fetch(dataset)] if dataset.repo else []
        converted = self._collection(dataset, tuple(fetched))
        specs: dict[str, IndexSpec] = {}
        for condition in conditions:  # conditions that share an index get one that serves all of them
            name = _index_name(condition.index)
            vectors = condition.index.docvectors or specs.get(name, condition.index).docvectors
            specs[name] = replace(condition.index, docvectors=vectors)
        indexes = {name: self._index(dataset, spec, converted) for name, spec in sorted(specs.items())}
        stages, cells = [*fetched, converted, *indexes.values()], []
        for condition in conditions:
            run = self._run(dataset, condition, converted, indexes[_index_name(condition.index)])
            scores = self._scores(dataset, condition, converted, run)
            stages += [run, scores]
            cells.append(Cell(condition, dataset, scores, run.artifact.path))
        return stages, cells

    def _subject(self, dataset: Dataset, detail: str = "") -> str:
        return f"{self._suite.name}/{dataset.slug}" + (f" {detail}" if detail else "")

    def _fetch(self, dataset: Dataset) -> Stage:
        artifact = Artifact(dataset.raw, folder=True, members=lambda folder: list(locate(folder).values()))

        def recipe() -> dict:
            return {"fetch": FORMATS["fetch"], "repo": dataset.repo, "revision": dataset.revision}

        def build(folder: Path) -> None:
            if self._source is not None:
                adoption.adopt(dataset, adoption.find_source(dataset, self._source, self._alone), folder)
            elif artifact.made_by() is None and locate(dataset.raw):
                adoption.adopt(dataset, dataset.raw, folder)
            else:
                self._hub.fetch(dataset, folder)
            adoption.keep_guests(dataset.raw, artifact.files(), folder)

        return Stage("fetch", self._subject(dataset), artifact, recipe, build)

    def _collection(self, dataset: Dataset, fetched: tuple[Stage, ...]) -> Stage:
        files = self._workspace.collection(self._suite.name, dataset.slug)

        def recipe() -> dict:
            raw = {name: self._hashes.of(path) for name, path in locate(dataset.raw).items()}
            return {"collection": FORMATS["collection"], "raw": raw}

        def build(path: Path) -> None:
            collection.convert(dataset.raw, Collection(path))

        return Stage("convert", self._subject(dataset), Artifact(files.root, folder=True), recipe, build, fetched)

    def _index(self, dataset: Dataset, spec: IndexSpec, converted: Stage) -> Stage:
        files = Collection(converted.artifact.path)
        name = _index_name(spec)
        path = self._workspace.index(name, self._suite.name, dataset.slug)

        def recipe() -> dict:
            made = {"index": FORMATS["index"], "anserini": anserini_version(), "docs": self._hashes.of(files.docs)}
            return made | asdict(spec)

        def build(folder: Path) -> None:
            expected = collection.indexable(collection.read_health(files))
            lucene.build(files.corpus, folder, spec, expected, self._pool)

        artifact = Artifact(path, folder=True)
        subject = self._subject(dataset, name)
        return Stage("index", subject, artifact, recipe, build, (converted,), on_demand=True, serves=index_serves)

    def _run(self, dataset: Dataset, condition: Condition, converted: Stage, index: Stage) -> Stage:
        files = Collection(converted.artifact.path)
        path = self._workspace.run(self._suite.name, dataset.slug, condition.name)

        def recipe() -> dict:
            inputs = {"docs": self._hashes.of(files.docs), "topics": self._hashes.of(files.topics)}
            how = {"exact_lengths": condition.index.exact_lengths, "search": condition.search.parameters()}
            return {"search format": FORMATS["search"], "anserini": anserini_version()} | inputs | how

        def build(file: Path) -> None:
            topics, documents = trec.read_topics(files.topics), collection.read_health(files)["documents"]
            found = lucene.search(index.artifact.path, condition.search, documents, topics, self._pool)
            exact = condition.search.model == BM25_OFFICIAL
            trec.write_run(file, found, score_format=trec.EXACT_SCORE if exact else trec.PYSERINI_SCORE)

        artifact = Artifact(path, folder=False)
        return Stage("search", self._subject(dataset, condition.name), artifact, recipe, build, (converted,), (index,))

    def _scores(self, dataset: Dataset, condition: Condition, converted: Stage, run: Stage) -> Stage:
        files = Collection(converted.artifact.path)
        measures = evaluation.kept(condition.search.hits)
        path = self._workspace.scores(self._suite.name, dataset.slug, condition.name)

        def recipe() -> dict:
            inputs = {"run": self._hashes.of(run.artifact.path), "qrels": self._hashes.of(files.qrels)}
            made = {"scores": FORMATS["scores"], "pytrec_eval": version("pytrec-eval-terrier")}
            return made | {"measures": list(measures)} | inputs

        build = partial(_evaluate, run.artifact.path, files.qrels, measures)
        artifact = Artifact(path, folder=False)
        return Stage("evaluate", self._subject(dataset, condition.name), artifact, recipe, build, (converted, run))


def _evaluate(run: Path, qrels: Path, measures: tuple[str, ...], file: Path) -> None:
    write_json(file, asdict(evaluation.evaluate(trec.read_qrels(qrels), trec.read_run(run), measures, foreign=False)))


def _index_name(spec: IndexSpec) -> str:
    return f"{spec.kind}-exact" if spec.exact_lengths else spec.kind
