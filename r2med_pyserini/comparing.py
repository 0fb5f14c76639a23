"""Gathers what is to be compared of two systems: runs of conditions in the workspace, or run files of any tool."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import conditions, evaluation, significance, trec
from .conditions import Condition
from .datasets import converted
from .errors import BadInput, R2medError, UsageError
from .evaluation import Scores
from .jsonl import Faults, objects
from .outcome import Outcome
from .paths import QUERY_FILE, Collection
from .plan import Cell, prepare
from .rawfiles import locate
from .report.comparison import ALL, BODY_SYSTEM, DATASET, FORMATS, TASK, Comparison, Question, Row, render
from .stages import DONE
from .suggest import did_you_mean
from .suites import Dataset
from .trec import Qrels

MEASURES = (evaluation.HEADLINE, "R@100")
_SHOWN = (DATASET, TASK, ALL, BODY_SYSTEM)  # the groups, in the order in which they are shown
_NO_DATASET = "say what to evaluate against: either --dataset NAME (with --suite) or --qrels FILE"


@dataclass(frozen=True)
class _Part:
    """The scores of A and B with the same judgements, which are those of a dataset or of a file."""

    a: Scores
    b: Scores
    dataset: Dataset | None = None
    files: Collection | None = None


@dataclass(frozen=True)
class _Group:
    """Queries, by their places, over which A and B are compared."""

    by: str
    name: str
    label: str
    members: tuple[int, ...]


def compare(
    a: str,
    b: str,
    suite: str,
    slugs: tuple[str, ...],
    qrels: Path | None,
    measures: tuple[str, ...],
    form: str,
    top: int,
) -> Outcome:
    """What `r2med compare` prints of two systems. Searches nothing.

    A and B are conditions (names, or YAML files), whose current runs count: those of the datasets `slugs` of a suite,
    or of all. Either may be a run file of one dataset instead, the only one of `slugs`; two run files may be held
    against the judgements of the file `qrels`. As text, every measure has its `top` queries of the largest gain and
    loss. Raises UsageError, BadInput, and R2medError where there is nothing to compare.
    """
    if form not in FORMATS or top < 0:
        raise UsageError(f"formats are {', '.join(FORMATS)}, and --top is 0 or more")
    wanted, warnings = _canonical(measures) or MEASURES, []
    words = (a, b)
    own = tuple(dict.fromkeys(word for word in words if not _is_file(word)))
    known = dict(zip(own, conditions.load_all(own), strict=True))
    if a == b or len({condition.name for condition in known.values()}) < len(known):
        raise UsageError(f"A and B are both {a}; name two different ones")
    named = tuple(dict.fromkeys(slugs))
    if qrels is None:
        where, parts = _of_suite(words, known, suite, named, wanted, warnings)
    elif named:
        raise UsageError(_NO_DATASET)
    elif known:
        raise UsageError(f"--qrels is for two run files; {own[0]} is a condition, and its runs belong to datasets")
    else:
        judged = trec.read_qrels(qrels)
        where, parts = str(qrels), [_Part(*(_of_file(word, judged, wanted, warnings) for word in words))]
    labels = tuple(known[word].name if word in known else word for word in words)
    questions = [question for part in parts for question in _questions(part)]
    rows = _rows(wanted, questions, _groups(questions))
    text = render(Comparison(*labels, where, wanted, questions, rows), form, top)
    return Outcome(text, warnings=[*warnings, *_without_hits(labels, parts)])


def _canonical(measures: Iterable[str]) -> tuple[str, ...]:
    """The measures, each once, by the names under which scores are kept. Raises UsageError for an unknown one."""
    kept = {evaluation.trec_eval_name(measure): measure for measure in evaluation.MEASURES}
    wanted = {evaluation.trec_eval_name(measure): measure for measure in measures}
    return tuple(kept.get(name, measure) for name, measure in wanted.items())


def _is_file(word: str) -> bool:
    """Whether a word names a run file, not a condition. Raises UsageError if it names neither."""
    if word in conditions.names() or word.endswith((".yaml", ".yml")):
        return False
    if not Path(word).exists() or Path(word).is_dir():
        hint = did_you_mean(word, conditions.names())
        raise UsageError(f"{word!r} is neither a condition{hint} (`r2med list` shows all) nor a run file that is here")
    return True


def _of_suite(
    words: tuple[str, str],
    known: Mapping[str, Condition],
    suite: str,
    named: tuple[str, ...],
    measures: tuple[str, ...],
    warnings: list[str],
) -> tuple[str, list[_Part]]:
    """What the suite is called, and a part for every dataset of it of which both have a run."""
    if len(known) < 2 and len(named) != 1:
        raise UsageError(_NO_DATASET if not named else "a run file belongs to one dataset; name one with --dataset")
    if not known:
        converted(suite, named[0])
    prepared = prepare(suite, named, conditions=known.values(), need_data=False)
    state, found = prepared.preview(), prepared.suite
    current = {(cell.condition.name, cell.dataset): cell for cell in prepared.cells if state[cell.scores] == DONE}
    names = [condition.name for condition in known.values()]
    lacking = {each: [name for name in names if (name, each) not in current] for each in found.select(named)}
    if all(lacking.values()):
        options = [option for slug in named for option in ("--dataset", slug)]
        command = shlex.join(["r2med", "run", *known, "--suite", suite, *options])
        raise R2medError("\n".join(["nothing to compare:", *_said(lacking), f"make the runs with `{command}`"]))
    warnings += [f"left out: {note}" for note in _said(lacking)]
    parts = []
    for dataset in (each for each in lacking if not lacking[each]):
        files = prepared.setting.workspace.collection(found.name, dataset.slug)
        scores = [
            _of_cell(current[known[word].name, dataset], files, measures)
            if word in known
            else _of_file(word, trec.read_qrels(files.qrels), measures, warnings)
            for word in words
        ]
        parts.append(_Part(*scores, dataset, files))
    return found.name + (" (a sample: not R2MED's scores)" if found.sample else ""), parts


def _said(lacking: Mapping[Dataset, list[str]]) -> list[str]:
    """Which conditions have no run on which datasets, a line for all datasets that lack the same."""
    together: dict[tuple[str, ...], list[str]] = {}
    for dataset, names in lacking.items():
        if names:
            together.setdefault(tuple(names), []).append(dataset.slug)
    return [f"no current run of {' and '.join(names)} on {', '.join(slugs)}" for names, slugs in together.items()]


def _of_cell(cell: Cell, files: Collection, measures: tuple[str, ...]) -> Scores:
    """The scores of a current run: those that are kept, if they are all that is wanted."""
    scores = cell.read()
    too_deep = [measure for measure in measures if measure in evaluation.MEASURES and measure not in scores.mean]
    if too_deep:
        kept = f"{cell.condition.name} keeps too few documents a query for {', '.join(too_deep)}"
        raise UsageError(f"{kept}; name others with --measure")
    if set(measures) <= scores.mean.keys():
        return scores
    return evaluation.evaluate(trec.read_qrels(files.qrels), trec.read_run(cell.run_path), measures, foreign=False)


def _of_file(path: str, qrels: Qrels, measures: tuple[str, ...], warnings: list[str]) -> Scores:
    """The scores of a run of any tool."""
    retrieved = trec.read_run(Path(path))
    if not retrieved:
        raise BadInput(f"{path}: holds no row; a run has lines of 6 columns: {trec.RUN_COLUMNS}")
    if evaluation.nothing_judged(qrels, retrieved):
        warnings.append(f"{path} holds no judged document: do run and qrels belong to the same dataset?")
    try:
        return evaluation.evaluate(qrels, retrieved, measures)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def _without_hits(labels: tuple[str, ...], parts: Iterable[_Part]) -> Iterator[str]:
    for part in parts:
        for label, scores in zip(labels, (part.a, part.b), strict=True):
            lacking, of = scores.judged - scores.evaluated, f" of {part.dataset.slug}" if part.dataset else ""
            if lacking:
                yield f"{label} has no hits for {lacking:,} of the {scores.judged:,} judged queries{of}; they count 0"


def _questions(part: _Part) -> Iterator[Question]:
    """The judged queries of a part, with what the dataset says of them."""
    dataset = part.dataset
    about: dict = {"dataset": dataset.slug, "label": dataset.short, "task": dataset.task} if dataset else {}
    systems = body_systems(dataset.raw) if dataset else {}
    texts = trec.read_topics(part.files.topics) if part.files else {}
    for query, scores in part.a.queries.items():
        known = {"text": texts.get(query), "body_system": systems.get(query)}
        yield Question(query, scores, part.b.queries[query], **about, **known)


def body_systems(raw: Path) -> dict[str, str]:
    """Query id -> the field `body_system` of the raw file, where a query has it as text."""
    path = locate(raw).get(QUERY_FILE)
    rows = [row for _, row in objects(path, Faults())] if path else []
    found = {trec.identifier(row.get("id")): row.get("body_system") for row in rows}
    return {query: value for query, value in found.items() if query and isinstance(value, str) and value.strip()}


def _groups(questions: list[Question]) -> list[_Group]:
    """The groups of queries to compare: datasets, tasks, all, and body systems.

    None has the queries of another: nothing is tested twice. A task of one dataset is that dataset, and so are "all"
    queries if there is but one.
    """
    found: dict[tuple[int, ...], _Group] = {}
    for by in (DATASET, ALL, TASK, BODY_SYSTEM):
        members: dict[str, list[int]] = {}
        labels = {ALL: "all queries"} | {q.dataset: q.label for q in questions if q.dataset and by == DATASET}
        for place, question in enumerate(questions):
            name = ALL if by == ALL else getattr(question, by)
            if name is not None:
                members.setdefault(name, []).append(place)
        for name in sorted(members) if by == BODY_SYSTEM else members:
            places = tuple(members[name])
            found.setdefault(places, _Group(by, name, labels.get(name, name), places))
    return sorted(found.values(), key=lambda group: _SHOWN.index(group.by))


def _rows(measures: tuple[str, ...], questions: list[Question], groups: list[_Group]) -> list[Row]:
    """Every measure over every group. Body systems are not tested: they are many, and few queries each."""
    rows = []
    for measure in measures:
        for group in groups:
            asked, test = [questions[place] for place in group.members], group.by != BODY_SYSTEM
            scores = ([q.a[measure] for q in asked], [q.b[measure] for q in asked])
            found = significance.difference(*scores, test)
            rows.append(Row(measure, group.by, group.name, group.label, test, found))
    of_t = significance.holm([row.found.p_t for row in rows])
    of_randomisation = significance.holm([row.found.p_randomisation for row in rows])
    adjusted = zip(rows, of_t, of_randomisation, strict=True)
    return [replace(row, holm_t=p_t, holm_randomisation=p_randomisation) for row, p_t, p_randomisation in adjusted]
