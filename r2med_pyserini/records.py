"""Records of reproductions, as JSON: what was run, on what, with what, what came out; and holding one against runs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from . import conditions, evaluation, models, rerankers, results, trec
from .artifacts import Hashes, sha256
from .conditions import Condition
from .errors import BadInput, R2medError, UsageError, shown
from .evaluation import Scores
from .models import API, SIDES
from .outcome import Outcome
from .paths import Workspace
from .plan import digest
from .report import table
from .suites import Dataset, Suite, builtin_names, load_suite
from .verdicts import worst

FORMAT = 1
_NEARLY = 1e-9  # a score that differs by less is the same
_PARTS = {
    "format": int, "handle": str, "date": str, "commit": str, "suite": str,
    "versions": dict, "machine": dict, "models": dict, "data": dict, "conditions": dict,
}  # fmt: skip
_OF_CELL = {"verdict": str, "run": str, "judged": int, "evaluated": int, "scores": dict}


@dataclass(frozen=True)
class Verified:
    """A condition's scores, computed from its runs: an entry of the table, and the run's SHA-256, for each dataset."""

    condition: Condition
    entries: list[table.Entry] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The worst of all."""
        return worst(entry.verdict for entry in self.entries)


def make(suite: Suite, workspace: Workspace, hashes: Hashes, verified: Iterable[Verified]) -> dict:
    """What a record says of conditions, besides who vouches for it: see `_PARTS`.

    `data` has the digest of each dataset's raw files, as conditions' files have it, and the SHA-256 of its judgements;
    scores have all their digits.
    """
    verified = list(verified)
    known = [one.condition for one in verified]
    every = {dataset.slug: dataset for dataset in suite.datasets}
    return {
        "suite": suite.name,
        "versions": results.versions(known),
        "machine": results.machine(),
        "models": dict(models_of(conditions.closure(known).values())),
        "data": {
            slug: {
                "raw": digest(dataset, hashes),
                "qrels": sha256(workspace.collection(suite.name, slug).qrels),
            }
            for slug, dataset in every.items()
        },
        "conditions": {one.condition.name: _condition(one) for one in verified},
    }


def _condition(one: Verified) -> dict:
    return {
        "verdict": one.verdict,
        "datasets": {
            entry.dataset.slug: {
                "verdict": entry.verdict,
                "run": run,
                "judged": entry.scores.judged,
                "evaluated": entry.scores.evaluated,
                "scores": entry.scores.mean,
            }
            for entry, run in zip(one.entries, one.runs, strict=True)
        },
    }


def models_of(every: Iterable[Condition]) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Models and rerankers by name: repositories with revisions, packages with versions, services' models.

    Raises R2medError for a served reranker if the environment does not say which model is served.
    """
    for condition in every:
        if condition.encoder:
            model = models.load(condition.encoder)
            yield model.name, _sources(model)
        if condition.rerank:
            reranker = rerankers.load(condition.rerank.reranker)
            served = {reranker.served_model(): None} if reranker.api else {}
            yield reranker.name, served | dict(reranker.repositories())


def _sources(model: models.Model) -> dict[str, str | None]:
    if model.loader == API:
        return {model.id: None}
    found = {}
    for files in map(model.files, SIDES):
        if "package" in files:
            found[files["package"]] = _version(files["package"])
        else:
            found[files["id"]] = files["revision"]
    return found | (_sources(models.load(model.tokenizer)) if model.tokenizer else {})


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def scored(run: Path, qrels: Path, measures: tuple[str, ...]) -> Scores:
    """The scores of a run, computed anew from the file."""
    return evaluation.evaluate(trec.read_qrels(qrels), trec.read_run(run), measures, foreign=False)


def same(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether scores are the same, but for the last bits."""
    return one.keys() == other.keys() and all(abs(one[measure] - other[measure]) <= _NEARLY for measure in one)


def read(path: Path) -> dict:
    """A record. Raises BadInput for a file that is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    faults = list(_faults(value))
    if faults:
        raise BadInput([f"{path}: no record of a reproduction: {fault}" for fault in faults])
    return value


def _faults(value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield "a JSON object is wanted"
        return
    yield from _mistyped(value, _PARTS, "")
    if value.get("format", FORMAT) != FORMAT:
        yield f"its format is {shown(value['format'])}, and this version of r2med knows {FORMAT}"
    known = value.get("conditions")
    for name, condition in known.items() if isinstance(known, dict) else ():
        cells = condition.get("datasets") if isinstance(condition, dict) else None
        if not isinstance(cells, dict) or not cells:
            yield f"{shown(name)} has no `datasets`"
            continue
        for slug, cell in cells.items():
            where = f"{shown(name)} on {shown(slug)}: "
            yield from _mistyped(cell, _OF_CELL, where)
            scores = cell.get("scores") if isinstance(cell, dict) else None
            if isinstance(scores, dict):
                odd = {key: value for key, value in scores.items() if not _is_score(key, value)}
                yield from (f"{where}{shown(measure)} is {shown(score)}" for measure, score in odd.items())
                if not scores:
                    yield f"{where}it has no scores"


def _is_score(measure: str, value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return measure in evaluation.MEASURES and number and 0 <= value <= 1


def _mistyped(value: object, wanted: Mapping[str, type], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}an object is wanted, not {shown(value)}"
        return
    for key, kind in wanted.items():
        if not isinstance(value.get(key), kind):
            yield f"{where}`{key}` is {shown(value[key])}" if key in value else f"{where}`{key}` is missing"


def verify(path: Path) -> Outcome:
    """Hold a record against the runs here: their SHA-256, and scores computed anew from runs and judgements.

    What differs is said, and is not good. Runs nothing. Raises BadInput for a file that is no record.
    """
    record, workspace = read(path), Workspace.default()
    if record["suite"] not in builtin_names():
        raise UsageError(f"{path}: there is no suite {shown(record['suite'])}")
    suite, hashes = load_suite(record["suite"], workspace), Hashes(workspace.hashes)
    datasets = {dataset.slug: dataset for dataset in suite.datasets}
    lines, cells = list(_other_data(record, suite, workspace, hashes)), 0
    if not record["conditions"]:
        lines.append("the record names no condition")
    for name, said in record["conditions"].items():
        condition = conditions.load(name) if name in conditions.names() else None
        if condition is None:
            lines.append(f"{shown(name)}: there is no such condition here")
            continue
        lines += [f"{name}: the record lacks {slug}" for slug in datasets if slug not in said["datasets"]]
        verdict = worst(cell["verdict"] for cell in said["datasets"].values())
        if said["datasets"] and said.get("verdict") != verdict:
            lines.append(
                f"{name}: its verdict is {shown(said.get('verdict'))}, but {verdict!r} by those of its datasets"
            )
        for slug, cell in said["datasets"].items():
            cells += 1
            if slug not in datasets:
                lines.append(f"{name}: suite {suite.name} has no dataset {shown(slug)}")
                continue
            found = _differences(cell, condition, datasets[slug], suite, workspace, hashes)
            lines += [f"{name} on {slug}: {text}" for text in found]
    hashes.save()
    if not lines:
        return Outcome(f"{path}: all {cells} runs are here, and score what it says")
    return Outcome("\n".join([f"{path} differs from what is here:", *lines, *_other_versions(record)]), good=False)


def _other_data(record: dict, suite: Suite, workspace: Workspace, hashes: Hashes) -> Iterator[str]:
    for dataset in suite.datasets:
        said = record["data"].get(dataset.slug)
        if not isinstance(said, dict):
            yield f"data of {dataset.slug}: the record says nothing of them"
            continue
        qrels = workspace.collection(suite.name, dataset.slug).qrels
        raw = digest(dataset, hashes)
        if said.get("raw") != raw:
            yield f"data of {dataset.slug}: {shown(said.get('raw'))} in the record, {shown(raw)} here"
        if qrels.is_file() and said.get("qrels") != hashes.of(qrels):
            yield f"judgements of {dataset.slug}: their SHA-256 is another here"


def _differences(
    cell: dict, condition: Condition, dataset: Dataset, suite: Suite, workspace: Workspace, hashes: Hashes
) -> Iterator[str]:
    """How a run here differs from what a record says of it."""
    run = workspace.run(suite.name, dataset.slug, condition.name)
    qrels = workspace.collection(suite.name, dataset.slug).qrels
    lacking = next((path for path in (run, qrels) if not path.is_file()), None)
    if lacking:
        yield f"{lacking} is not here; make it with `r2med run {condition.name} --suite {suite.name}`"
        return
    if sha256(run) != cell["run"]:
        yield "the run's SHA-256 is another here"
    try:
        found = scored(run, qrels, tuple(cell["scores"]))
    except R2medError as error:
        yield str(error)
        return
    for measure, score in cell["scores"].items():
        if not same({measure: score}, {measure: found.mean[measure]}):
            yield f"{measure} is {score:.4f} in the record, {found.mean[measure]:.4f} by the run here"
    counts = (found.judged, found.evaluated)
    if counts != (cell["judged"], cell["evaluated"]):
        yield f"{cell['evaluated']} of {cell['judged']} queries in the record, {found.evaluated} of {found.judged} here"
    verdict = table.entry(condition, suite, dataset, found, digest(dataset, hashes)).verdict
    if verdict != cell["verdict"]:
        yield f"the verdict is {shown(cell['verdict'])} in the record, {verdict!r} by the figures known here"


def _other_versions(record: dict) -> Iterator[str]:
    """What else was used then; it may be why runs differ."""
    known = [conditions.load(name) for name in record["conditions"] if name in conditions.names()]
    here = results.versions(known)
    for name, said in record["versions"].items():
        if name in here and said != here[name]:
            yield f"(made with {name} {shown(said)}; here it is {here[name]!r})"
