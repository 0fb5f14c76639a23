"""What the commands do: from the words of a command line to a plan, and from a plan to what is printed."""

import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from . import __version__, commands, conditions, data, evaluation, recording
from .artifacts import Hashes
from .errors import R2medError, UsageError
from .jvm import anserini_version
from .outcome import Observer, Outcome, messages
from .paths import Workspace
from .plan import Cell, Plan, Setting, make_plan
from .rawfiles import locate
from .report import table
from .stages import DONE, TO_DO, Stage, execute, preview
from .suggest import did_you_mean
from .suites import load_suite, require_data
from .verdicts import passes


@dataclass(frozen=True)
class Work:
    """Conditions on datasets of one suite, planned."""

    setting: Setting
    plan: Plan

    @classmethod
    def prepare(
        cls,
        names: tuple[str, ...],
        everything: bool,
        suite: str,
        datasets: tuple[str, ...],
        threads: int,
        need_data: bool = True,
    ) -> "Work":
        """Check everything that can be checked before work begins. Raises UsageError, BadInput or MissingData."""
        if bool(names) == everything:
            raise UsageError("name one or more conditions, or --all (`r2med list` shows them)")
        workspace = Workspace.default()
        found = load_suite(suite, workspace)
        chosen = found.select(datasets)
        loaded = conditions.load_all(names or conditions.names())
        if need_data:
            require_data(found, chosen)
        setting = Setting(workspace, Hashes(workspace.hashes), threads)
        return cls(setting, make_plan(loaded, found, chosen, setting))

    def preview(self) -> list[str]:
        """Every stage in order, and whether it is done."""
        state = self._state()
        lines = [f"{state[stage]:<10}  {stage.verb:<8}  {stage.subject}" for stage in self.plan.stages]
        return [*lines, f"{list(state.values()).count(TO_DO)} of {len(state)} stages to do"]

    def _scored(self) -> dict[Cell, evaluation.Scores]:
        """The cells whose scores are current, and these."""
        state = self._state()
        return {cell: cell.read() for cell in self.plan.cells if state[cell.scores] == DONE}

    def _state(self) -> dict[Stage, str]:
        state = preview(self.plan.stages, self.setting.hashes)
        self.setting.hashes.save()
        return state

    def commands(self) -> list[str]:
        """The Pyserini commands of every cell, with our Java and plain, after the one that makes the collections."""
        suite = self.plan.suite
        lines = [f"r2med data --suite {shlex.quote(suite.argument)}"]
        for cell in self.plan.cells:
            lines.append(
                f"\n# {cell.condition.name} on {suite.name}/{cell.dataset.slug}: with the Java that r2med finds"
            )
            lines += commands.for_cell(cell.condition, suite, cell.dataset, self.setting.workspace, commands.OURS)
            lines.append("# the same with a Java 21 of your own that has the module jdk.incubator.vector")
            lines += commands.for_cell(cell.condition, suite, cell.dataset, self.setting.workspace, commands.PLAIN)
        return lines

    def execute(self, observe: Observer) -> Outcome:
        """Bring everything up to date and show the scores."""
        failed = execute(self.plan.stages, self.setting.threads, self.setting.hashes, observe)
        scored = self._scored()
        errors = messages(failed)
        if not scored:
            return Outcome(good=False, errors=errors)
        outcome = self._outcome(scored, evaluation.HEADLINE, "text")
        text = [outcome.text, *data.findings(self.plan, failed), *self._run_paths(scored)]
        return Outcome("\n".join(text), outcome.good and not failed, errors)

    def report(self, measure: str, form: str, only_present: bool) -> Outcome:
        """Show the scores of current runs, without running anything.

        `only_present` leaves out the conditions that have none. Raises R2medError if nothing is left, UsageError for
        a measure that is not kept.
        """
        if measure not in evaluation.MEASURES:
            kept = ", ".join(evaluation.MEASURES)
            raise UsageError(f"no measure {measure!r}{did_you_mean(measure, evaluation.MEASURES)}; kept are {kept}")
        scored = self._scored()
        present = {cell.condition.name for cell in scored}
        cells = [cell for cell in self.plan.cells if cell.condition.name in present or not only_present]
        if not cells:
            raise R2medError(f"no current run of suite {self.plan.suite.name} here; make one with `r2med run`")
        return self._outcome(scored, measure, form, cells)

    def _outcome(
        self, scored: dict[Cell, evaluation.Scores], measure: str, form: str, cells: Iterable[Cell] = ()
    ) -> Outcome:
        suite = self.plan.suite
        entries = [
            table.entry(cell.condition, suite, cell.dataset, scored.get(cell)) for cell in cells or self.plan.cells
        ]
        rows = table.rows(entries)
        text = table.render(rows, suite, measure, form)
        if form in ("text", "markdown"):
            note = (
                "; NOT R2MED's scores: an embedded sample for trying the tool, not medical advice"
                if suite.sample
                else ""
            )
            text = (
                f"{measure} of suite {suite.name}{note}\n\n{text}\n\n{table.evaluated(entries)}{table.legend(entries)}"
            )
            details = filter(None, map(table.against_published, rows))
            text = "\n\n".join([text, *details])
        return Outcome(text, all(passes(row.verdict) for row in rows))

    def record(self) -> dict[str, conditions.Condition]:
        """The conditions with the scores of their current runs put in as recorded figures, by name.

        Raises R2medError unless every dataset of the suite has a current run of every condition.
        """
        suite, state = self.plan.suite, self._state()
        lacking = [
            f"{cell.condition.name} on {cell.dataset.slug}" for cell in self.plan.cells if state[cell.scores] != DONE
        ]
        if lacking:
            raise R2medError(
                f"no current run of {', '.join(lacking)}; only complete runs are recorded: use `r2med run`"
            )
        data = "".join(
            self.setting.hashes.of(path) for dataset in suite.datasets for path in locate(dataset.raw).values()
        )
        versions = {"r2med-pyserini": __version__, "anserini": anserini_version()}
        made_with = versions | {"data": hashlib.sha256(data.encode()).hexdigest()[:16]}
        scores: dict[str, dict] = {}
        for cell in self.plan.cells:
            scores.setdefault(cell.condition.name, {})[cell.dataset.slug] = recording.figures(cell.read())
        known = {cell.condition.name: cell.condition for cell in self.plan.cells}
        return {
            name: replace(
                known[name], recorded=known[name].recorded | {suite.name: conditions.Recorded(made_with, table)}
            )
            for name, table in scores.items()
        }

    def _run_paths(self, cells: Iterable[Cell]) -> list[str]:
        """Where the runs are, a line for each condition."""
        runs: dict[str, list[Path]] = {}
        for cell in cells:
            runs.setdefault(cell.condition.name, []).append(cell.run_path)
        every = {name: self.setting.workspace.run(self.plan.suite.name, "*", name) for name in runs}
        return [f"Runs of {name}: {paths[0] if len(paths) == 1 else every[name]}" for name, paths in runs.items()]


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
