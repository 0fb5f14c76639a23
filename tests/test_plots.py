import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from r2med_pyserini.report import plots

SVG = "{http://www.w3.org/2000/svg}"
ODD = ("a$x$b", "<script>alert(1)</script>", "x&y%_#{}\\input", "long" * 60)
CURVE = [rank / 1000 for rank in range(1, 1001)]
PAIRS = [(0.5, 0.25), (0.25, 0.5), (1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.301, 0.3)]
DRAW = {
    "bars": lambda key="k": plots.bars(
        key, "T", "nDCG@10", {"bm25": 0.25, "qld": 0.5}, {"published": {"bm25": 0.3}, "recorded": {"qld": 0.5}}, "bm25"
    ),
    "recall": lambda key="k": plots.recall(key, "T", {"bm25": CURVE, "qld": CURVE[:100]}),
    "scatter": lambda key="k": plots.scatter(key, "T", "nDCG@10", "qld", "bm25", PAIRS),
    "gains": lambda key="k": plots.gains(key, "T", "nDCG@10", [a - b for a, b in PAIRS]),
}
PROGRAM = "import sys; from tests.test_plots import DRAW; sys.stdout.write(''.join(draw() for draw in DRAW.values()))"


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str) -> list[str]:
    return ["".join(part.itertext()) for part in drawn(svg).iter(f"{SVG}text")]


def described(svg: str) -> str:
    return drawn(svg).find(f"{SVG}desc").text


def marks(svg: str) -> Counter:
    """How many points of each look a plot has."""
    return Counter(part.get("href") for part in drawn(svg).iter(f"{SVG}use"))


def elsewhere(**variables: str) -> subprocess.CompletedProcess:
    """All plots, drawn by another process."""
    root = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=root, env={**os.environ, **variables}, capture_output=True, text=True, check=True,
    )  # fmt: skip


@pytest.fixture(params=DRAW)
def draw(request):
    return DRAW[request.param]


class TestEvery:
    def test_the_same_data_give_the_same_bytes(self, draw):
        assert draw() == draw()

    def test_it_is_an_element_of_a_page(self, draw):
        svg = draw()
        assert svg.startswith("<svg ") and svg.rstrip().endswith("</svg>")
        root = drawn(svg)
        assert not [
            part for part in root.iter() if part.tag.removeprefix(SVG) in ("style", "metadata", "script", "image")
        ]
        assert set(re.findall(r"https?://[^\s\"]+", svg)) == {"http://www.w3.org/2000/svg"}

    def test_it_has_a_title_and_a_description(self, draw):
        root = drawn(draw("p"))
        assert root.get("role") == "img" and root.get("aria-labelledby") == "p-title p-desc"
        assert [(part.tag, part.get("id")) for part in root[:2]] == [
            (f"{SVG}title", "p-title"),
            (f"{SVG}desc", "p-desc"),
        ]
        assert root[0].text == "T" and len(root[1].text) > 20

    def test_ids_are_its_own_and_links_lead_to_them(self, draw):
        svg = draw("p")
        names = [part.get("id") for part in drawn(svg).iter() if part.get("id")]
        assert len(set(names)) == len(names) and all(name.startswith("p-") for name in names)
        linked = set(re.findall(r"(?:href=\"|url\()#([^\")]+)", svg))
        assert linked and linked <= set(names)

    def test_text_is_text_in_the_colours_and_font_of_the_page(self, draw):
        svg = draw()
        assert texts(svg)
        styles = "; ".join(part.get("style", "") for part in drawn(svg).iter() if part.tag != f"{SVG}svg")
        assert "var(--ink)" in styles and "DejaVu" not in svg and not re.search("#0.0.0", svg)
        assert set(re.findall(r"(?:fill|stroke): ([^;]+)", styles)) <= {
            "none", "var(--ink)", "var(--soft)", "var(--line)", *(f"var(--series-{n})" for n in range(8)),
            *re.findall(r"url\([^)]+\)", styles),
        }  # fmt: skip

    def test_a_long_name_does_not_take_the_room(self):
        assert max(map(len, texts(plots.bars("k", "T", "m", {ODD[3]: 0.5}, {})))) < 40


def test_every_process_draws_the_same():
    assert elsewhere(PYTHONHASHSEED="1").stdout == "".join(draw() for draw in DRAW.values())


def test_what_a_user_configured_does_not_matter(tmp_path):
    (tmp_path / "matplotlibrc").write_text("font.size: 30\nsvg.fonttype: path\naxes.facecolor: red\nbackend: agg\n")
    done = elsewhere(MPLCONFIGDIR=str(tmp_path))
    assert done.stdout == "".join(draw() for draw in DRAW.values())


def test_a_home_folder_that_cannot_be_written_is_no_matter(tmp_path):
    (tmp_path / "file").write_text("")
    done = elsewhere(MPLCONFIGDIR=str(tmp_path / "file" / "x"), HOME=str(tmp_path / "file"))
    assert done.stderr == "" and done.stdout


@pytest.mark.parametrize("name", ODD[:3])
def test_odd_names_are_shown_as_they_are(name):
    for svg in (
        plots.bars("k", name, name, {name: 0.5}, {"published": {name: 0.4}}),
        plots.recall("k", name, {name: CURVE}),
        plots.scatter("k", name, "m", name, name, PAIRS),
    ):
        assert any(name in text for text in texts(svg))
        assert drawn(svg)[0].text == name and name in described(svg)
        assert "<script" not in svg


class TestBars:
    def test_every_figure_is_told(self):
        svg = DRAW["bars"]()
        assert {"0.2500", "0.5000", "bm25", "qld", "published", "recorded", "nDCG@10"} <= set(texts(svg))
        assert described(svg) == (
            "nDCG@10: bm25 0.2500; qld 0.5000; published for bm25 0.3000; recorded for qld 0.5000."
        )

    def test_without_references_there_is_no_legend(self):
        assert "published" not in texts(plots.bars("k", "T", "m", {"a": 0.5}, {"published": {}, "recorded": {}}))

    @pytest.mark.parametrize("values", [{"a": 0.0}, {"a": 1.0}, {f"c{n}": n / 40 for n in range(40)}])
    def test_any_number_of_bars(self, values):
        assert set(values) <= set(texts(plots.bars("k", "T", "m", values, {}, "a")))

    def test_a_reference_of_a_condition_that_is_not_shown_is_left_out(self):
        assert "published" not in texts(plots.bars("k", "T", "m", {"a": 0.5}, {"published": {"b": 0.4}}))


class TestRecall:
    def test_ranks_are_logarithmic(self):
        assert {"1", "10", "100", "1,000", "bm25", "qld", "R@k"} <= set(texts(DRAW["recall"]()))

    def test_many_curves_differ_by_more_than_their_colour(self):
        svg = plots.recall("k", "T", {f"c{n}": CURVE for n in range(20)})
        lines = [
            (re.search(r"stroke: ([^;]+)", style).group(1), re.search(r"dasharray: ([^;]+)", style))
            for part in drawn(svg).iter(f"{SVG}path")
            if "series" in (style := part.get("style", "")) and "stroke-width: 1.6" in style
        ]
        looks = {(colour, dash and dash.group(1)) for colour, dash in lines}
        assert len(looks) == 20

    @pytest.mark.parametrize("curve", [[0.5], [0.0, 0.0], [0.1] * 100_000])
    def test_any_depth(self, curve):
        svg = plots.recall("k", "T", {"a": curve})
        assert len(svg) < 30_000 and f"{len(curve):,}" in described(svg)


class TestScatter:
    def test_each_side_has_its_mark(self):
        svg = DRAW["scatter"]()
        assert described(svg) == "6 queries: qld is better on 2 (above the line), worse on 1 (below it)."
        assert len(marks(svg)) >= 3  # besides those of ticks

    def test_thousands_of_queries_stay_small(self):
        chance = random.Random(1)
        svg = plots.scatter("k", "T", "m", "a", "b", [(chance.random(), chance.random()) for _ in range(20_000)])
        assert len(svg) < 1_200_000 and "20,000 queries" in described(svg)

    @pytest.mark.parametrize("pairs", [[(0.0, 0.0)], [(1.0, 0.0)], [(0.5, 0.5 + 1e-12)]])
    def test_a_single_query(self, pairs):
        assert "1 queries" in described(plots.scatter("k", "T", "m", "a", "b", pairs))


class TestGains:
    def test_it_tells_how_many_gain_and_lose(self):
        assert described(DRAW["gains"]()) == (
            "2 queries gain, at most +0.2500; 1 lose, at most -0.2500; 3 stay as they are."
        )

    @pytest.mark.parametrize("differences", [[0.0], [0.0] * 9, [1.0], [-1.0, -0.5], [0.01] * 5000])
    def test_any_differences(self, differences):
        assert len(plots.gains("k", "T", "m", differences)) < 200_000
