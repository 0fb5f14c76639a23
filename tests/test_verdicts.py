import math

import pytest

from r2med_pyserini.verdicts import FAIL, MISSING, NEW, OK, OKISH, against_published, against_recorded, passes, worst


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (0.5, OK),
        (0.50004, OK),
        (0.49996, OK),
        (0.50006, OKISH),
        (0.4999, OKISH),
        (0.5005, OKISH),
        (0.4995, OKISH),
        (0.50051, FAIL),
        (0.49949, FAIL),
        (0.9, FAIL),
        (0.0, FAIL),
        (math.nan, FAIL),
    ],
)
def test_recorded_figures_are_exact_to_four_decimals(measured, verdict):
    assert against_recorded(measured, 0.5) == verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (0.3, OK),
        (0.302, OK),
        (0.298, OK),
        (0.30201, OKISH),
        (0.29799, OKISH),
        (0.31, OKISH),
        (0.29, OKISH),
        (0.31001, FAIL),
        (0.28999, FAIL),
        (math.nan, FAIL),
    ],
)
def test_published_figures_have_a_tolerance(measured, verdict):
    assert against_published(measured, 0.3, tolerance=0.002) == verdict


@pytest.mark.parametrize("hundredths", range(1, 100))
def test_a_difference_of_exactly_the_tolerance_is_within_it_whatever_the_binary_fractions(hundredths):
    published = hundredths / 100
    for sign in (1, -1):
        assert against_published(published + sign * 0.0002, published, 0.0002) == OK
        assert against_published(published + sign * 0.001, published, 0.0002) == OKISH
        assert against_recorded(published + sign * 0.0005, published) == OKISH


def test_without_tolerance_only_the_same_figure_will_do():
    assert [against_published(measured, 0.25, 0.0) for measured in (0.25, 0.2501)] == [OK, FAIL]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], NEW),
        ([OK], OK),
        ([OK, OK], OK),
        ([OK, NEW], NEW),
        ([NEW, OKISH], OKISH),
        ([OKISH, MISSING, OK], MISSING),
        ([MISSING, FAIL, OK], FAIL),
    ],
)
def test_the_worst_of_several_wins(verdicts, expected):
    assert worst(iter(verdicts)) == worst(reversed(verdicts)) == expected


@pytest.mark.parametrize(("verdict", "good"), [(OK, True), (OKISH, True), (NEW, True), (MISSING, False), (FAIL, False)])
def test_only_failures_and_missing_scores_stop_a_command(verdict, good):
    assert passes(verdict) is good
