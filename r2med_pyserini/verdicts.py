"""How a measured score is held against a reference: the rules, and the worst verdict of several.

`OK`      equal to four decimals (recorded figures), or within the condition's tolerance (published ones)
`OKish`   within 0.0005 (recorded), or within five tolerances (published)
`FAIL`    farther off, above as well as below
`NEW`     nothing to compare with
`MISSING` no score, since the run or a dataset is absent
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

OK, OKISH, NEW, MISSING, FAIL = "OK", "OKish", "NEW", "MISSING", "FAIL"
_SEVERITY = (OK, NEW, OKISH, MISSING, FAIL)
NEARLY_RECORDED = 0.0005
_ROUNDING = 1e-9  # so that a difference of exactly one tolerance is within it, in binary too


def against_recorded(measured: float, recorded: float) -> str:
    """The verdict for a figure that we recorded: exact to four decimals."""
    if f"{measured:.4f}" == f"{recorded:.4f}":
        return OK
    return OKISH if abs(measured - recorded) <= NEARLY_RECORDED + _ROUNDING else FAIL


def against_published(measured: float, published: float, tolerance: float) -> str:
    """The verdict for a figure that somebody published."""
    difference = abs(measured - published) - _ROUNDING
    if difference <= tolerance:
        return OK
    return OKISH if difference <= 5 * tolerance else FAIL


@dataclass(frozen=True)
class Comparison:
    """One measured score held against one known figure."""

    measure: str
    measured: float
    reference: float
    verdict: str

    @property
    def difference(self) -> float:
        """Ours minus theirs."""
        return self.measured - self.reference


def compare(
    measured: Mapping[str, float], references: Mapping[str, float], rule: Callable[[float, float], str]
) -> tuple[Comparison, ...]:
    """Hold every measure that both have against its figure, in the order of `measured`."""
    return tuple(
        Comparison(measure, value, references[measure], rule(value, references[measure]))
        for measure, value in measured.items()
        if measure in references
    )


def worst(verdicts: Iterable[str]) -> str:
    """The most serious of several verdicts; NEW if there is none."""
    return max(verdicts, key=_SEVERITY.index, default=NEW)


def passes(verdict: str) -> bool:
    """Whether a verdict lets a command end with exit status 0."""
    return verdict not in (FAIL, MISSING)
