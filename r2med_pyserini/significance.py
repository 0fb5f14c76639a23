"""What a difference between two systems is worth, from their scores on the same queries. Statistics are scipy's.

Of the differences per query (A - B) come

- Student's paired t-test, and the paired randomisation test that Smucker, Allan and Carterette recommend beside it ("A
  comparison of statistical significance tests for information retrieval evaluation", CIKM 2007): under the hypothesis
  that the systems are alike, every difference might as well have the other sign. Both are two-sided;
- the bias-corrected and accelerated (BCa) bootstrap interval of the mean difference (Efron, "Better bootstrap
  confidence intervals", Journal of the American Statistical Association 82, 1987), of queries drawn with replacement;
- the standardised effect: mean difference over the standard deviation of the differences (Cohen's d for pairs; Cohen,
  "Statistical power analysis for the behavioral sciences", 1988).

Several tests are adjusted by Holm's method ("A simple sequentially rejective multiple test procedure", Scandinavian
Journal of Statistics 6, 1979), which holds for tests that depend on each other, too.

Everything is a function of the scores: the random numbers have a fixed seed, and start anew for every comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 9_999  # with the observed one 10,000; as scipy doubles the smaller tail, no sampled p is below 0.0002
_SEED = 876
_EQUAL = 5e-10  # what differs by less does so by rounding
_DIGITS = 9  # of sums that are held against each other
_BATCH = 2_000_000  # numbers in memory at a time


@dataclass(frozen=True)
class Difference:
    """Means of A and B over `n` queries, and what their difference A - B is worth; None stands for "not available".

    `low` and `high` bound the interval of CONFIDENCE. `better`, `equal` and `worse` count queries, as seen from A.
    """

    n: int
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    p_t: float | None
    p_randomisation: float | None
    effect: float | None
    better: int
    equal: int
    worse: int


def gain(a: float, b: float) -> float:
    """How much better the score `a` is than `b`; 0 where they differ by rounding only."""
    return a - b if abs(a - b) >= _EQUAL else 0.0


def difference(a: Sequence[float], b: Sequence[float], test: bool = True) -> Difference:
    """Compare the scores of A and B on the same queries, one or more, in the same order.

    Not available are, with one query: interval, tests and effect; with the same difference on all: the effect, and the
    t-test unless that difference is 0 (p = 1). The randomisation test is exact where at most 13 differences are not 0.
    Without `test` there are no tests.
    """
    import numpy as np

    gains = np.array([gain(ours, theirs) for ours, theirs in zip(a, b, strict=True)])
    n, varied = len(gains), bool(np.ptp(gains) >= _EQUAL)
    tested = test and n > 1
    low, high = _interval(gains, varied) if n > 1 else (None, None)
    return Difference(
        n=n,
        a=float(sum(a) / n),
        b=float(sum(b) / n),
        difference=float(gains.mean()),
        low=low,
        high=high,
        p_t=_t_test(gains, varied) if tested else None,
        p_randomisation=_randomisation_test(gains) if tested else None,
        effect=float(gains.mean() / gains.std(ddof=1)) if varied else None,
        better=int((gains > 0).sum()),
        equal=int((gains == 0).sum()),
        worse=int((gains < 0).sum()),
    )


def _t_test(gains: "np.ndarray", varied: bool) -> float | None:
    if not varied:
        return None if gains[0] else 1.0
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(gains, 0).pvalue)


def _randomisation_test(gains: "np.ndarray") -> float:
    """The p-value. A difference of 0 is the same with either sign, so those that are 0 are left out.

    Sums are rounded, so that those of two assignments of signs which are the same are seen to be.
    """
    import numpy as np
    from scipy.stats import permutation_test

    moved = gains[gains != 0]
    if len(moved) < 2:  # scipy wants two; with one, both signs are as far from 0
        return 1.0

    def total(values: "np.ndarray", axis: int) -> "np.ndarray":
        return np.round(np.sum(values, axis=axis), _DIGITS)

    found = permutation_test(
        (moved,),  # of a single sample the signs are permuted
        total,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, _BATCH // len(moved)),
        rng=np.random.default_rng(_SEED),
    )
    return float(found.pvalue)


def _interval(gains: "np.ndarray", varied: bool) -> tuple[float, float]:
    if not varied:  # every sample with replacement has the same mean
        return float(gains.mean()), float(gains.mean())
    import numpy as np
    from scipy.stats import bootstrap

    found = bootstrap(
        (gains,),
        np.mean,
        confidence_level=CONFIDENCE,
        method="BCa",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, _BATCH // len(gains)),
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values, in the order given: of each the least family-wise error rate at which it is rejected.

    A value that is not available (None) stays so, and counts as no test.
    """
    adjusted: list[float | None] = [None] * len(values)
    present = sorted((value, index) for index, value in enumerate(values) if value is not None)
    so_far = 0.0
    for passed, (value, index) in enumerate(present):
        so_far = max(so_far, min(1.0, value * (len(present) - passed)))
        adjusted[index] = so_far
    return adjusted
