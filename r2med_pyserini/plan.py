"""The only module that knows the whole way: conditions x datasets -> stages, in order of need."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

from . import adoption, collection, evaluation, hub, lucene, trec
from .artifacts import Artifact, Hashes, write_json
from .conditions import BM25_OFFICIAL, Condition, IndexSpec
from .javatasks import JavaPool
from .jvm import anserini_version
from .paths import CORPUS_FILE, Collection, Workspace
from .rawfiles import locate
from .stages import Stage
from .suites import Dataset, Suite

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
class Plan:
    """Stages in order of need, dataset by dataset, and the cells of the table that they fill."""

    suite: Suite
    stages: list[Stage]
    cells: list[Cell]

    def only(self, verb: str) -> list[Stage]:
        """The stages of one verb."""
        return [stage for stage in self.stages if stage.verb == verb]


def index_serves(have: dict, want: dict) -> bool:
    """An index that holds document vectors serves a condition that needs none."""
    return have == want or have == {**want, "docvectors": True}


@dataclass(frozen=True)
class Setting:
    """Where and how a plan is carried out. `source` is a folder to take raw files from, instead of the Hub."""

    workspace: Workspace
    hashes: Hashes
    threads: int
    source: Path | None = None


def make_plan(conditions: Iterable[Condition], suite: Suite, datasets: Iterable[Dataset], setting: Setting) -> Plan:
    """Plan every condition on every dataset; stages that conditions share appear once.

    Datasets come largest first, so that the long ones do not stand alone at the end.
    """
    conditions, datasets, stages, cells = list(conditions), list(datasets), [], {}
    builder = _Builder(suite, setting, alone=len(datasets) == 1)
    for dataset in sorted(datasets, key=_size, reverse=True):
        stages += builder.dataset(dataset, conditions, cells)
    wanted = ((condition.name, dataset.slug) for condition in conditions for dataset in suite.datasets)
    return Plan(suite, stages, [cells[key] for key in wanted if key in cells])


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

    def dataset(self, dataset: Dataset, conditions: list[Condition], cells: dict) -> list[Stage]:
        """The stages of one dataset; puts its cells into `cells`."""
        fetched = self._fetch(dataset) if dataset.repo else None
        converted = self._collection(dataset, fetched)
        specs: dict[str, IndexSpec] = {}
        for condition in conditions:  # conditions that share an index get one that serves all of them
            name = _index_name(condition.index)
            vectors = condition.index.docvectors or specs.get(name, condition.index).docvectors
            specs[name] = replace(condition.index, docvectors=vectors)
        indexes = {name: self._index(dataset, spec, converted) for name, spec in sorted(specs.items())}
        runs = []
        for condition in conditions:
            run = self._run(dataset, condition, converted, indexes[_index_name(condition.index)])
            scores = self._scores(dataset, condition, converted, run)
            runs += [run, scores]
            cells[condition.name, dataset.slug] = Cell(condition, dataset, scores, run.artifact.path)
        return [*([fetched] if fetched else []), converted, *indexes.values(), *runs]

    def _subject(self, dataset: Dataset, detail: str = "") -> str:
        return f"{self._suite.name}/{dataset.slug}" + (f" {detail}" if detail else "")

    def _fetch(self, dataset: Dataset) -> Stage:
        artifact = Artifact(dataset.raw, folder=True, members=lambda folder: list(locate(folder).values()))

        def recipe() -> dict:
            return {"fetch": FORMATS["fetch"], "repo": dataset.repo, "revision": dataset.revision}

        def build(folder: Path) -> None:
            if self._source is not None:
                adoption.adopt(dataset, adoption.find_source(dataset, self._source, self._alone), folder)
            elif artifact.recipe() is None and locate(dataset.raw):
                adoption.adopt(dataset, dataset.raw, folder)
            else:
                self._hub.fetch(dataset, folder)
            adoption.keep_guests(dataset.raw, artifact.files(), folder)

        return Stage("fetch", self._subject(dataset), artifact, recipe, build)

    def _collection(self, dataset: Dataset, fetched: Stage | None) -> Stage:
        files = self._workspace.collection(self._suite.name, dataset.slug)

        def recipe() -> dict:
            raw = {name: self._hashes.of(path) for name, path in locate(dataset.raw).items()}
            return {"collection": FORMATS["collection"], "raw": raw}

        def build(path: Path) -> None:
            collection.convert(dataset.raw, Collection(path))

        artifact, needs = Artifact(files.root, folder=True), (fetched,) if fetched else ()
        return Stage("convert", self._subject(dataset), artifact, recipe, build, needs)

    def _index(self, dataset: Dataset, spec: IndexSpec, converted: Stage) -> Stage:
        files = Collection(converted.artifact.path)
        name = _index_name(spec)
        path = self._workspace.index(name, self._suite.name, dataset.slug)

        def recipe() -> dict:
            made = {"index": FORMATS["index"], "anserini": anserini_version(), "docs": self._hashes.of(files.docs)}
            return made | asdict(spec)

        def build(folder: Path) -> None:
            health = read_health(files)
            expected = health["documents"] - len(health.get("empty documents", []))
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
            topics, documents = trec.read_topics(files.topics), read_health(files)["documents"]
            found = lucene.search(index.artifact.path, condition.search, documents, topics, self._pool)
            exact = condition.search.model == BM25_OFFICIAL
            trec.write_run(file, found, score_format=trec.EXACT_SCORE if exact else trec.PYSERINI_SCORE)

        artifact = Artifact(path, folder=False)
        return Stage("search", self._subject(dataset, condition.name), artifact, recipe, build, (converted,), (index,))

    def _scores(self, dataset: Dataset, condition: Condition, converted: Stage, run: Stage) -> Stage:
        files = Collection(converted.artifact.path)
        path = self._workspace.scores(self._suite.name, dataset.slug, condition.name)

        def recipe() -> dict:
            inputs = {"run": self._hashes.of(run.artifact.path), "qrels": self._hashes.of(files.qrels)}
            return {"scores": FORMATS["scores"], "measures": list(evaluation.MEASURES)} | inputs

        build = partial(_evaluate, run.artifact.path, files.qrels)
        artifact = Artifact(path, folder=False)
        return Stage("evaluate", self._subject(dataset, condition.name), artifact, recipe, build, (converted, run))


def _evaluate(run: Path, qrels: Path, file: Path) -> None:
    write_json(file, asdict(evaluation.evaluate(trec.read_qrels(qrels), trec.read_run(run))))


def _index_name(spec: IndexSpec) -> str:
    return f"{spec.kind}-exact" if spec.exact_lengths else spec.kind


@cache
def _parse_health(path: Path, changed: int) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def read_health(files: Collection) -> dict:
    """The health report of a converted collection."""
    return _parse_health(files.health, files.health.stat().st_mtime_ns)
