"""Statistics against values that were worked by hand, or published, or counted out here without scipy."""

import itertools
import math
import random
import subprocess
import sys
import warnings
from dataclasses import asdict
from fractions import Fraction
from statistics import NormalDist, fmean, stdev

import pytest

from r2med_pyserini.significance import Difference, difference, gain, holm

# Student, "The probable error of a mean", Biometrika 6, 1908: additional hours of sleep, by two drugs
SLEEP = (
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
)
# Fisher, "The Design of Experiments", 1935: Darwin's maize, cross- less self-fertilized, in eighths of an inch
MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def of(gains) -> Difference:
    """The comparison of scores with these differences."""
    return difference(list(gains), [0.0] * len(gains))


def counted_out(gains: list[Fraction]) -> Fraction:
    """The randomisation test's p: the share of all assignments of signs whose sum is as far from 0 as the observed."""
    observed = abs(sum(gains))
    sums = [
        sum(map(Fraction.__mul__, gains, map(Fraction, signs)))
        for signs in itertools.product((1, -1), repeat=len(gains))
    ]
    return Fraction(sum(abs(total) >= observed for total in sums), len(sums))


class TestMeans:
    def test_everything_that_is_only_counted(self):
        found = difference([1, 0.5, 0.25, 0], [0, 0.5, 0.5, 0])
        assert (found.n, found.a, found.b, found.difference) == (4, 0.4375, 0.25, 0.1875)
        assert (found.better, found.equal, found.worse) == (1, 2, 1)

    def test_the_effect_is_mean_over_standard_deviation(self):
        assert of([0.1, 0.2, 0.3]).effect == pytest.approx(2)  # mean 0.2, standard deviation 0.1

    def test_rounding_makes_no_difference(self):
        assert 0.1 + 0.2 != 0.3 and gain(0.1 + 0.2, 0.3) == 0
        found = difference([0.1 + 0.2, 0.5], [0.3, 0.5])
        assert (found.difference, found.better, found.equal) == (0, 0, 2)

    @pytest.mark.parametrize("value", [1e-6, -1e-6])
    def test_a_small_difference_is_one(self, value):
        found = of([value, 0])
        assert (found.better, found.worse) == ((1, 0) if value > 0 else (0, 1))

    def test_no_zero_is_negative(self):
        found = difference([0.3, 0.3], [0.1 + 0.2, 0.3])
        values = gain(0.3, 0.1 + 0.2), found.difference, found.low, found.high
        assert [str(value) for value in values] == ["0.0"] * 4


class TestTTest:
    def test_two_differences_by_hand(self):
        """With one degree of freedom t is Cauchy's: mean 2, standard deviation sqrt(2), t = 2."""
        assert of([1, 3]).p_t == pytest.approx(1 - 2 / math.pi * math.atan(2))

    def test_three_differences_by_hand(self):
        """With two degrees of freedom p = 1 - t / sqrt(2 + t^2); here t = 2 sqrt(3)."""
        assert of([1, 2, 3]).p_t == pytest.approx(1 - math.sqrt(12 / 14))

    def test_what_differs_by_rounding_only_does_not_count(self):
        noise = 4e-10
        assert difference([0.5 + noise, 0.5, 0.8], [0.5, 0.25, 0]).p_t == of([0, 0.25, 0.8]).p_t

    def test_students_sleep(self):
        assert difference(*SLEEP).p_t == pytest.approx(0.002833, abs=5e-7)  # as the help of R's t.test shows it

    def test_fishers_maize(self):
        assert of(MAIZE).p_t == pytest.approx(0.0497, abs=5e-5)  # Fisher: t = 2.148 with 14 degrees of freedom


class TestRandomisationTest:
    def test_four_differences_by_hand(self):
        """Of 16 sums of +-4 +-3 +-2 +-1 (tenths), 10, 8 and their opposites are as far from 0 as 4 + 3 + 2 - 1 = 8."""
        assert of([0.4, 0.3, 0.2, -0.1]).p_randomisation == 4 / 16

    @pytest.mark.parametrize("seed", range(25))
    def test_it_is_exact_for_few_differences(self, seed):
        chance = random.Random(seed)
        tenths = [chance.randint(-4, 4) for _ in range(chance.randint(2, 9))]
        expected = float(counted_out([Fraction(value) for value in tenths]))
        assert of([value / 10 for value in tenths]).p_randomisation == pytest.approx(expected, abs=1e-12)
        thirds = difference([(value + 4) / 3 for value in tenths], [4 / 3] * len(tenths))
        assert thirds.p_randomisation == pytest.approx(expected, abs=1e-12)

    def test_differences_of_0_leave_it_exact(self):
        gains = [0.5, 0.25, -0.125, 0.25]
        assert of(gains + [0] * 500).p_randomisation == of(gains).p_randomisation == 4 / 16

    def test_all_signs_alike(self):
        assert difference(*SLEEP).p_randomisation == pytest.approx(2 / 2**9)  # one of the ten differences is 0

    def test_fishers_maize(self):
        """Fisher counted 863 of 32,768 sums as large as the observed; two-sided twice as many. Here they are drawn."""
        assert of(MAIZE).p_randomisation == pytest.approx(2 * 863 / 32768, abs=0.01)

    def test_a_clear_difference_of_many_queries(self):
        assert of([0.1 + number / 1000 for number in range(100)]).p_randomisation == 0.0002


class TestInterval:
    def test_two_differences(self):
        """Means of two drawn from 0 and 1 are 0, 1/2, 1 with chances 1/4, 1/2, 1/4: so the interval is all of it."""
        assert (of([0, 1]).low, of([0, 1]).high) == (0, 1)

    @pytest.mark.parametrize("gains", [[0.01, 0.07, 0.12, 0.29, 0.5], [-0.4, -0.11, 0.03, 0.05, 0.1]])
    def test_five_differences_counted_out(self, gains):
        """The formulas of Efron (1987) over all 3,125 samples, instead of over samples that are drawn."""
        n, mean, normal = len(gains), fmean(gains), NormalDist()
        means = sorted(fmean(drawn) for drawn in itertools.product(gains, repeat=n))
        below = sum(value < mean - 1e-12 for value in means) + sum(abs(value - mean) < 1e-12 for value in means) / 2
        bias = normal.inv_cdf(below / len(means))
        deviations = [value - mean for value in gains]
        skew = sum(d**3 for d in deviations) / (6 * sum(d**2 for d in deviations) ** 1.5)
        for chance, bound in ((0.025, of(gains).low), (0.975, of(gains).high)):
            moved = bias + normal.inv_cdf(chance)
            place = normal.cdf(bias + moved / (1 - skew * moved)) * len(means)
            lowest, highest = max(0, round(place) - 20), min(len(means) - 1, round(place) + 20)
            assert means[lowest] - 1e-9 <= bound <= means[highest] + 1e-9

    def test_many_differences_are_nearly_normal(self):
        chance = random.Random(1)
        gains = [chance.gauss(0.02, 0.1) for _ in range(800)]
        mean, half = fmean(gains), 1.96 * stdev(gains) / math.sqrt(800)
        found = of(gains)
        assert (found.low, found.high) == (pytest.approx(mean - half, abs=5e-4), pytest.approx(mean + half, abs=5e-4))


class TestDegenerate:
    @pytest.mark.parametrize("n", [2, 14, 876])
    def test_no_difference_at_all(self, n):
        scores = [number / n for number in range(n)]
        found = difference(scores, scores)
        assert (found.difference, found.low, found.high, found.p_t, found.p_randomisation) == (0, 0, 0, 1, 1)
        assert (found.effect, found.equal) == (None, n)

    @pytest.mark.parametrize("value", [0.0, 0.25])
    def test_one_query_tells_nothing_about_chance(self, value):
        found = of([value])
        assert (found.n, found.difference) == (1, value)
        assert (found.low, found.high, found.p_t, found.p_randomisation, found.effect) == (None,) * 5

    def test_the_same_difference_on_all(self):
        found = of([0.25] * 3)
        assert (found.low, found.high, found.p_t, found.effect) == (0.25, 0.25, None, None)
        assert found.p_randomisation == 2 / 8

    def test_one_query_of_many_differs(self):
        found = of([0.5] + [0] * 99)
        assert found.p_randomisation == 1 and found.p_t == pytest.approx(0.3197, abs=5e-4)
        assert found.low == 0 < found.difference < found.high

    @pytest.mark.parametrize("seed", range(40))
    def test_what_is_available_is_finite_and_in_its_bounds(self, seed):
        chance = random.Random(seed)
        n = chance.randint(2, 30)
        a = [chance.choice((0, 0, 1, chance.random())) for _ in range(n)]
        b = [value if chance.random() < seed / 40 else chance.choice((0, 1, chance.random())) for value in a]
        found = difference(a, b)
        assert all(math.isfinite(value) for value in asdict(found).values() if value is not None)
        assert found.low <= found.difference <= found.high
        assert all(value is None or 0 <= value <= 1 for value in (found.p_t, found.p_randomisation))

    def test_without_test_there_are_no_tests(self):
        tested, described = of([0.1, 0.2, 0.4]), difference([0.1, 0.2, 0.4], [0, 0, 0], test=False)
        assert asdict(described) == asdict(tested) | {"p_t": None, "p_randomisation": None}

    def test_scores_of_other_queries_are_no_pairs(self):
        with pytest.raises(ValueError):
            difference([0.1, 0.2], [0.1])


@pytest.mark.parametrize("n", [3, 12, 50])
def test_changing_sides_changes_signs_only(n):
    chance = random.Random(n)
    a, b = ([chance.random() for _ in range(n)] for _ in "ab")
    one, other = difference(a, b), difference(b, a)
    assert (one.p_t, one.p_randomisation) == (pytest.approx(other.p_t), other.p_randomisation)
    assert (one.a, one.b, one.difference, one.effect) == (other.b, other.a, -other.difference, -other.effect)
    assert (one.better, one.equal, one.worse) == (other.worse, other.equal, other.better)
    assert (one.low, one.high) == (pytest.approx(-other.high, abs=1e-8), pytest.approx(-other.low, abs=1e-8))


def test_it_is_a_function_of_the_scores():
    program = (
        "import random, sys, numpy; numpy.random.seed(int(sys.argv[1]))\n"
        "from r2med_pyserini.significance import difference\n"
        "numbers = random.Random(7)\n"
        "for n in range(2, 2 + int(sys.argv[1])): difference([1.0] * n, [numbers.random() for _ in range(n)])\n"
        "numbers = random.Random(8)\n"
        "print(difference([numbers.random() for _ in range(60)], [numbers.random() for _ in range(60)]))\n"
    )
    commands = [[sys.executable, "-c", program, count] for count in "14"]
    one, other = (subprocess.run(command, capture_output=True, check=True).stdout for command in commands)
    assert one == other and one.startswith(b"Difference(n=60")


class TestHolm:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([], []),
            ([0.03], [0.03]),
            ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # 4 x .005; 3 x .01; 2 x .03; .04 is not below it
            ([0.5, 0.6, 0.7], [1, 1, 1]),
            ([0.02, 0.02], [0.04, 0.04]),
            ([None, 0.02, None, 0.01], [None, 0.02, None, 0.02]),
            ([None], [None]),
        ],
    )
    def test_by_hand(self, values, expected):
        assert holm(values) == [value if value is None else pytest.approx(value) for value in expected]

    def test_it_lies_between_the_value_and_bonferronis(self):
        chance = random.Random(3)
        values = [chance.random() ** 3 for _ in range(20)]
        adjusted = holm(values)
        assert all(p <= q <= min(1, 20 * p) for p, q in zip(values, adjusted, strict=True))
        in_order = [q for _, q in sorted(zip(values, adjusted, strict=True))]
        assert in_order == sorted(adjusted)
