"""The commands about conditions: running them, reporting and recording their scores."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from . import (
    commands,
    conditions,
    datasets,
    encoded_stages,
    encoders,
    evaluation,
    models,
    recording,
    rerankers,
    reranking,
    weights,
)
from .conditions import Condition, Recorded
from .context import SENTENCES
from .encoders.base import Settings
from .errors import R2medError, UsageError
from .outcome import Observer, Outcome, messages
from .paths import Workspace
from .plan import Cell, Plan, digest, prepare
from .report import table
from .stages import DONE, TO_DO, Result
from .suggest import did_you_mean
from .suites import load_suite
from .verdicts import passes


@dataclass(frozen=True)
class Experiment:
    """Conditions on datasets of one suite, planned."""

    plan: Plan

    @classmethod
    def prepare(
        cls, names: tuple[str, ...], everything: bool, suite: str, slugs: tuple[str, ...], threads: int = 1, **how
    ) -> "Experiment":
        """Check everything that can be checked before work begins; `how` goes to `plan.prepare`.

        `everything` means the conditions that need no more than what is installed. Raises UsageError, BadInput or
        MissingData.
        """
        if bool(names) == everything:
            raise UsageError("name one or more conditions, or --all (`r2med list` shows them)")
        loaded = conditions.load_all(names or conditions.names())
        if everything:
            loaded = [condition for condition in loaded if is_installed(condition)]
        elif "encoding" in how:  # it is to be run, not to be reported
            for condition in loaded:
                _check_models(condition, how["encoding"])
        if "encoding" in how and any(one.encoder or one.rerank for one in conditions.closure(loaded).values()):
            encoders.check_device(how["encoding"])
        return cls(prepare(suite, slugs, threads, loaded, **how))

    @classmethod
    def of_all(cls, suite: str, slugs: tuple[str, ...]) -> "Experiment":
        """Every condition that the package describes, to look for what has been run. Raises as `prepare` does."""
        return cls(prepare(suite, slugs, conditions=conditions.load_all(conditions.names()), need_data=False))

    def preview(self) -> list[str]:
        """Every stage in order, and whether it is done."""
        state = self.plan.preview()
        lines = [f"{state[stage]:<10}  {stage.verb:<8}  {stage.subject}" for stage in self.plan.stages]
        return [*lines, f"{list(state.values()).count(TO_DO)} of {len(state)} stages to do"]

    def commands(self) -> list[str]:
        """The Pyserini commands of every cell, with our Java and plain, after the one that makes the collections."""
        suite, workspace = self.plan.suite, self.plan.setting.workspace
        lines = [f"r2med data --suite {shlex.quote(suite.argument)}"]
        for cell in self.plan.cells:
            ours, plain = (
                commands.for_cell(cell.condition, suite, cell.dataset, workspace, prefix)
                for prefix in (commands.OURS, commands.PLAIN)
            )
            where = f"{cell.condition.name} on {suite.name}/{cell.dataset.slug}"
            lines += [f"\n# {where}: with the Java that r2med finds", *ours]
            if plain != ours:
                lines += ["# the same with a Java 21 of your own that has the module jdk.incubator.vector", *plain]
        return lines

    def execute(self, observe: Observer) -> Outcome:
        """Bring everything up to date and show the scores."""
        result = self.plan.execute(observe)
        scored = {cell: cell.read() for cell in self.plan.cells if cell.scores in result.done}
        if not scored:
            return Outcome(errors=messages(result))
        rows = self._rows(scored, self.plan.cells)
        shown = table.report(rows, self.plan.suite, evaluation.HEADLINE, table.TEXT)
        text = [shown, *datasets.findings(self.plan, result), *self._notes(result), *self._run_paths(scored)]
        return Outcome("\n".join(text), all(passes(row.verdict) for row in rows), messages(result))

    def current(self, measure: str, only_present: bool) -> tuple[dict[Cell, evaluation.Scores], list[table.Row]]:
        """The current cells with their scores, and the rows of a table of them. Runs nothing.

        `only_present` leaves out the conditions that have none. Raises R2medError if nothing is left, UsageError for
        a measure that is not kept.
        """
        if measure not in evaluation.MEASURES:
            kept = ", ".join(evaluation.MEASURES)
            raise UsageError(f"no measure {measure!r}{did_you_mean(measure, evaluation.MEASURES)}; kept are {kept}")
        scored = self._current()
        present = {cell.condition.name for cell in scored}
        cells = [cell for cell in self.plan.cells if cell.condition.name in present or not only_present]
        if not cells:
            name = self.plan.suite.name
            raise R2medError(f"no current run of suite {name} here; make one with `r2med run`, or name another --suite")
        return scored, self._rows(scored, cells)

    def record(self) -> dict[str, Condition]:
        """The conditions with the scores of their current runs put in as recorded figures, by name.

        Raises R2medError unless every dataset of the suite has a current run of every condition.
        """
        scored, suite = self._current(), self.plan.suite
        lacking = [f"{cell.condition.name} on {cell.dataset.slug}" for cell in self.plan.cells if cell not in scored]
        if lacking:
            text = f"no current run of {', '.join(lacking)}"
            raise R2medError(f"{text}; only complete runs are recorded: use `r2med run`")
        data = {dataset.slug: digest(dataset, self.plan.setting.hashes) for dataset in suite.datasets}
        known: dict[str, Condition] = {}
        scores: dict[str, dict] = {}
        for cell, found in scored.items():
            known[cell.condition.name] = cell.condition
            scores.setdefault(cell.condition.name, {})[cell.dataset.slug] = recording.figures(found)
        new = {
            name: {suite.name: Recorded(recording.made_with(conditions.closure([known[name]]).values()), data, figures)}
            for name, figures in scores.items()
        }
        return {name: replace(condition, recorded=condition.recorded | new[name]) for name, condition in known.items()}

    def _current(self) -> dict[Cell, evaluation.Scores]:
        """The cells whose scores are current, and these."""
        state = self.plan.preview()
        return {cell: cell.read() for cell in self.plan.cells if state[cell.scores] == DONE}

    def _rows(self, scored: dict[Cell, evaluation.Scores], cells: Iterable[Cell]) -> list[table.Row]:
        suite, hashes = self.plan.suite, self.plan.setting.hashes
        return table.rows(
            table.entry(cell.condition, suite, cell.dataset, scored.get(cell), digest(cell.dataset, hashes))
            for cell in cells
        )

    def _notes(self, result: Result) -> list[str]:
        """What was cut of the texts that were encoded, and what other stages have to tell."""
        encoded = [stage for stage in self.plan.only("encode") if stage in result.done]
        told = encoded_stages.truncations(encoded)
        for stage in self.plan.stages:
            if stage in result.done:
                told += [f"{stage.subject}: {text}" for text in stage.artifact.notes().get(SENTENCES, [])]
        return [f"Note: {text}" for text in told]

    def _run_paths(self, cells: Iterable[Cell]) -> list[str]:
        """Where the runs are, a line for each condition."""
        runs: dict[str, list[Path]] = {}
        for cell in cells:
            runs.setdefault(cell.condition.name, []).append(cell.run_path)
        every = {name: self.plan.setting.workspace.run(self.plan.suite.name, "*", name) for name in runs}
        return [f"Runs of {name}: {paths[0] if len(paths) == 1 else every[name]}" for name, paths in runs.items()]


def at_hand(condition: Condition) -> bool:
    """Whether a condition can be run at once: without a download, and with the keys that it needs."""
    every = conditions.closure([condition]).values()
    encoders_here = all(weights.at_hand(models.load(one.encoder)) for one in every if one.encoder)
    return encoders_here and all(
        weights.reranker_at_hand(rerankers.load(one.rerank.reranker)) for one in every if one.rerank
    )


def is_installed(condition: Condition) -> bool:
    """Whether a condition needs neither a download nor a service nor a package that is not here."""
    every = conditions.closure([condition]).values()
    named = [models.load(one.encoder) for one in every if one.encoder]
    if any(one.rerank for one in every):
        return False
    return all(model.package is not None and weights.at_hand(model) for model in named)


def _check_models(condition: Condition, settings: Settings) -> None:
    """Raise UsageError or R2medError if a model must not, or cannot, be run as the settings say."""
    for one in conditions.closure([condition]).values():
        if one.encoder:
            encoders.check(models.load(one.encoder), settings)
        if one.rerank:
            reranking.check(rerankers.load(one.rerank.reranker), settings, one.rerank.max_passage)


def split_target(name: str, suite: str) -> tuple[str, str | None]:
    """`bm25-rm3-biology` -> ("bm25-rm3", "biology"); `bm25-all` -> ("bm25", None). Raises UsageError."""
    slugs = {dataset.slug: dataset.slug for dataset in load_suite(suite, Workspace.default()).datasets}
    endings = {**slugs, "all": None}
    for ending, dataset in endings.items():
        condition = name.removesuffix(f"-{ending}")
        if condition != name and condition in conditions.names():
            return condition, dataset
    known = [f"{condition}-{ending}" for condition in conditions.names() for ending in endings]
    raise UsageError(f"no target {name!r}{did_you_mean(name, known)} (`make help` and `make list` show what there is)")
