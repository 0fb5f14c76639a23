"""The only module that knows the whole way: conditions x datasets -> stages, in order of need."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from . import adoption, collection, composite_stages, encoded_stages, evaluation, lexical_stages, models, trec
from .artifacts import Artifact, Hashes, write_json
from .composites import RERANKED
from .conditions import Condition, closure
from .context import FORMATS, Context, Setting
from .encoders.base import Settings
from .errors import UsageError
from .models import DOCUMENT, QUERY, Model
from .paths import CORPUS_FILE, Collection, Workspace
from .rawfiles import locate
from .specs import LUCENE
from .stages import Progress, Result, Stage, execute, preview
from .suites import Dataset, Suite, load_suite, require_data


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
    """Stages in order of need, and the cells of the table that they fill."""

    context: Context
    stages: list[Stage]
    cells: list[Cell]

    @property
    def suite(self) -> Suite:
        """The suite whose datasets are planned."""
        return self.context.suite

    @property
    def setting(self) -> Setting:
        """Where and how the plan is carried out."""
        return self.context.setting

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
    encoding: Settings | None = None,
    encode: Iterable[Model] = (),
) -> Plan:
    """The plan for the datasets `slugs` (all, if there are none) of a suite, in the workspace of the environment.

    Raises UsageError for names that do not exist, and MissingData unless the raw files are there or can be fetched
    (`need_data=False` leaves that open). `encoding` says how models are run; those of `encode` encode every dataset,
    whether a condition needs that or not.
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
    setting = Setting(workspace, Hashes(workspace.hashes), threads, source, encoding or Settings(threads=threads))
    return make_plan(conditions, found, chosen, setting, encode)


def make_plan(
    conditions: Iterable[Condition],
    suite: Suite,
    datasets: Iterable[Dataset],
    setting: Setting,
    encode: Iterable[Model] = (),
) -> Plan:
    """Plan every condition on every dataset; stages that conditions share appear once.

    Datasets come largest first, so that the long ones do not stand alone at the end; but what models encode comes
    model by model, so that each is loaded once.
    """
    conditions, datasets, encode = list(conditions), list(datasets), list(encode)
    every = closure(conditions)
    context = Context(suite, setting)
    parts = [
        _plan_dataset(context, dataset, every, conditions, encode, alone=len(datasets) == 1)
        for dataset in sorted(datasets, key=_size, reverse=True)
    ]
    encoding = [(name, stage) for part in parts for name, stage in part.encoding]
    stages = [stage for part in parts for stage in part.data]
    stages += [stage for _, stage in sorted(encoding, key=lambda pair: pair[0])]
    stages += [stage for part in parts for stage in part.retrieval]
    cells = [cell for part in parts for cell in part.cells]
    cells.sort(key=lambda cell: (conditions.index(cell.condition), suite.datasets.index(cell.dataset)))
    return Plan(context, stages, cells)


def _size(dataset: Dataset) -> int:
    corpus = locate(dataset.raw).get(CORPUS_FILE)
    words = dataset.words or (0, 0)
    return corpus.stat().st_size if corpus else round((dataset.documents or 0) * words[1])


@dataclass
class _Part:
    """The stages of one dataset: until the collection is there, what models encode (with their names), the rest."""

    data: list[Stage]
    encoding: list[tuple[str, Stage]] = field(default_factory=list)
    retrieval: list[Stage] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)


def _plan_dataset(
    context: Context,
    dataset: Dataset,
    every: dict[str, Condition],
    wanted: list[Condition],
    encode: list[Model],
    alone: bool,
) -> _Part:
    """The stages of one dataset: runs of `every` condition, scores of those that are `wanted`."""
    fetched = [_fetch(context, dataset, alone)] if dataset.repo else []
    converted = _convert(context, dataset, tuple(fetched))
    part = _Part([*fetched, converted])
    indexed = [condition for condition in every.values() if condition.index]
    lexical = lexical_stages.together([condition.index for condition in indexed if condition.index.kind == LUCENE])
    indexes = {name: lexical_stages.index(context, dataset, spec, converted) for name, spec in lexical.items()}
    part.retrieval += indexes.values()
    vectors: dict[tuple[str, str], Stage] = {}
    named = [models.load(condition.encoder) for condition in indexed if condition.encoder]
    for model in dict.fromkeys([*named, *encode]):
        for side in (DOCUMENT, QUERY):
            stage = encoded_stages.encode(context, dataset, model, side, converted)
            vectors[model.name, side] = replace(stage, on_demand=model not in encode)
            part.encoding.append((model.name, vectors[model.name, side]))
    runs: dict[str, Stage] = {}
    for name, condition in every.items():
        spec = condition.index
        if condition.fusion:
            inputs = {one.name: runs[one.name] for one in _inputs(condition, every)}
            runs[name] = composite_stages.fuse(context, dataset, condition, inputs)
        elif condition.rerank:
            (given,) = _inputs(condition, every)
            runs[name] = composite_stages.reranked(context, dataset, condition, converted, runs[given.name])
        elif spec.kind == LUCENE:
            index = indexes[lexical_stages.index_name(spec)]
            runs[name] = lexical_stages.run(context, dataset, condition, converted, index)
        else:
            place = f"{encoded_stages.index_name(spec)} {spec.encoder}"
            if place not in indexes:
                of_documents = vectors[spec.encoder, DOCUMENT]
                indexes[place] = encoded_stages.index(context, dataset, spec, converted, of_documents)
                part.retrieval.append(indexes[place])
            of_queries = vectors[spec.encoder, QUERY]
            runs[name] = encoded_stages.run(context, dataset, condition, converted, indexes[place], of_queries)
        part.retrieval.append(runs[name])
        if condition in wanted:
            scores = _scores(context, dataset, condition, hits(condition, every), converted, runs[name])
            part.retrieval.append(scores)
            part.cells.append(Cell(condition, dataset, scores, runs[name].artifact.path))
    return part


def _inputs(condition: Condition, every: dict[str, Condition]) -> list[Condition]:
    """The conditions that a condition is made from; those given by file have the file's name."""
    return [every[name if name in every else Path(name).stem] for name in condition.inputs]


def hits(condition: Condition, every: dict[str, Condition]) -> int:
    """How many documents a query a condition's run may have. `every` has its inputs."""
    if condition.search or condition.fusion:
        return (condition.search or condition.fusion).hits
    of_input = hits(_inputs(condition, every)[0], every)
    return min(condition.rerank.depth, of_input) if condition.rerank.keep == RERANKED else of_input


def _fetch(context: Context, dataset: Dataset, alone: bool) -> Stage:
    artifact = Artifact(dataset.raw, folder=True, members=lambda folder: list(locate(folder).values()))
    source = context.setting.source

    def recipe() -> dict:
        return {"fetch": FORMATS["fetch"], "repo": dataset.repo, "revision": dataset.revision}

    def build(folder: Path) -> None:
        if source is not None:
            adoption.adopt(dataset, adoption.find_source(dataset, source, alone), folder)
        elif artifact.made_by() is None and locate(dataset.raw):
            adoption.adopt(dataset, dataset.raw, folder)
        else:
            context.hub.fetch(dataset, folder)
        adoption.keep_guests(dataset.raw, artifact.files(), folder)

    return Stage("fetch", context.subject(dataset), artifact, recipe, build)


def _convert(context: Context, dataset: Dataset, fetched: tuple[Stage, ...]) -> Stage:
    files = context.workspace.collection(context.suite.name, dataset.slug)

    def recipe() -> dict:
        raw = {name: context.hash(path) for name, path in locate(dataset.raw).items()}
        return {"collection": FORMATS["collection"], "raw": raw}

    def build(path: Path) -> None:
        collection.convert(dataset.raw, Collection(path))

    return Stage("convert", context.subject(dataset), Artifact(files.root, folder=True), recipe, build, fetched)


def _scores(
    context: Context, dataset: Dataset, condition: Condition, depth: int, converted: Stage, run: Stage
) -> Stage:
    files = Collection(converted.artifact.path)
    measures = evaluation.kept(depth)
    path = context.workspace.scores(context.suite.name, dataset.slug, condition.name)

    def recipe() -> dict:
        inputs = {"run": context.hash(run.artifact.path), "qrels": context.hash(files.qrels)}
        made = {"scores": FORMATS["scores"], "pytrec_eval": version("pytrec-eval-terrier")}
        return made | {"measures": list(measures)} | inputs

    build = partial(_evaluate, run.artifact.path, files.qrels, measures)
    artifact = Artifact(path, folder=False)
    return Stage("evaluate", context.subject(dataset, condition.name), artifact, recipe, build, (converted, run))


def _evaluate(run: Path, qrels: Path, measures: tuple[str, ...], file: Path) -> None:
    write_json(file, asdict(evaluation.evaluate(trec.read_qrels(qrels), trec.read_run(run), measures, foreign=False)))
