"""The commands about datasets: fetching and converting them, describing them, checking runs against them."""

import json
from collections.abc import Iterator
from pathlib import Path

import orjson

from . import validation
from .collection import read_health, warnings
from .errors import R2medError, place
from .outcome import Observer, Outcome, messages
from .paths import Collection
from .plan import Plan, prepare
from .report.grid import grid
from .stages import Progress, Result, Stage
from .suites import Dataset
from .trec import read_qrels, read_topics

WIDE = "{:,.1f}"


def findings(plan: Plan, result: Result) -> list[str]:
    """What is odd in the collections of a plan, from their health reports."""
    return [
        f"Note: {stage.subject}: {text}"
        for stage in plan.only("convert")
        if stage in result.done
        for text in warnings(read_health(Collection(stage.artifact.path)))
    ]


def fetch(
    suite: str, datasets: tuple[str, ...], threads: int, observe: Observer, source: Path | None = None
) -> Outcome:
    """Fetch and convert the datasets, and say what is odd in them.

    `source` is a folder that holds files which the user downloaded by other means. Raises UsageError.
    """
    built: set[Stage] = set()

    def watch(progress: Progress) -> None:
        if progress.stage and progress.built:
            built.add(progress.stage)
        observe(progress)

    plan = prepare(suite, datasets, threads, source=source)
    result = plan.execute(watch)
    kept = [stage for stage in plan.only("fetch") if source and stage in result.done - built]
    notes = [f"Note: {stage.subject} was here already; nothing was taken from {source}" for stage in kept]
    made = [str(stage.artifact.path) for stage in plan.stages if stage in result.done]
    return Outcome("\n".join([*notes, *findings(plan, result), *made]), errors=messages(result))


def converted(suite: str, dataset: str) -> Collection:
    """The collection of a dataset, which is made if it is not there yet. Raises R2medError."""
    plan = prepare(suite, (dataset,))
    result = plan.execute(lambda _: None)
    if result.failed:
        raise R2medError("\n".join(messages(result)))
    return Collection(plan.only("convert")[0].artifact.path)


def validate(run: Path, suite: str, dataset: str, hits: int, form: str) -> Outcome:
    """Every fault of a run of a dataset, as text or JSON."""
    files = converted(suite, dataset)
    with files.docs.open("rb") as file:
        documents = {orjson.loads(line)["id"] for line in file}
    found = validation.faults(run, read_topics(files.topics), documents, hits)
    if form == "json":
        text = json.dumps({"run": str(run), "faults": [vars(fault) for fault in found]}, indent=1, ensure_ascii=False)
    else:
        lines = [f"{place(run, fault.line)}: {fault.text} [{fault.kind}]" for fault in found]
        text = "\n".join([*lines, f"{len(found):,} faults" if found else f"{run}: no fault"])
    return Outcome(text, not found)


def stats(suite: str, datasets: tuple[str, ...], threads: int, observe: Observer) -> Outcome:
    """The paper's table of the datasets, published beside measured: counts, mean positives, mean words."""
    plan = prepare(suite, datasets, threads)
    result = plan.execute(observe)
    there = {stage.artifact.path for stage in plan.only("convert") if stage in result.done}
    rows = []
    for dataset in plan.suite.select(datasets):
        files = plan.setting.workspace.collection(plan.suite.name, dataset.slug)
        if files.root in there:
            rows += _described(dataset, files)
    header = ("dataset", "", "queries", "documents", "positives/query", "words/query", "words/document")
    return Outcome(grid(header, rows, left=(0, 1)) if rows else "", errors=messages(result))


def _described(dataset: Dataset, files: Collection) -> Iterator[list[str]]:
    if dataset.words:
        counts = f"{dataset.queries:,}", f"{dataset.documents:,}", f"{dataset.qrels / dataset.queries:.1f}"
        yield [dataset.name, "published", *counts, *map(WIDE.format, dataset.words)]
    qrels, topics = read_qrels(files.qrels), read_topics(files.topics)
    positives = sum(grade > 0 for judged in qrels.values() for grade in judged.values())
    with files.docs.open("rb") as file:
        lengths = [len(orjson.loads(line)["contents"].split()) for line in file]
    words = sum(len(text.split()) for text in topics.values()) / len(topics), sum(lengths) / len(lengths)
    counts = f"{len(topics):,}", f"{len(lengths):,}", f"{positives / len(qrels):.1f}"
    yield ["" if dataset.words else dataset.name, "measured", *counts, *map(WIDE.format, words)]
