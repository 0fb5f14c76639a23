"""`r2med report` on real runs in every form: as files, in a browser, and as LaTeX compiles it."""

import json
import re

import pytest

from r2med_pyserini.paths import Workspace

from ..browser import DESKTOP, PHONE, axe, chromium, violations, window  # noqa: F401 - some are fixtures
from ..test_report_html import Page
from ..test_report_latex import compiled, faults
from .helpers import Result, r2med_in, run_files

DATASETS = ("biology", "medqa-diag")
ONLY = [option for slug in DATASETS for option in ("--dataset", slug)]
COLOURS = """[
    getComputedStyle(document.querySelector("svg text")).fill,
    getComputedStyle(document.querySelector("svg path[style^='fill: var(--series']")).fill,
    getComputedStyle(document.body).backgroundColor,
]"""
MATRIX = "nDCG@10 of every condition on every dataset"


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("report"))
    done = r2med_in(workspace, "run", "bm25", "qld", "--suite", "mini", *ONLY, "--threads", "2")
    assert "Error" not in done.err
    return workspace


def report(workspace: Workspace, *words) -> Result:
    return r2med_in(workspace, "report", "--suite", "mini", *ONLY, *words)


@pytest.fixture(scope="module")
def page(finished):
    """The file of the page."""
    file = finished.root / "results" / "page.html"
    done = report(finished, "--format", "html", "--output", file)
    assert (done.status, done.out, done.err) == (0, f"{file}\n", "")
    return file


def test_the_page_has_the_scores_of_the_other_forms(finished, page):
    rows = Page(page.read_text()).tables[MATRIX]
    known = json.loads(report(finished, "--format", "json").out)
    assert [row[0] for row in rows[1:]] == [row["condition"] for row in known] == ["bm25", "qld"]
    for row, other in zip(rows[1:], known, strict=True):
        assert row[1:3] == [f"{other['datasets'][slug]['scores']['nDCG@10']:.4f}" for slug in DATASETS]
        assert row[-1] == other["verdict"] == "OK"


def test_the_page_tells_times_and_sizes(page):
    header, bm25, _ = next(rows for caption, rows in Page(page.read_text()).tables.items() if "Seconds" in caption)
    found = dict(zip(header, bm25, strict=True))
    assert set(header) == {"condition", "convert, s", "index, s", "search, s", "evaluate, s", "index on disk"}
    assert re.fullmatch(r"[\d.]+ KiB", found["index on disk"])
    assert all(re.fullmatch(r"< 0\.1|\d+\.\d", found[f"{verb}, s"]) for verb in ("convert", "index", "search"))


def test_it_says_the_same_again_and_changes_nothing(finished, page):
    before = run_files(finished)
    done = report(finished, "--format", "html")
    assert done.out == page.read_text()
    assert run_files(finished) == before


def test_the_table_for_a_paper(finished, tmp_path):
    done = report(finished, "--format", "latex", "--baseline", "qld", "--measure", "R@100")
    assert (done.status, done.err, faults(done.out)) == (0, "", [])
    assert "better (worse) than qld" in done.out and r"R@100 $\times$ 100 on mini." in done.out
    assert r"bm25 & \textbf{92.59} & \textbf{100.00} \\" in done.out
    compiled(tmp_path, done.out)


def test_md_is_short_for_markdown(finished):
    assert report(finished, "--format", "md") == report(finished, "--format", "markdown")


@pytest.mark.parametrize(
    ("form", "ending"), [("text", "txt"), ("md", "md"), ("csv", "csv"), ("json", "json"), ("latex", "tex")]
)
def test_every_form_can_be_written_to_a_file(finished, tmp_path, form, ending):
    file = tmp_path / "new" / f"report.{ending}"
    for _ in range(2):
        assert report(finished, "--format", form, "--output", file).out == f"{file}\n"
    assert file.read_text() == report(finished, "--format", form).out
    assert [path.name for path in file.parent.iterdir()] == [file.name]


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "status", "text"),
        [
            (["--baseline", "qld"], 2, "--baseline is for --format html and latex"),
            (["--format", "latex", "--baseline", "qlb"], 2, "did you mean 'qld'?"),
            (["--format", "html", "--baseline", "bm25-rm3"], 2, "not among the conditions shown"),
            (["--format", "latex", "bm25", "bm25-rm3", "--baseline", "bm25-rm3"], 1, "no current run of it here"),
            (["--format", "html", "--output", "page.txt"], 2, "a name that ends in .html or .htm is wanted"),
            (["--format", "latex", "--output", "/dev/null/x.tex"], 1, "cannot write /dev/null/x.tex"),
            (["--format", "html", "--measure", "nDCG@11"], 2, "did you mean 'nDCG@10'?"),
            (["--format", "xml"], 2, "xml"),
        ],
    )
    def test_with_one_clear_message(self, finished, words, status, text):
        done = report(finished, *words)
        assert (done.status, done.out) == (status, "") and text in done.err and "Traceback" not in done.err

    @pytest.mark.parametrize(("form", "ending"), [("text", ""), ("json", ".scores.json")])
    def test_a_run_is_not_overwritten(self, finished, form, ending):
        before = run_files(finished)
        name = finished.run("mini", "biology", "bm25").with_suffix(ending or ".txt")
        assert name.is_file()
        done = report(finished, "--format", form, "--output", name)
        assert done.status == 2 and "would be lost: choose another name" in done.err
        assert run_files(finished) == before

    @pytest.mark.parametrize("form", ["html", "latex"])
    def test_without_any_run(self, tmp_path, form):
        done = report(Workspace(tmp_path), "--format", form)
        assert (done.status, done.out) == (1, "") and "no current run of suite mini here" in done.err

    @pytest.mark.parametrize("form", ["html", "latex"])
    def test_named_conditions_without_runs_are_shown_as_missing(self, tmp_path, form):
        done = report(Workspace(tmp_path), "bm25", "--format", form)
        assert (done.status, done.err) == (1, "")
        assert "MISSING" in done.out if form == "html" else "bm25 & -- & --" in done.out


class TestInABrowser:
    @pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
    @pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
    def test_it_fits_and_can_be_read(self, page, chromium, size, dark):  # noqa: F811
        with window(chromium, size, dark) as context:
            shown, told = context.new_page(), []
            shown.on("console", lambda message: told.append(message.text))
            shown.on("pageerror", lambda error: told.append(str(error)))
            shown.on("request", lambda request: told.append(request.url))
            shown.goto(page.as_uri())
            assert told == [page.as_uri()]
            assert shown.evaluate("document.documentElement.scrollWidth") <= size[0]
            ink, bar, paper = shown.evaluate(COLOURS)
            assert contrast(ink, paper) > 7 and contrast(bar, paper) > 3
            for plot in shown.locator("svg").all():
                box = plot.bounding_box()
                assert box is None or (200 < box["width"] <= size[0] and box["height"] > 80)

    def test_tables_sort(self, page, chromium):  # noqa: F811
        with window(chromium) as context:
            shown = context.new_page()
            shown.goto(page.as_uri())
            table = shown.get_by_role("table", name=MATRIX, exact=True)
            names = table.locator("tbody th")
            assert names.all_text_contents() == ["bm25", "qld"]
            table.get_by_role("button", name="MedQA").click()
            assert names.all_text_contents() == ["qld", "bm25"]

    @pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
    def test_nobody_is_kept_out(self, page, chromium, axe, dark):  # noqa: F811
        with window(chromium, dark=dark) as context:
            shown = context.new_page()
            shown.goto(page.as_uri())
            shown.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            assert violations(shown, axe) == []


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as the Web Content Accessibility Guidelines (2.1) define it."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)
