"""`r2med log`: puts a reproduction into the log in docs/, and a record beside it; but only one that is verified.

Verified is a condition whose runs of every dataset of the suite are current, as their manifests say they were made, and
whose scores, computed anew from the runs, are all OK; and the code is a commit's, unchanged.
"""

import datetime
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import checkout, conditions, records, reproductions
from .artifacts import replace_text, sha256
from .checkout import Checkout
from .conditions import Condition
from .errors import R2medError, UsageError, system_error
from .outcome import Outcome
from .plan import Cell, Plan, digest, prepare
from .records import Verified
from .report.table import Entry, entry
from .reproductions import Reproduction
from .stages import DONE, Stage
from .verdicts import FAIL, NEW, OK, OKISH

_EXAMPLES = 3
_State = Mapping[Stage, str]
_OWN_NAMES = "only conditions of the package are logged, since others could not run it"


@dataclass
class _Looked:
    """A condition, what speaks against logging it, and what its runs say if nothing does."""

    condition: Condition
    against: list[str] = field(default_factory=list)
    verified: Verified | None = None


def log(handle: str, suite: str, names: tuple[str, ...], docs: Path | None = None, okish: bool = False) -> Outcome:
    """`add` for the checkout that the running code comes from; `docs` is the folder of the log, if not its own."""
    if docs is not None and not docs.is_dir():
        raise UsageError(f"--docs {docs}: no such folder")
    return add(reproductions.handle_of(handle), suite, names, checkout.find(), docs, okish)


def add(
    handle: str, suite: str, names: tuple[str, ...], code: Checkout, docs: Path | None = None, okish: bool = False
) -> Outcome:
    """Log what is verified here of the conditions `names`, or of all that have runs, as reproduced by a GitHub user.

    If one that is named is not verified, nothing is logged; of all, those that are not are told as warnings. `okish`
    lets verdicts of OKish pass, and the log says so. Nothing is logged twice for the same user and commit. Raises
    UsageError, and R2medError with all reasons.
    """
    if suite not in reproductions.SUITES:
        raise UsageError(f"--suite {suite}: only suites {' and '.join(reproductions.SUITES)} have a log")
    chosen = conditions.load_all(names or conditions.names())
    foreign = [str(condition.file) for condition in chosen if condition.name not in conditions.names()]
    if foreign:
        raise UsageError(f"{', '.join(foreign)}: {_OWN_NAMES}")
    place = _Place(suite, docs or code.docs)
    _check_clean(code, place)
    plan = prepare(suite, conditions=chosen, need_data=False)
    state = plan.preview()
    looked = [found for condition in chosen if (found := _look(plan, state, condition, okish, bool(names)))]
    plan.setting.hashes.save()
    good = [one.verified for one in looked if one.verified]
    refused = [f"{one.condition.name}: {reason}" for one in looked if not one.verified for reason in one.against]
    if not good or (names and refused):
        raise R2medError("\n".join(["nothing is logged:", *(refused or [_no_runs(suite)])]))
    written = _write(place, code, handle, good, plan)
    return Outcome("\n".join(written), warnings=[f"not logged: {text}" for text in refused])


def _no_runs(suite: str) -> str:
    return f"there is no run of suite {suite} here; make some with `r2med run --all --suite {suite}`"


@dataclass(frozen=True)
class _Place:
    """Where the log of a suite, and its records, lie."""

    suite: str
    docs: Path

    @property
    def log(self) -> Path:
        return reproductions.log_of(self.suite, self.docs)

    def record(self, entry: Reproduction) -> Path:
        return self.docs / entry.record

    def is_own(self, path: Path) -> bool:
        """Whether `r2med log` may have written a file, for whatever suite."""
        logs = {reproductions.log_of(suite, self.docs).resolve() for suite in reproductions.SUITES}
        return path.resolve() in logs or path.resolve().is_relative_to((self.docs / reproductions.LOGS).resolve())


def _check_clean(code: Checkout, place: _Place) -> None:
    """Raise R2medError if the code is not just that of its commit."""
    changed = [name for name in code.changes() if not place.is_own(code.root / name)]
    if changed:
        more = f" and {len(changed) - _EXAMPLES:,} more" if len(changed) > _EXAMPLES else ""
        raise R2medError(
            f"{code.root} is not just commit {code.commit[: checkout.SHORT]}: "
            f"{', '.join(changed[:_EXAMPLES])}{more} differ from it, or are new; commit them, or put them away"
        )


def _look(plan: Plan, state: _State, condition: Condition, okish: bool, named: bool) -> _Looked | None:
    """What speaks for and against a condition; None if it was never run and is not named."""
    cells = [cell for cell in plan.cells if cell.condition.name == condition.name]
    if not named and not any(cell.run_path.exists() for cell in cells):
        return None
    looked, hashes = _Looked(condition), plan.setting.hashes
    looked.against = list(_together(plan, state, cells))
    if looked.against:
        return looked
    verified = Verified(condition)
    for cell in cells:
        qrels = plan.setting.workspace.collection(plan.suite.name, cell.dataset.slug).qrels
        kept = cell.read()
        scores = records.scored(cell.run_path, qrels, tuple(kept.mean))
        if not records.same(kept.mean, scores.mean):
            looked.against.append(f"the scores kept of its run on {cell.dataset.slug} are not those of the run")
        data = digest(cell.dataset, hashes)
        verified.entries.append(entry(condition, plan.suite, cell.dataset, scores, data))
        verified.runs.append(sha256(cell.run_path))
    looked.against += against(verified, okish)
    if not looked.against:
        looked.verified = verified
    return looked


def _together(plan: Plan, state: _State, cells: Iterable[Cell]) -> Iterator[str]:
    """What is wrong with runs, a sentence for all datasets where it is the same."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        reason = _not_current(cell, state)
        if reason:
            found.setdefault(reason, []).append(cell.dataset.slug)
    command = shlex.join(["r2med", "run", *dict.fromkeys(cell.condition.name for cell in cells)])
    for reason, slugs in found.items():
        where = "all datasets" if len(slugs) == len(plan.suite.datasets) else ", ".join(slugs)
        yield f"{reason} on {where}; `{command} --suite {plan.suite.name}` makes it"


def _not_current(cell: Cell, state: _State) -> str | None:
    """Why the scores of a cell are not current; None if they are, and the run is what its manifest says."""
    run = next(stage for stage in cell.scores.needs if stage.artifact.path == cell.run_path)
    listed = run.artifact.files().get(cell.run_path.name)
    if not cell.run_path.is_file():
        return "no run"
    if listed is None:
        return "a run that r2med did not make"
    if sha256(cell.run_path) != listed:
        return "a run that does not match its manifest (was it edited?)"
    if state[run] != DONE:
        return "no current run (data, settings or code have changed since)"
    return None if state[cell.scores] == DONE else "no current scores of the run"


def against(verified: Verified, okish: bool) -> Iterator[str]:
    """What the verdicts of a condition have against logging it."""
    by_verdict: dict[str, list[Entry]] = {}
    for found in verified.entries:
        by_verdict.setdefault(found.verdict, []).append(found)
    if FAIL in by_verdict:
        yield f"verdict {FAIL}: {_far_off(by_verdict[FAIL], FAIL)}"
    if OKISH in by_verdict and not okish:
        yield f"verdict {OKISH}: {_far_off(by_verdict[OKISH], OKISH)} (--okish logs it, and says so)"
    if NEW in by_verdict:
        slugs = ", ".join(found.dataset.slug for found in by_verdict[NEW])
        yield f"verdict {NEW}: no figures, recorded or published, are known to compare it with on {slugs}"


def _far_off(entries: Iterable[Entry], verdict: str) -> str:
    """Where scores differ from known ones."""
    texts = [
        f"{comparison.measure} on {found.dataset.slug} is {comparison.measured:.4f}, {kind} {comparison.reference:.4f}"
        for found in entries
        for kind, several in (("recorded", found.recorded), ("published", found.published))
        for comparison in several
        if comparison.verdict == verdict
    ]
    more = f"; and {len(texts) - _EXAMPLES:,} more" if len(texts) > _EXAMPLES else ""
    return "; ".join(texts[:_EXAMPLES]) + more


def _write(place: _Place, code: Checkout, handle: str, good: list[Verified], plan: Plan) -> list[str]:
    """Write record and log; what is to be said of it. The record goes first: no log names one that is not there."""
    from filelock import FileLock

    said = []
    lock = plan.setting.workspace.cache / "log.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            text, known = reproductions.text_of(place.log), reproductions.read(place.log)
            entry_of = {one.condition.name: _entry(place, code, handle, one) for one in good}
            new = []
            for one in good:
                name = one.condition.name
                before = next((old for old in known.get(name, []) if old.is_same(entry_of[name])), None)
                said.append(f"{name}: logged already, on {before.date}" if before else f"{name}: {entry_of[name]}")
                new += [] if before else [one]
            if not new:
                return [*said, f"nothing to add to {place.log}"]
            path = place.record(entry_of[new[0].condition.name])
            about = {"handle": handle, "date": path.name[:10], "commit": code.commit, "repository": code.page}
            made = records.make(plan.suite, plan.setting.workspace, plan.setting.hashes, new)
            _write_record(path, {"format": records.FORMAT} | about | made)
            for one in new:
                name = one.condition.name
                text = reproductions.with_added(text, place.suite, name, entry_of[name])
            replace_text(place.log, text)
    except OSError as error:
        raise R2medError(f"cannot write the log: {system_error(error)}") from error
    return [*said, f"written: {place.log}", f"written: {path}"]


def _entry(place: _Place, code: Checkout, handle: str, one: Verified) -> Reproduction:
    date, commit = datetime.date.today().isoformat(), code.commit[: checkout.SHORT]
    record = f"{reproductions.LOGS}/{place.suite}/{date}-{handle}-{commit}.json"
    return Reproduction(handle, date, commit, code.commit_page, one.verdict != OK, record)


def _write_record(path: Path, record: dict) -> None:
    """Write a record; what one of the same name says of other conditions is kept."""
    if path.exists():
        old = records.read(path)
        if old["commit"] == record["commit"] and old["suite"] == record["suite"]:
            record = record | {part: old[part] | record[part] for part in ("models", "versions", "conditions")}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
