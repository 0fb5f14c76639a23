import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_pyserini.conditions import parse
from r2med_pyserini.evaluation import Scores
from r2med_pyserini.report import table
from r2med_pyserini.suites import Dataset, Suite

TEXT = "title: t\nindex: {kind: lucene}\nsearch: {model: bm25}\n"
DATA = "0a1b2c"  # the digest of every dataset's raw files


def recording(name, figures):
    """A condition with figures recorded by dataset and measure."""
    known = json.dumps({"s": {"with": {}, "data": dict.fromkeys(figures, DATA), "scores": figures}})
    return parse(f"{TEXT}recorded: {known}\n", Path(f"{name}.yaml"))


def condition(name="bm25", **recorded):
    """A condition with recorded figures of nDCG@10 by dataset."""
    return recording(name, {dataset: {"nDCG@10": figure} for dataset, figure in recorded.items()})


def scores(ndcg, mrr=0.5, judged=4, evaluated=4):
    return Scores(judged, evaluated, {"nDCG@10": ndcg, "MRR": mrr}, {})


@pytest.fixture
def suite(tmp_path) -> Suite:
    datasets = tuple(Dataset(slug, slug.title(), slug[:3], tmp_path / slug) for slug in ("alpha", "beta"))
    return Suite("s", "two datasets", datasets, "s")


@pytest.fixture
def rows(suite):
    """Rows of a table: for each condition its scores on the two datasets, or on the first few."""

    def make(cells):
        return table.rows(
            table.entry(of, suite, dataset, found, DATA)
            for of, several in cells
            for dataset, found in zip(suite.datasets, several, strict=False)
        )

    return make


@pytest.fixture
def complete(rows):
    return rows([(condition(), (scores(0.25, 0.1), scores(0.75, 0.2))), (condition("qld"), (scores(1.0), scores(0)))])


def cells_of(text):
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


class TestVerdicts:
    @pytest.mark.parametrize(
        ("measured", "verdict"),
        [(0.25, "OK"), (0.25004, "OK"), (0.2502, "OKish"), (0.26, "FAIL"), (0.24, "FAIL")],
    )
    def test_an_entry_is_held_against_what_is_recorded(self, suite, measured, verdict):
        entry = table.entry(condition(alpha=0.25), suite, suite.datasets[0], scores(measured), DATA)
        assert entry.verdict == verdict

    def test_without_recorded_figures_an_entry_is_new(self, suite):
        assert table.entry(condition(alpha=0.25), suite, suite.datasets[1], scores(0.25), DATA).verdict == "NEW"

    def test_figures_of_another_suite_do_not_count(self, suite):
        other = Suite("t", "t", suite.datasets, "t")
        assert table.entry(condition(alpha=0.25), other, suite.datasets[0], scores(0.9), DATA).verdict == "NEW"

    def test_the_worst_measure_counts(self, suite):
        of = recording("bm25", {"alpha": {"nDCG@10": 0.25, "MRR": 0.9}})
        assert table.entry(of, suite, suite.datasets[0], scores(0.25, mrr=0.5), DATA).verdict == "FAIL"

    @pytest.mark.parametrize("data", ["0a1b2d", None])
    @pytest.mark.parametrize("measured", [0.25, 0.9])
    def test_figures_recorded_for_other_data_do_not_count(self, suite, data, measured):
        found = table.entry(condition(alpha=0.25), suite, suite.datasets[0], scores(measured), data)
        assert (found.verdict, found.recorded) == ("NEW", ())

    def test_no_scores_are_missing(self, suite):
        assert table.entry(condition(alpha=0.25), suite, suite.datasets[0], None, DATA).verdict == "MISSING"

    @pytest.mark.parametrize(
        ("found", "verdict"),
        [
            ((0.25, 0.5), "OK"),
            ((0.25, 0.5002), "OKish"),
            ((0.25, None), "MISSING"),
            ((0.9, None), "FAIL"),
        ],
    )
    def test_a_row_has_the_worst_verdict_of_its_entries(self, rows, found, verdict):
        several = [figure if figure is None else scores(figure) for figure in found]
        assert rows([(condition(alpha=0.25, beta=0.5), several)])[0].verdict == verdict


class TestMean:
    def test_it_is_unweighted(self, rows, suite):
        (row,) = rows([(condition(), (scores(0.25, judged=1), scores(0.75, judged=99)))])
        assert row.mean("nDCG@10", suite) == 0.5

    @pytest.mark.parametrize("found", [(scores(0.25), None), (None, None), (scores(0.25),), (None,)])
    def test_there_is_none_unless_the_whole_suite_is_there(self, rows, suite, found):
        (row,) = rows([(condition(), found)])
        assert row.mean("nDCG@10", suite) is None

    @pytest.mark.parametrize("form", ["text", "markdown", "csv"])
    def test_an_incomplete_row_shows_no_mean(self, rows, suite, form):
        text = table.render(rows([(condition(), (scores(0.25), None))]), suite, "nDCG@10", form)
        assert text.count("0.2500") == 1


class TestRows:
    def test_conditions_keep_the_order_of_their_first_entry(self, suite):
        a, b = condition("a"), condition("b")
        entries = [table.entry(of, suite, dataset, None, DATA) for dataset in suite.datasets for of in (b, a)]
        found = table.rows(entries)
        assert [row.condition.name for row in found] == ["b", "a"]
        assert [[entry.dataset.slug for entry in row.entries] for row in found] == [["alpha", "beta"]] * 2


class TestForms:
    def test_text_has_short_names(self, complete, suite):
        lines = cells_of(table.render(complete, suite, "nDCG@10", "text"))
        assert lines[0] == ["condition", "alp", "bet", "mean", "verdict"]
        assert lines[2:] == [
            ["bm25", "0.2500", "0.7500", "0.5000", "NEW"],
            ["qld", "1.0000", "0.0000", "0.5000", "NEW"],
        ]

    def test_text_marks_what_is_off(self, rows, suite):
        of = condition(alpha=0.25, beta=0.5)
        found = rows([(of, (scores(0.26), scores(0.5002))), (of, ())])
        assert cells_of(table.render(found, suite, "nDCG@10", "text"))[2] == [
            "bm25", "0.2600!", "0.5002~", "0.3801", "FAIL",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("measure", "figure", "said"), [("nDCG@10", "0.2500", ""), ("MRR", "0.5000!", "; ! marks FAIL")]
    )
    def test_marks_stand_at_the_figure_of_the_measure_that_is_off(self, suite, measure, figure, said):
        of = recording("bm25", {"alpha": {"nDCG@10": 0.25, "MRR": 0.9}})
        entries = [table.entry(of, suite, suite.datasets[0], scores(0.25, mrr=0.5), DATA)]
        line = cells_of(table.render(table.rows(entries), suite, measure, "text"))[2]
        assert line == ["bm25", figure, "FAIL"]
        assert table.legend(entries, measure) == said

    def test_a_measure_that_a_run_does_not_tell_is_a_dash(self, suite, rows):
        shallow = Scores(4, 4, {"nDCG@10": 0.25}, {})
        found = rows([(condition("a"), (shallow, shallow)), (condition("b"), (scores(0.25), scores(0.5)))])
        lines = cells_of(table.render(found, suite, "MRR", "text"))
        assert lines[2:] == [["a", "-", "-", "NEW"], ["b", "0.5000", "0.5000", "0.5000", "NEW"]]
        assert table.render(found, suite, "MRR", "csv").splitlines()[1] == "a,,,,NEW"

    @pytest.mark.parametrize("form", ["markdown", "csv"])
    def test_other_forms_have_no_marks(self, rows, suite, form):
        found = rows([(condition(alpha=0.25, beta=0.5), (scores(0.26), scores(0.5002)))])
        text = table.render(found, suite, "nDCG@10", form)
        assert "0.2600" in text and "!" not in text and "~" not in text

    def test_text_shows_a_dash_for_missing_scores(self, rows, suite):
        found = rows([(condition(), (None, scores(0.5)))])
        assert cells_of(table.render(found, suite, "nDCG@10", "text"))[2] == ["bm25", "-", "0.5000", "MISSING"]

    def test_markdown_is_a_table_with_full_slugs(self, complete, suite):
        lines = table.render(complete, suite, "nDCG@10", "markdown").splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        assert cells[0] == ["condition", "alpha", "beta", "mean", "verdict"]
        assert all(set(cell) <= set("-:") for cell in cells[1])
        assert cells[2] == ["bm25", "0.2500", "0.7500", "0.5000", "NEW"]

    def test_csv_reads_back(self, rows, suite):
        found = rows([(condition(), (scores(0.25), scores(0.75))), (condition("qld"), (None, scores(1)))])
        assert list(csv.reader(io.StringIO(table.render(found, suite, "nDCG@10", "csv")))) == [
            ["condition", "alpha", "beta", "mean", "verdict"],
            ["bm25", "0.2500", "0.7500", "0.5000", "NEW"],
            ["qld", "", "1.0000", "", "MISSING"],
        ]

    def test_json_has_every_measure_at_full_precision(self, rows, suite):
        found = rows([(condition(), (scores(1 / 3, 0.1, judged=4, evaluated=3), scores(0.75, 0.2)))])
        (plain,) = json.loads(table.render(found, suite, "nDCG@10", "json"))
        assert plain["condition"] == "bm25" and plain["suite"] == "s" and plain["sample"] is False
        assert plain["mean"] == {"nDCG@10": (1 / 3 + 0.75) / 2, "MRR": (0.1 + 0.2) / 2}
        alpha = plain["datasets"]["alpha"]
        assert alpha["scores"] == {"nDCG@10": 1 / 3, "MRR": 0.1}
        assert (alpha["judged"], alpha["evaluated"], alpha["verdict"]) == (4, 3, "NEW")

    def test_json_says_what_is_missing(self, rows, suite):
        (plain,) = json.loads(table.render(rows([(condition(), (scores(1), None))]), suite, "nDCG@10", "json"))
        assert plain["mean"] == {"nDCG@10": None, "MRR": None}
        assert plain["verdict"] == plain["datasets"]["beta"]["verdict"] == "MISSING"
        assert plain["datasets"]["beta"]["scores"] is None

    @pytest.mark.parametrize("form", ["text", "markdown", "csv"])
    def test_another_measure_can_be_shown(self, complete, suite, form):
        text = table.render(complete, suite, "MRR", form)
        assert "0.1000" in text and "0.2500" not in text

    @pytest.mark.parametrize("form", table.FORMATS)
    def test_nothing_but_missing_scores_can_be_shown(self, rows, suite, form):
        assert "MISSING" in table.render(rows([(condition(), (None, None))]), suite, "nDCG@10", form)


class TestReport:
    @pytest.mark.parametrize("form", ["text", "markdown"])
    def test_people_are_told_more_than_the_table(self, complete, suite, form):
        heading, shown, counts = table.report(complete, suite, "nDCG@10", form).split("\n\n")
        assert heading == "nDCG@10 of suite s"
        assert shown == table.render(complete, suite, "nDCG@10", form)
        assert counts == "8 of 8 judged queries evaluated"

    @pytest.mark.parametrize("form", ["csv", "json"])
    def test_programs_are_not(self, complete, suite, form):
        assert table.report(complete, suite, "nDCG@10", form) == table.render(complete, suite, "nDCG@10", form)

    def test_marks_are_explained(self, rows, suite):
        found = rows([(condition(alpha=0.25, beta=0.5), (scores(0.26), scores(0.5002)))])
        told = table.report(found, suite, "nDCG@10", "text").split("\n\n")[2]
        assert told == "8 of 8 judged queries evaluated; ! marks FAIL; ~ marks OKish"

    @pytest.mark.parametrize("sample", [False, True])
    def test_a_sample_is_not_taken_for_the_benchmark(self, complete, suite, sample):
        text = table.report(complete, replace(suite, sample=sample), "nDCG@10", "text")
        assert ("NOT R2MED's scores" in text) is sample


class TestEvaluated:
    def entries(self, suite, cells):
        return [
            table.entry(condition(name), suite, dataset, found, DATA)
            for name, several in cells.items()
            for dataset, found in zip(suite.datasets, several, strict=True)
        ]

    def test_one_figure_if_all_conditions_agree(self, suite):
        several = (scores(1, judged=1000, evaluated=999), scores(1, judged=500, evaluated=500))
        text = table.evaluated(self.entries(suite, {"a": several, "b": several}))
        assert text == "1,499 of 1,500 judged queries evaluated"

    def test_a_line_each_if_they_do_not(self, suite):
        whole, half = (scores(1), scores(1)), (scores(1, evaluated=2), None)
        text = table.evaluated(self.entries(suite, {"a": whole, "b": half, "c": whole}))
        assert text.splitlines() == ["8 of 8 judged queries evaluated: a, c", "2 of 4 judged queries evaluated: b"]
