import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from r2med_pyserini.conditions import load
from r2med_pyserini.paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE
from r2med_pyserini.report import plots, results_html
from r2med_pyserini.report.results_html import EXAMPLES, render_page
from r2med_pyserini.report.table import Row
from r2med_pyserini.verdicts import Comparison

from .conftest import write_rows
from .planting import gathered, own_condition, planted, run_of

SCRIPT = "<script>alert('x')</script>"
ODD = f'{SCRIPT} \\input{{x}} %_&#" {{{{7*7}}}} $a$'
QUERIES = 6
VOID = {"meta", "link", "br", "input", "path", "use", "rect"}


class Page(HTMLParser):
    """What a page holds: elements in order with their attributes, tables by caption, all text outside scripts."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._inside: list[str] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._inside.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._inside.pop() == tag, f"</{tag}>"
        if tag == "table":
            assert self._caption not in self.tables, self._caption
            self.tables[self._caption] = [[" ".join(cell.split()) for cell in row] for row in self._rows]

    def handle_data(self, data):
        if not {"script", "style"} & set(self._inside):
            self.text += data
        if "caption" in self._inside:
            self._caption += data
        elif self._rows and {"td", "th"} & set(self._inside):
            self._rows[-1][-1] += data

    def of(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.elements if name == tag]


def page(results) -> Page:
    return Page(render_page(results))


def ranked(order: list[int]) -> str:
    """A run in which query qN has its document dN at the rank that `order` says."""
    return run_of({f"q{n}": [*(f"x{place}" for place in range(1, rank)), f"d{n}"] for n, rank in enumerate(order, 1)})


def write_dataset(suite: Path, slug: str, queries: int = QUERIES, texts=None, systems=()) -> None:
    """A dataset of a user, in which document dN is relevant for query qN."""
    names = range(1, queries + 1)
    rows = [{"id": f"q{n}", "text": (texts or {}).get(n, f"query {n}")} for n in names]
    for row, system in zip(rows, systems, strict=False):
        row["body_system"] = system
    (suite / slug).mkdir(parents=True)
    write_rows(suite / slug / CORPUS_FILE, [{"id": f"d{n}", "text": f"text {n}"} for n in names])
    write_rows(suite / slug / QUERY_FILE, rows)
    write_rows(suite / slug / QRELS_FILE, [{"q_id": f"q{n}", "p_id": f"d{n}", "score": 1} for n in names])


@pytest.fixture
def dataset(tmp_path, workspace):
    """Writes a dataset of a user, and returns its suite."""

    def write(slug="one", queries=QUERIES):
        write_dataset(tmp_path / "suite", slug, queries)
        return tmp_path / "suite"

    return write


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The results of bm25 and of a condition of a user on two datasets."""
    folder = tmp_path_factory.mktemp("results")
    write_dataset(folder / "raw", "one", texts={2: ODD}, systems=["Nervous", ODD, "Nervous"])
    write_dataset(folder / "raw", "two", 2)
    known = [load("bm25"), own_condition(folder, "own", json.dumps(ODD))]
    runs = {
        "bm25": {"one": ranked([3, 3, 3, 3, 3, 1]), "two": ranked([1, 2])},
        "own": {"one": ranked([1, 1, 1, 1, 1, 2]), "two": ranked([1, 1])},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("R2MED_HOME", str(folder))
        return gathered(planted(folder / "raw", known, runs))


@pytest.fixture(scope="module")
def text(found):
    return render_page(found)


@pytest.fixture(scope="module")
def shown(text):
    return Page(text)


class TestScores:
    def test_every_condition_on_every_dataset(self, shown):
        table = shown.tables["nDCG@10 of every condition on every dataset"]
        assert table == [
            ["condition", "one", "two", "mean", "verdict"],
            ["bm25", "0.5833", "0.8155", "0.6994", "NEW"],
            ["own", "0.9385", "1.0000", "0.9692†", "NEW"],
        ]

    def test_the_best_is_bold(self, text):
        assert "<strong>0.9385</strong>" in text and "<strong>0.5833" not in text

    def test_other_measures_have_tables_of_their_own(self, shown):
        tables = shown.tables
        assert tables["MRR of every condition on every dataset"][2] == ["own", "0.9167", "1.0000", "0.9583"]

    def test_counts_are_told(self, shown):
        text = shown.text
        assert "nDCG@10 of 2 conditions on 2 datasets" in text and "8 of 8 judged queries evaluated." in text

    def test_significance_is_marked(self, dataset, tmp_path):
        suite = dataset("one", 8)
        known = [load("bm25"), own_condition(tmp_path, "own")]
        runs = {"bm25": {"one": ranked([2] * 8)}, "own": {"one": ranked([1] * 8)}}
        tables = page(gathered(planted(suite, known, runs))).tables
        assert tables["nDCG@10 of every condition on every dataset"][2][1] == "1.0000†"
        (row,) = tables["nDCG@10 of own and bm25 over the same queries"][1:]
        assert row == [
            "one", "8", "1.0000", "0.6309", "+0.3691†", "+0.3691", "+0.3691", "0.0078", "0.0078", "8", "0", "0",
        ]  # fmt: skip
        runs = {"bm25": runs["own"], "own": runs["bm25"]}
        tables = page(gathered(planted(suite, known, runs))).tables
        assert tables["nDCG@10 of every condition on every dataset"][2][1] == "0.6309‡"


class TestKnown:
    @pytest.fixture
    def mini(self, workspace):
        """Conditions with recorded figures; bm25's are off on one of the datasets."""
        known = [load("bm25"), load("qld")]
        empty = run_of({str(n): ["x"] for n in range(9)})
        return gathered(planted("mini", known, {"bm25": {"biology": empty}}, ("biology", "medqa-diag")))

    def test_measured_stands_beside_recorded(self, mini):
        assert page(mini).tables["nDCG@10 on Biology"] == [
            ["condition", "measured", "recorded", "difference", "verdict", "queries evaluated"],
            ["bm25", "0.0000", "0.2671", "-0.2671", "FAIL", "9 of 9"],
            ["qld", "–", "–", "–", "MISSING", "–"],
        ]
        others = page(mini).tables["Other measures on Biology"]
        assert others[0][:4] == ["condition", "measure", "measured", "recorded"]
        assert ["bm25", "R@100", "0.0000", "0.9259", "-0.9259", "FAIL", "9 of 9"] in others

    def test_verdicts_are_explained(self, mini):
        text = page(mini).text
        assert "FAIL: farther off" in text and "MISSING: no current run" in text and "OKish:" not in text

    def test_a_sample_is_not_taken_for_the_benchmark(self, mini, shown):
        assert "not R2MED's scores" in page(mini).text and "not R2MED's scores" not in shown.text

    def test_a_part_of_a_suite_has_no_mean(self, mini):
        assert "mean" not in page(mini).tables["nDCG@10 of every condition on every dataset"][0]


def test_measured_stands_beside_published(found, monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)
    condition, (row, *_) = load("bm25-official"), found.rows
    published = Comparison("nDCG@10", 0.5833, 0.58, "OKish")
    recorded = Comparison("nDCG@10", 0.5833, 0.5833, "OK")
    first, *others = row.entries
    first = replace(first, condition=condition, recorded=(recorded,), published=(published,))
    tables = page(replace(found, rows=[Row(condition, [first, *others])], baseline=None, contrasts=[])).tables
    assert tables["nDCG@10 on one"][1] == [
        "bm25-official", "0.5833", "0.5833", "0.0000 OK", "0.5800", "+0.0033 OKish", "OKish", "6 of 6",
        f"{condition.published.system}, tolerance {condition.published.tolerance:g}",
    ]  # fmt: skip


class TestDetails:
    def test_recall_at_ranks(self, shown):
        table = shown.tables["Mean recall on one"]
        assert table[0] == ["condition", *(f"R@{rank}" for rank in results_html.RANKS)]
        assert table[1][:3] == ["bm25", "0.1667", "1.0000"]

    def test_examples_are_the_largest_gains_and_losses(self, shown):
        tables = shown.tables
        gains, losses = tables["Where own is better by most"], tables["Where bm25 is better by most"]
        assert len(gains) == EXAMPLES + 1 and gains[1][:5] == ["one", "q1", "1.0000", "0.5000", "+0.5000"]
        assert losses[1:] == [["one", "q6", "0.6309", "1.0000", "-0.3691", "query 6"]]

    def test_groups_of_queries(self, shown):
        table = shown.tables["nDCG@10 by body system (queries)"]
        assert table[0] == ["condition", f"{ODD} (1)", "Nervous (2)"]
        assert table[1:] == [["bm25", "0.5000", "0.5000"], ["own", "1.0000", "1.0000"]]
        assert "nDCG@10 by task (queries)" not in shown.tables

    def test_time_and_space(self, shown):
        header, first, _ = shown.tables[
            "Seconds by the clock when stages were last done, and what is on disk, for the datasets shown"
        ]
        assert header == ["condition", "convert, s", "index, s", "search, s", "evaluate, s", "index on disk"]
        assert first[2] == first[-1] == "–" and re.fullmatch(r"< 0\.1|\d+\.\d", first[1])

    def test_versions_and_machine(self, found, shown):
        text = shown.text
        assert all(value in text for value in (*found.versions.values(), *found.machine.values()))

    @pytest.mark.parametrize(
        ("values", "shown"),
        [([], ""), ([None], "–"), ([1.0, 0.04], "1.0"), ([0.01], "< 0.1"), ([0.0], "0.0"), ([2.0, None], "> 2.0")],
    )
    def test_sums_tell_what_is_not_known(self, values, shown):
        assert results_html._sum(values, results_html._seconds) == shown

    @pytest.mark.parametrize(
        ("size", "shown"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (5 * 2**40, "5,120.0 GiB")]
    )
    def test_sizes(self, size, shown):
        assert results_html._size(size) == shown


class TestPage:
    def test_texts_are_escaped(self, text, shown):
        assert SCRIPT not in text and "&lt;script&gt;alert" in text
        assert shown.text.count(ODD) == 3  # title, text, body system
        policy = next(one["content"] for one in shown.of("meta") if "http-equiv" in one)
        assert len(shown.of("script")) == len(re.findall("'sha256-", policy))

    def test_it_needs_nothing_but_itself(self, shown):
        links = [one[key] for _, one in shown.elements for key in ("href", "src") if key in one]
        assert links and all(link.startswith(("#", "data:")) for link in links)

    def test_ids_are_unique_and_links_lead_to_them(self, shown):
        names = [one["id"] for _, one in shown.elements if "id" in one]
        assert len(set(names)) == len(names)
        links = {one["href"] for _, one in shown.elements if one.get("href", "").startswith("#")}
        assert {link[1:] for link in links} <= set(names) and "#baseline" in links

    def test_every_plot_says_what_it_shows(self, shown):
        drawn = shown.of("svg")
        assert len(drawn) == 2 * 2 + 2  # bars and recall a dataset, scatter and gains a condition
        assert all(one["role"] == "img" and one["aria-labelledby"] for one in drawn)

    def test_regions_have_names_of_their_own(self, shown):
        names = [one["aria-label"] for one in shown.of("div") if one.get("role") == "region"]
        assert len(set(names)) == len(names) > 8

    def test_the_same_results_give_the_same_page(self, found, text):
        assert render_page(found) == text

    def test_without_matplotlib_it_has_tables_only(self, found, shown, monkeypatch):
        monkeypatch.setattr(plots, "available", lambda: False)
        after = page(found)
        assert after.of("svg") == [] and "pip install matplotlib" in after.text
        assert after.tables == shown.tables
        assert "pip install matplotlib" not in shown.text


class TestLittle:
    def test_no_run_at_all(self, dataset, tmp_path):
        shown = page(gathered(planted(dataset(), [load("bm25")], {})))
        assert shown.tables["nDCG@10 of every condition on every dataset"] == [
            ["condition", "one", "verdict"], ["bm25", "–", "MISSING"],
        ]  # fmt: skip
        assert shown.of("svg") == [] and "There is no current run." in shown.text

    def test_one_condition_on_one_dataset(self, dataset):
        shown = page(gathered(planted(dataset(), [load("bm25")], {"bm25": {"one": ranked([1] * QUERIES)}})))
        assert "nDCG@10 of 1 condition on 1 dataset" in shown.text
        assert "no other condition to hold against it" in shown.text
        assert len(shown.of("svg")) == 2 and "The best of a column" not in shown.text

    def test_no_baseline(self, dataset):
        shown = page(gathered(planted(dataset(), [load("qld")], {"qld": {"one": ranked([1] * QUERIES)}})))
        assert "--baseline" in shown.text and "#baseline" not in {one.get("href") for one in shown.of("a")}

    def test_a_single_query(self, dataset, tmp_path):
        known = [load("bm25"), own_condition(tmp_path, "own")]
        runs = {"bm25": {"one": ranked([2])}, "own": {"one": ranked([1])}}
        shown = page(gathered(planted(dataset(queries=1), known, runs)))
        (row,) = shown.tables["nDCG@10 of own and bm25 over the same queries"][1:]
        assert row[:5] == ["one", "1", "1.0000", "0.6309", "+0.3691"] and row[5:9] == ["–"] * 4

    def test_a_run_without_hits(self, dataset):
        shown = page(gathered(planted(dataset(), [load("bm25")], {"bm25": {"one": ""}})))
        assert shown.tables["nDCG@10 on one"][1][-1] == "0 of 6"
        assert "0 of 6 judged queries evaluated" in shown.text

    def test_a_run_that_does_not_tell_the_measure(self, dataset, tmp_path):
        known = [own_condition(tmp_path, "own", how="search: {model: bm25, hits: 2}")]
        shown = page(gathered(planted(dataset(), known, {"own": {"one": ranked([1] * QUERIES)}})))
        assert shown.tables["nDCG@10 of every condition on every dataset"][1] == ["own", "–", "NEW"]
        assert shown.tables["Mean recall on one"][0] == ["condition", "R@1"]

    def test_a_dataset_called_mean(self, dataset):
        dataset("mean")
        runs = {"bm25": {"one": ranked([1] * QUERIES), "mean": ranked([2] * QUERIES)}}
        table = page(gathered(planted(dataset(), [load("bm25")], runs))).tables[
            "nDCG@10 of every condition on every dataset"
        ]
        assert table == [["condition", "mean", "one", "mean", "verdict"], ["bm25", "0.6309", "1.0000", "0.8155", "NEW"]]

    def test_thousands_of_queries(self, dataset, tmp_path):
        number = 3000
        known = [load("bm25"), own_condition(tmp_path, "own")]
        runs = {
            "bm25": {"one": ranked([1 + n % 7 for n in range(number)])},
            "own": {"one": ranked([1 + n % 5 for n in range(number)])},
        }
        text = render_page(gathered(planted(dataset(queries=number), known, runs)))
        assert len(text) < 400_000 and "3,000 of 3,000 judged queries evaluated" in text
