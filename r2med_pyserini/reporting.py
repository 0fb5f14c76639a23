"""`r2med report` in every form: tables, a page, a table for a paper; printed, or written to a file."""

from pathlib import Path

from .artifacts import Artifact, replace_text
from .errors import R2medError, UsageError
from .evaluation import Scores
from .experiments import Experiment
from .outcome import Outcome
from .plan import Cell
from .report import table
from .report.grid import CSV, MARKDOWN, TEXT
from .report.table import JSON
from .verdicts import passes

HTML, LATEX = "html", "latex"
FORMS = (*table.FORMATS, HTML, LATEX)
SHORT = {"md": MARKDOWN}  # other names of forms
_ENDINGS = {
    TEXT: (".txt",), MARKDOWN: (".md", ".markdown"), CSV: (".csv",), JSON: (".json",),
    HTML: (".html", ".htm"), LATEX: (".tex",),
}  # fmt: skip


def report(
    experiment: Experiment,
    measure: str,
    form: str,
    only_present: bool,
    baseline: str | None = None,
    output: Path | None = None,
) -> Outcome:
    """The scores of current runs in one of FORMS or SHORT, or where they have been written. Runs nothing.

    A page and a table for a paper hold every condition against `baseline` (see `results.gather`). Raises as
    `Experiment.current` and `results.gather` do; UsageError for a baseline in another form, and for an output whose
    name does not fit the form, or which is a run or its scores; R2medError if the output cannot be written.
    """
    form = SHORT.get(form, form)
    if baseline is not None and form not in (HTML, LATEX):
        raise UsageError(
            f"--baseline is for --format {HTML} and {LATEX}; `r2med compare` tests for significance as text"
        )
    if output is not None:
        _check_output(output, form)
    scored, rows = experiment.current(measure, only_present)
    if form in (HTML, LATEX):
        text = _rendered(experiment, scored, rows, measure, form, baseline)
    else:
        text = table.report(rows, experiment.plan.suite, measure, form)
    good = all(passes(row.verdict) for row in rows)
    if output is None:
        return Outcome(text.rstrip("\n"), good)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_text(output, f"{text.rstrip('\n')}\n")
    except OSError as error:
        raise R2medError(f"cannot write {output}: {error.strerror or error}") from error
    return Outcome(str(output), good)


def _check_output(output: Path, form: str) -> None:
    if output.suffix.lower() not in _ENDINGS[form]:
        wanted = " or ".join(_ENDINGS[form])
        raise UsageError(f"--output {output}: a name that ends in {wanted} is wanted for --format {form}")
    if Artifact(output, folder=False).made_by() is not None:
        raise UsageError(f"--output {output}: is a run, or its scores, and would be lost: choose another name")


def _rendered(
    experiment: Experiment,
    scored: dict[Cell, Scores],
    rows: list[table.Row],
    measure: str,
    form: str,
    baseline: str | None,
) -> str:
    from . import results  # what the other forms need not wait for
    from .report import latex, results_html

    found = results.gather(experiment.plan, scored, rows, measure, baseline, recall=form == HTML)
    return results_html.render_page(found) if form == HTML else latex.render(found)
