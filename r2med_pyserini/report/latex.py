"""Results as a LaTeX table for a paper: booktabs, the best in bold, the second underlined, significance as daggers."""

import re

from ..results import LEVEL, Results
from .comparison import printable
from .table import Row

_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"{\char34}", "`": r"{\char96}",
    **{letter: f"\\{letter}" for letter in "{}$&#%_"},
}  # fmt: skip
BETTER, WORSE = r"\dagger", r"\ddagger"
_HUNDRED = 100  # papers on R2MED show scores in percent, to two decimals
_NARROW = 6  # columns of figures that fit into one column of a paper
_SAMPLE = r"Scores on an embedded sample for trying the tool, \emph{not} on R2MED: do not report them as such."


def escape(text: str) -> str:
    """A text such that LaTeX prints it as it stands, on one line: no letter is a command, no hyphens become a dash.

    Control characters become blanks. Letters beyond ASCII stay: LaTeX reads UTF-8, and prints what its fonts have.
    """
    escaped = "".join(_SPECIAL.get(letter, letter) for letter in printable(text))
    return re.sub(r"([-'])(?=\1)", r"\1{}", escaped)


def render(results: Results) -> str:
    """The table: a row a condition, a column a dataset, and the mean where there is one."""
    slugs: list[str | None] = [dataset.slug for dataset in results.datasets]
    columns = [*slugs, *([None] if _means(results) else [])]
    cells = {column: _column(results, column) for column in columns}
    body = [
        " & ".join([escape(row.condition.name), *(cells[column][place] for column in columns)]) + r" \\"
        for place, row in enumerate(results.rows)
    ]
    headings = [escape(dataset.short) for dataset in results.datasets] + (["Mean"] if None in columns else [])
    environment = "table" if len(columns) <= _NARROW else "table*"
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            rf"\begin{{{environment}}}[t]",
            r"\centering\small",
            rf"\caption{{{_caption(results)}}}",
            rf"\label{{tab:{_label(results)}}}",
            r"\setlength{\tabcolsep}{4.5pt}",
            rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
            r"\toprule",
            " & ".join(["Condition", *headings]) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\end{{{environment}}}",
        ]
    )


def _value(results: Results, row: Row, slug: str | None) -> float | None:
    """The score of a condition on a dataset, or its mean (None)."""
    if slug is None:
        return row.mean(results.measure, results.suite)
    found = next((entry.scores for entry in row.entries if entry.dataset.slug == slug), None)
    return found.mean.get(results.measure) if found else None


def _column(results: Results, slug: str | None) -> list[str]:
    """The cells of a column. What is best, or second, is so as it is printed: what looks alike is marked alike."""
    values = [_value(results, row, slug) for row in results.rows]
    rounded = [value if value is None else round(value, 4) for value in values]  # as in the other forms
    printed = ["--" if value is None else f"{value * _HUNDRED:.2f}" for value in rounded]
    ranked = sorted({float(text) for text in printed if text != "--"}, reverse=True)
    best, second = (*ranked, None, None)[:2] if len(results.rows) > 1 else (None, None)
    cells = []
    for row, text in zip(results.rows, printed, strict=True):
        number = None if text == "--" else float(text)
        if number is not None and number == best:
            text = rf"\textbf{{{text}}}"
        elif number is not None and number == second:
            text = rf"\underline{{{text}}}"
        contrast = results.contrast(row.condition.name, slug)
        mark = {1: BETTER, -1: WORSE}.get(contrast.sign if contrast else 0)
        cells.append(text + (rf"\makebox[0pt][l]{{$^{{{mark}}}$}}" if mark else ""))  # hangs: figures stay aligned
    return cells


def _caption(results: Results) -> str:
    suite = results.suite.name.upper() if results.suite.name == "r2med" else results.suite.name
    scores = [entry.scores for row in results.rows for entry in row.entries if entry.scores]
    lacking = sum(one.judged - one.evaluated for one in scores)
    sentences = [rf"{escape(results.measure)} $\times$ 100 on {escape(suite)}."]
    if len(results.rows) > 1:
        sentences.append(r"Best in bold, second best \underline{underlined}.")
    if results.contrasts:
        sentences.append(
            rf"$^{{{BETTER}}}$ ($^{{{WORSE}}}$): significantly better (worse) than {escape(results.baseline)}, by a"
            rf" two-sided paired randomisation test over queries ($p < {LEVEL}$, adjusted by Holm's method over the"
            r" conditions)."
        )
    if _means(results):
        sentences.append("Mean: every dataset counts alike.")
    if lacking:
        sentences.append("Queries without hits count 0.")
    return " ".join([*sentences, *([_SAMPLE] if results.suite.sample else [])])


def _means(results: Results) -> bool:
    """Whether there is a mean to show."""
    return len(results.suite.datasets) > 1 and any(_value(results, row, None) is not None for row in results.rows)


def _label(results: Results) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{results.suite.name}-{results.measure}".lower()).strip("-")
