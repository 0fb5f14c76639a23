"""The user's own results as one plain structure, for reports that say more than a table: pages, tables for papers.

What runs scored, beside recorded and published figures, is in the rows of `report.table`. This module adds what that is
worth against a baseline, break-downs of the queries, recall at every rank, what the stages took, versions and machine.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from . import conditions, recording, significance, trec
from .artifacts import Hashes
from .comparing import body_systems
from .errors import R2medError, UsageError
from .evaluation import Scores
from .jvm import find_java
from .plan import Cell, Plan, hits
from .report.comparison import BODY_SYSTEM, TASK
from .report.table import Row
from .significance import Difference
from .stages import Stage
from .suggest import did_you_mean
from .suites import Dataset, Suite
from .trec import Qrels, Run

BASELINE = "bm25"  # where nobody names one
LEVEL = 0.05  # a difference is significant if its adjusted p-value is below
_GIB = 2**30


@dataclass(frozen=True)
class Contrast:
    """What a condition (A) is worth against the baseline (B), on one dataset, or on all of the suite (None).

    On all of the suite every dataset counts alike, as in the mean that reports show: a query weighs the less, the more
    its dataset has. `p` is that of the randomisation test, adjusted by Holm's method over the conditions.
    """

    condition: str
    dataset: str | None
    found: Difference
    p: float | None

    @property
    def sign(self) -> int:
        """1 where the condition is significantly better, -1 where it is significantly worse, else 0."""
        if self.p is None or self.p >= LEVEL:
            return 0
        return 1 if self.found.difference > 0 else -1


@dataclass(frozen=True)
class Question:
    """One judged query: what is known of it, and what each condition that has a run scored, in the measure shown."""

    query: str
    dataset: str
    task: str | None
    body_system: str | None
    text: str | None
    scores: dict[str, float]


@dataclass(frozen=True)
class Share:
    """The queries that have something in common, `by` TASK or BODY_SYSTEM, and the means of the conditions over them.

    Every query counts alike. A condition that has no run on all of them has no mean.
    """

    by: str
    name: str
    queries: int
    means: dict[str, float]


@dataclass(frozen=True)
class Step:
    """One stage that a condition's scores on a dataset rest on: its seconds by the clock, and bytes on disk.

    Either is None where it is not known: the output is not here (any more), or an older version made it.
    """

    condition: str
    dataset: str
    verb: str
    subject: str
    seconds: float | None
    size: int | None


@dataclass(frozen=True)
class Results:
    """All that reports say. `measure` is what they show, `rows` has a row a condition, with entries of `datasets`.

    `recall` holds the mean recall at rank 1, 2 and so on, by dataset and condition; it is empty unless asked for.
    """

    suite: Suite
    datasets: tuple[Dataset, ...]
    measure: str
    rows: list[Row]
    baseline: str | None
    contrasts: list[Contrast]
    questions: list[Question]
    shares: list[Share]
    recall: dict[str, dict[str, list[float]]]
    steps: list[Step]
    versions: dict[str, str]
    machine: dict[str, str]

    def contrast(self, condition: str, dataset: str | None) -> Contrast | None:
        """That of a condition on a dataset, or on the suite (None); None if there is none."""
        found = (one for one in self.contrasts if (one.condition, one.dataset) == (condition, dataset))
        return next(found, None)


def gather(
    plan: Plan,
    scored: Mapping[Cell, Scores],
    rows: list[Row],
    measure: str,
    baseline: str | None = None,
    recall: bool = True,
) -> Results:
    """Put together what `scored`, which holds the current cells of a plan, tells; `rows` are those to be shown.

    The baseline is BASELINE, if it is among them, unless one is named. `recall` reads all runs. Raises UsageError for a
    baseline that is not shown, R2medError for one that has no current run.
    """
    shown = {row.condition.name for row in rows}
    cells = {cell: scores for cell, scores in scored.items() if cell.condition.name in shown}
    datasets = tuple(entry.dataset for entry in rows[0].entries) if rows else ()
    chosen = _baseline(baseline, shown, {cell.condition.name for cell in cells})
    questions = [question for dataset in datasets for question in _questions(plan, dataset, cells, measure)]
    known = {cell.condition.name: cell.condition for cell in cells}
    return Results(
        suite=plan.suite,
        datasets=datasets,
        measure=measure,
        rows=rows,
        baseline=chosen,
        contrasts=_contrasts(rows, questions, chosen, plan.suite) if chosen else [],
        questions=questions,
        shares=[share for by in (TASK, BODY_SYSTEM) for share in _shares(questions, by, known)],
        recall={dataset.slug: _recall(plan, dataset, cells) for dataset in datasets} if recall else {},
        steps=[step for cell in cells for step in _steps(cell, plan.setting.hashes)],
        versions=versions(known.values()),
        machine=machine(),
    )


def _baseline(wanted: str | None, shown: Iterable[str], scored: Iterable[str]) -> str | None:
    if wanted is None:
        return BASELINE if BASELINE in scored else None
    if wanted not in shown:
        hint = did_you_mean(wanted, shown)
        raise UsageError(f"--baseline {wanted}: not among the conditions shown{hint}: {', '.join(sorted(shown))}")
    if wanted not in scored:
        raise R2medError(f"--baseline {wanted}: no current run of it here; make one with `r2med run {wanted}`")
    return wanted


def _questions(plan: Plan, dataset: Dataset, scored: Mapping[Cell, Scores], measure: str) -> Iterator[Question]:
    """The judged queries of a dataset, in the order of its judgements; none if no condition has scores of it."""
    of_dataset = {cell.condition.name: scores for cell, scores in scored.items() if cell.dataset == dataset}
    if not of_dataset:
        return
    systems = body_systems(dataset.raw)
    texts = trec.read_topics(plan.setting.workspace.collection(plan.suite.name, dataset.slug).topics)
    for query in next(iter(of_dataset.values())).queries:
        measured = {
            name: scores.queries[query][measure] for name, scores in of_dataset.items() if measure in scores.mean
        }
        yield Question(query, dataset.slug, dataset.task, systems.get(query), texts.get(query), measured)


def _contrasts(rows: Sequence[Row], questions: Sequence[Question], baseline: str, suite: Suite) -> list[Contrast]:
    """Every condition against the baseline on every dataset of which both have scores, and on a suite that is whole."""
    names = [row.condition.name for row in rows if row.condition.name != baseline]
    asked: dict[str, list[Question]] = {}
    for question in questions:
        asked.setdefault(question.dataset, []).append(question)
    found: list[Contrast] = []
    for slug, same in asked.items():
        here = [name for name in names if {name, baseline} <= same[0].scores.keys()]
        found += _adjusted({name: difference(same, name, baseline) for name in here}, slug)
    every = {dataset.slug for dataset in suite.datasets}
    measured = {slug: same[0].scores.keys() for slug, same in asked.items()}
    whole = [
        name
        for name in names
        if measured.keys() == every and all({name, baseline} <= known for known in measured.values())
    ]
    if len(every) > 1:
        weight = {slug: len(questions) / (len(every) * len(same)) for slug, same in asked.items()}
        of_suite = {name: difference(questions, name, baseline, weight) for name in whole}
        found += _adjusted({name: replace(one, low=None, high=None) for name, one in of_suite.items()}, None)
    return found


def _adjusted(found: Mapping[str, Difference], dataset: str | None) -> list[Contrast]:
    adjusted = significance.holm([one.p_randomisation for one in found.values()])
    return [Contrast(name, dataset, one, p) for (name, one), p in zip(found.items(), adjusted, strict=True)]


def difference(questions: Sequence[Question], a: str, b: str, weight: Mapping[str, float] | None = None) -> Difference:
    """What the difference of two conditions on these queries is worth.

    With `weight` the score of a query counts so many times, according to its dataset: means, and tests of them, are
    then those of weighted scores. An interval is not: it takes the share of every dataset for a matter of chance.
    """
    scores = (
        [question.scores[name] * (weight[question.dataset] if weight else 1) for question in questions]
        for name in (a, b)
    )
    return significance.difference(*scores)


def _shares(questions: Sequence[Question], by: str, names: Iterable[str]) -> list[Share]:
    """A share of the queries for every task, or for every body system in the order of the alphabet.

    None if there would be but one.
    """
    members: dict[str, list[Question]] = {}
    for question in questions:
        if getattr(question, by) is not None:
            members.setdefault(getattr(question, by), []).append(question)
    names, found = list(names), []
    for name in sorted(members) if by == BODY_SYSTEM else members:
        asked = members[name]
        whole = [one for one in names if all(one in question.scores for question in asked)]
        means = {one: sum(question.scores[one] for question in asked) / len(asked) for one in whole}
        found.append(Share(by, name, len(asked), means))
    return found if len(found) > 1 else []


def _recall(plan: Plan, dataset: Dataset, scored: Mapping[Cell, Scores]) -> dict[str, list[float]]:
    here = [cell for cell in scored if cell.dataset == dataset]
    if not here:
        return {}
    qrels = trec.read_qrels(plan.setting.workspace.collection(plan.suite.name, dataset.slug).qrels)
    found = {}
    for cell in here:
        depth = hits(cell.condition, conditions.closure([cell.condition]))
        found[cell.condition.name] = recall(qrels, trec.read_run(cell.run_path), depth)
    return found


def recall(qrels: Qrels, run: Run, depth: int) -> list[float]:
    """Mean recall at the ranks 1 to `depth`, as `evaluation` ranks: every judged query counts."""
    gained = [0.0] * depth
    for query, judged in qrels.items():
        relevant = [document for document, grade in judged.items() if grade > 0]
        for rank in ranks(run.get(query, {}), relevant):
            if rank <= depth:
                gained[rank - 1] += 1 / len(relevant)
    found, so_far = [], 0.0
    for gain in gained:
        so_far += gain
        found.append(so_far / len(qrels))
    return found


def ranks(documents: Mapping[str, float], wanted: Iterable[str]) -> list[int]:
    """The ranks of those of the `wanted` documents that were retrieved, as trec_eval ranks.

    By score in single precision, as trec_eval keeps it, ties by id descending: text compares as its UTF-8 bytes do.
    """
    there = [document for document in wanted if document in documents]
    if not there:
        return []
    import numpy as np

    scores = np.fromiter(documents.values(), np.float32, len(documents))
    names, found = list(documents), []
    for document in there:
        own = np.float32(documents[document])
        ties = sum(names[place] > document for place in np.flatnonzero(scores == own))
        found.append(int((scores > own).sum()) + ties + 1)
    return found


def _steps(cell: Cell, hashes: Hashes) -> Iterator[Step]:
    """What the scores of a cell rest on, what comes first first."""
    for stage in _beneath(cell.scores, {}):
        known = (stage.artifact.seconds(), stage.artifact.size()) if _is_here(stage, hashes) else (None, None)
        yield Step(cell.condition.name, cell.dataset.slug, stage.verb, stage.subject, *known)


def _is_here(stage: Stage, hashes: Hashes) -> bool:
    """Whether a stage's output is there as the stage would make it, or with less in it than other conditions want.

    An index may be gone, or be another by now, while the runs that were searched in it stay valid.
    """

    def alike(have: dict, want: dict) -> bool:
        return stage.serves(have, want) or stage.serves(want, have)

    return replace(stage, serves=alike).is_current(hashes)


def _beneath(stage: Stage, seen: dict[Stage, None]) -> dict[Stage, None]:
    for other in (*stage.needs, *stage.tools):
        if other not in seen:
            _beneath(other, seen)
    seen[stage] = None
    return seen


def versions(known: Iterable[conditions.Condition]) -> dict[str, str]:
    """The versions of what conditions, and what they are made from, depend on, as far as it is here."""
    found = {"Python": platform.python_version()}
    with suppress(R2medError):
        found["Java"] = find_java().version
    for condition in conditions.closure(known).values():
        with suppress(PackageNotFoundError, R2medError):
            found |= recording.made_with([condition])
    return found | {name: version(name) for name in ("pyserini", "pytrec-eval-terrier")}


def machine() -> dict[str, str]:
    """This machine in words: system, processor, memory, and the GPUs that NVIDIA's driver knows."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    found = {
        "operating system": platform.platform(),
        "processor": f"{_processor()}, {os.cpu_count()} of them",
        "memory": f"{memory:.1f} GiB",
    }
    gpus = _told("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader").splitlines()
    return found | ({"GPU": "; ".join(filter(None, map(str.strip, gpus)))} if gpus else {})


def _processor() -> str:
    """The processor's name, as the system tells it; its architecture if it does not."""
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, name = line.partition(":")
            if key.strip() == "model name" and name.strip():
                return name.strip()
    return _told("sysctl", "-n", "machdep.cpu.brand_string").strip() or platform.machine()


def _told(program: str, *words: str) -> str:
    """What a program prints; empty if it is not here or fails."""
    if not shutil.which(program):
        return ""
    with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=10, check=True)
        return done.stdout
    return ""
