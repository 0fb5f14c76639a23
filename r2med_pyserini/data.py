"""The commands about data: fetching it, converting it, and describing it."""

import json
from collections.abc import Iterator
from pathlib import Path

import orjson

from . import validation
from .artifacts import Hashes
from .collection import warnings
from .errors import R2medError, UsageError, place
from .outcome import Observer, Outcome, messages
from .paths import Collection, Workspace
from .plan import Plan, Setting, make_plan, read_health
from .stages import Progress, Stage, execute
from .suites import Dataset, Suite, load_suite, require_data
from .trec import read_qrels, read_topics

WIDE = "{:,.1f}"


def prepare(
    suite: str, datasets: tuple[str, ...], threads: int, observe: Observer, source: Path | None = None
) -> tuple[Plan, dict[Stage, R2medError]]:
    """Bring raw files and collections of a suite up to date; the plan, and what failed.

    `source` is a folder that holds files which the user downloaded by other means. Raises UsageError if the suite is
    none that is fetched.
    """
    workspace = Workspace.default()
    found = load_suite(suite, workspace)
    chosen = found.select(datasets)
    if source is not None and any(dataset.repo is None for dataset in chosen):
        raise UsageError(f"the files of suite {found.name} are here already; --from is for suite r2med")
    if source is not None and not source.is_dir():
        raise UsageError(f"--from {source}: no such folder")
    require_data(found, chosen)
    setting = Setting(workspace, Hashes(workspace.hashes), threads, source)
    plan = make_plan((), found, chosen, setting)
    return plan, execute(plan.stages, threads, setting.hashes, observe)


def findings(plan: Plan, failed: dict[Stage, R2medError]) -> list[str]:
    """What is odd in the collections of a plan, from their health reports."""
    lines = []
    for stage in plan.only("convert"):
        if stage not in failed and not any(need in failed for need in stage.needs):
            found = warnings(read_health(Collection(stage.artifact.path)))
            lines += [f"Note: {stage.subject}: {text}" for text in found]
    return lines


def convert(
    suite: str, datasets: tuple[str, ...], threads: int, observe: Observer, source: Path | None = None
) -> Outcome:
    """Fetch and convert the datasets, and say what is odd in them."""
    taken: set[Stage] = set()

    def watch(progress: Progress) -> None:
        if progress.stage and progress.built:
            taken.add(progress.stage)
        observe(progress)

    plan, failed = prepare(suite, datasets, threads, watch, source)
    kept = [stage for stage in plan.only("fetch") if source and stage not in taken and stage not in failed]
    notes = [f"Note: {stage.subject} was here already; nothing was taken from {source}" for stage in kept]
    lost = {stage for stage in plan.stages if stage in failed or any(need in failed for need in stage.needs)}
    made = [f"{stage.artifact.path}" for stage in plan.stages if stage not in lost]
    return Outcome("\n".join([*notes, *findings(plan, failed), *made]), not failed, messages(failed))


def qrels_of(suite: str, dataset: str) -> Path:
    """The qrels file of a dataset; its collection is made if it is not there yet. Raises R2medError."""
    plan, failed = prepare(suite, (dataset,), 1, lambda _: None)
    if failed:
        raise R2medError("\n".join(messages(failed)))
    return Collection(plan.only("convert")[0].artifact.path).qrels


def validate(run: Path, suite: str, dataset: str, hits: int, as_json: bool) -> Outcome:
    """Every fault of a run of a dataset, as text or JSON."""
    plan, failed = prepare(suite, (dataset,), 1, lambda _: None)
    if failed:
        raise R2medError("\n".join(messages(failed)))
    files = Collection(plan.only("convert")[0].artifact.path)
    with files.docs.open("rb") as file:
        documents = {orjson.loads(line)["id"] for line in file}
    found = validation.faults(run, read_topics(files.topics), documents, hits)
    if as_json:
        text = json.dumps({"run": str(run), "faults": [vars(fault) for fault in found]}, indent=1, ensure_ascii=False)
    else:
        lines = [f"{place(run, fault.line)}: {fault.text} [{fault.kind}]" for fault in found]
        text = "\n".join([*lines, f"{len(found):,} faults" if found else f"{run}: no fault"])
    return Outcome(text, not found)


def stats(suite: str, datasets: tuple[str, ...], threads: int, observe: Observer) -> Outcome:
    """The paper's table of the datasets, published beside measured: counts, mean positives, mean words."""
    from tabulate import tabulate

    plan, failed = prepare(suite, datasets, threads, observe)
    rows = []
    for dataset in plan.suite.select(datasets):
        files = Workspace.default().collection(plan.suite.name, dataset.slug)
        if files.docs.exists():
            rows += _described(dataset, plan.suite, files)
    header = ("dataset", "", "queries", "documents", "positives/query", "words/query", "words/document")
    text = tabulate(rows, header, tablefmt="simple", disable_numparse=True, colalign=("left", "left", *["right"] * 5))
    return Outcome(text, not failed, messages(failed))


def _described(dataset: Dataset, suite: Suite, files: Collection) -> Iterator[list[str]]:
    if dataset.words and dataset.queries and dataset.documents and dataset.qrels:
        counts = f"{dataset.queries:,}", f"{dataset.documents:,}", f"{dataset.qrels / dataset.queries:.1f}"
        yield [dataset.name, "published", *counts, *map(WIDE.format, dataset.words)]
    qrels, topics = read_qrels(files.qrels), read_topics(files.topics)
    positives = sum(grade > 0 for judged in qrels.values() for grade in judged.values())
    with files.docs.open("rb") as file:
        lengths = [len(orjson.loads(line)["contents"].split()) for line in file]
    words = sum(len(text.split()) for text in topics.values()) / len(topics), sum(lengths) / len(lengths)
    counts = f"{len(topics):,}", f"{len(lengths):,}", f"{positives / len(qrels):.1f}"
    yield ["" if dataset.words else dataset.name, "measured", *counts, *map(WIDE.format, words)]
