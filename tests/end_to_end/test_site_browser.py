"""The site in a real browser, opened from disk: what people do with it, by mouse and by keyboard."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from r2med_pyserini import conditions, site, site_commands, site_facts
from r2med_pyserini.paths import PACKAGE, Workspace
from r2med_pyserini.report.page import NO_FIGURE, Markup, figure, page
from r2med_pyserini.suites import load_suite

from ..browser import DESKTOP, PHONE, shows, violations, window
from ..browser import axe as axe
from ..browser import chromium as chromium
from ..test_report_page import HOSTILE
from .helpers import r2med_in

DOCS = PACKAGE.parent / "docs"
SUITES = [load_suite(name, site_commands.HERE) for name in ("r2med", "mini")]
SLUGS = [dataset.slug for dataset in SUITES[0].datasets]
NAMES = conditions.names()
PAGES = (
    "index.html",
    "conditions/bge-large-en-v1.5.html",
    "conditions/nv-embed-v2+rankllama-10.html",
    "datasets/biology.html",
)
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The site as it would be committed, where the browser finds it, and nothing else."""
    found = tmp_path_factory.mktemp("site") / "docs"
    site.write(site.build(DOCS), found)
    return found


@pytest.fixture(scope="module")
def opened(chromium):
    """A window for the tests that change nothing but pages."""
    with window(chromium) as context:
        yield context


@pytest.fixture
def index(opened, folder):
    """The first page, freshly opened; what it asks for and complains of is kept in `asked` and `complaints`."""
    yield from watched(opened, folder / "index.html")


def watched(context, path: Path):
    tab = context.new_page()
    tab.asked, tab.complaints = [], []
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.on("console", lambda message: tab.complaints.append(message.text) if message.type != "log" else None)
    tab.goto(path.as_uri())
    yield tab
    tab.close()


def of_rows(tab, what: str) -> list[str]:
    """Something of every row `r` that is seen."""
    return tab.eval_on_selector_all(
        "#table tbody tr", f"rows => rows.filter(r => r.checkVisibility()).map(r => {what})"
    )


def shown_names(tab) -> list[str]:
    return of_rows(tab, "r.dataset.name")


def column(tab, number: int) -> list[str]:
    return of_rows(tab, f"r.cells[{number}].textContent")


def choose(tab, label: str) -> None:
    tab.locator("#controls label", has_text=re.compile(f"^{re.escape(label)}")).first.click()


def clipboard(tab) -> str:
    return tab.evaluate("navigator.clipboard.readText()")


# Nothing leaves the page


def test_no_request_leaves_a_page(opened, folder):
    for name in PAGES:
        for tab in watched(opened, folder / name):
            tab.wait_for_load_state("networkidle")
            assert [url for url in tab.asked if not url.startswith(("file://", "data:"))] == []
            assert [url for url in tab.asked if url.startswith("file://")] == [tab.url]
            assert tab.complaints == []


@pytest.fixture
def listening():
    """The address of a server here that answers everything, and the paths that it was asked for."""
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


ASK = """address => Promise.all([
  fetch(`${address}/fetch`).then(() => "asked", () => "refused"),
  new Promise(done => {
    const image = new Image();
    image.onload = image.onerror = () => done("tried");
    image.src = `${address}/image.png`;
  }),
])"""


def test_a_page_could_not_even_ask(index, listening, opened, tmp_path):
    address, asked = listening
    assert index.evaluate(ASK, address) == ["refused", "tried"]
    assert asked == []
    bare = tmp_path / "bare.html"
    bare.write_text("<p>without a policy</p>")
    for tab in watched(opened, bare):  # the server would have seen it
        assert tab.evaluate(ASK, address) == ["asked", "tried"]
    assert set(asked) == {"/fetch", "/image.png"}


def test_a_script_that_is_not_ours_does_not_run(index):
    added = (
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
    )
    assert index.evaluate(f"{added} return window.ran ?? 'refused'; }}") == "refused"


# The matrix


def test_sorting(index):
    header = index.locator("#table thead th")
    first = sorted((text for text in column(index, 1) if text != NO_FIGURE), reverse=True)
    header.nth(1).locator("button").click()
    assert [text for text in column(index, 1) if text != NO_FIGURE] == first
    assert column(index, 1)[-1] == NO_FIGURE
    assert header.nth(1).get_attribute("aria-sort") == "descending" and header.nth(9).get_attribute("aria-sort") is None
    header.nth(1).locator("button").click()
    assert [text for text in column(index, 1) if text != NO_FIGURE] == first[::-1]
    assert column(index, 1)[-1] == NO_FIGURE
    header.nth(0).locator("button").click()
    assert sorted(shown_names(index)) == sorted(NAMES) and shown_names(index)[0] == "all-mpnet-base-v2"
    assert shown_names(index).index("bmretriever-2b") < shown_names(index).index("bmretriever-410m")  # as numbers
    header.nth(0).locator("button").click()
    assert shown_names(index)[-1] == "all-mpnet-base-v2"


def test_filtering(index):
    assert index.locator("#count").inner_text() == f"{len(NAMES)} of {len(NAMES)} conditions"
    index.fill("#words", "BM25 monobert")
    assert set(shown_names(index)) == {name for name in NAMES if name == "bm25+monobert-100"}
    index.fill("#words", "")
    for family in site_facts.FAMILIES:
        choose(index, family)
        wanted = {name for name in NAMES if site_facts.family(conditions.load(name)) == family}
        assert set(shown_names(index)) == wanted and wanted
        assert index.locator("#count").inner_text() == f"{len(wanted)} of {len(NAMES)} conditions"
        choose(index, family)
    choose(index, "lexical")
    choose(index, "fusion")
    for needs in site_facts.NEEDS:
        index.select_option("#needs", needs)
        loaded = [one for name in NAMES if site_facts.needs(one := conditions.load(name)) == needs]
        assert set(shown_names(index)) == {c.name for c in loaded if site_facts.family(c) in ("lexical", "fusion")}
    index.fill("#words", "nothing is called so")
    assert shown_names(index) == []


def known_figures(name: str, choice: str, measure: str) -> list[str]:
    which, suite = choice.split("-")
    suite = next(one for one in SUITES if one.name == suite)
    scores = site_facts.known_scores(conditions.load(name), suite, which == "published")
    values = [scores.get(slug, {}).get(measure) for slug in SLUGS]
    return [*map(figure, values), figure(site_facts.mean(scores, measure, suite))]


@pytest.mark.parametrize("measure", site_facts.MEASURES)
@pytest.mark.parametrize(("label", "choice"), [("published", "published-r2med"), ("recorded", "recorded-mini")])
def test_switching_measure_and_figures(index, measure, label, choice):
    choose(index, measure)
    choose(index, label)
    rows = index.eval_on_selector_all(
        "#table tbody tr", "rows => rows.map(r => [r.dataset.name, [...r.cells].slice(1).map(c => c.textContent)])"
    )
    assert dict(rows) == {name: known_figures(name, choice, measure) for name in NAMES}
    means = [values[-1] for _, values in rows]
    assert means == sorted(means, key=lambda text: -1 if text == NO_FIGURE else float(text), reverse=True)
    assert index.locator("#sample").is_visible() is (choice == "recorded-mini")
    assert index.locator("#caption").inner_text().startswith(measure)


# Commands

TEXTS = """() => {
  const found = {};
  for (const button of document.querySelectorAll("#table tbody td button")) {
    button.click();
    const dialog = document.getElementById("cell");
    for (const radio of dialog.querySelectorAll("[name=suite]")) {
      radio.click();
      const texts = [...dialog.querySelectorAll("[data-kind] code")].map(code => code.textContent);
      found[`${location.hash.slice(1)}/${radio.value}`] = texts;
    }
    dialog.close();
  }
  return found;
}"""


def test_every_cell_tells_its_commands(index):
    found = index.evaluate(TEXTS)
    wanted = {}
    for name in NAMES:
        for suite in SUITES:
            for dataset in suite.datasets:
                cell = site_commands.for_cell(conditions.load(name), suite, dataset)
                key = f"{name.replace('+', '%2B')}/{dataset.slug}/{suite.name}"
                wanted[key] = [cell.run, cell.make, cell.data, cell.ours, cell.plain]
    assert found == wanted
    assert index.complaints == []


def open_cell(tab, name: str, dataset: str) -> None:
    tab.locator(f'#table tr[data-name="{name}"] td').nth(SLUGS.index(dataset)).locator("button").click()


@pytest.mark.parametrize("name", ["bm25", "qwen3-embedding-0.6b", "minilm-hnsw", "bm25-official"])
def test_copying_from_a_cell(index, name):
    open_cell(index, name, "biology")
    cell = site_commands.for_cell(conditions.load(name), SUITES[0], SUITES[0].datasets[0])
    kinds = {"run": cell.run, "make": cell.make, "ours": cell.ours}
    if cell.plain != cell.ours:
        index.locator("#cell-plain summary").click()
        kinds |= {"data": cell.data, "plain": cell.plain}
    for kind, text in kinds.items():
        button = index.locator(f"[data-kind={kind}] button")
        button.click()
        shows(button, "Copied")
        assert clipboard(index) == text
    assert index.locator("[data-kind=data]").is_visible() is (cell.plain != cell.ours)
    assert index.locator("#cell-plain").is_visible() is (cell.plain != cell.ours)


def test_copying_without_a_clipboard_of_the_browsers(index):
    index.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    open_cell(index, "bm25", "biology")
    index.locator("[data-kind=ours] button").click()
    shows(index.locator("[data-kind=ours] button"), "Copied")
    index.evaluate("delete navigator.clipboard")
    assert clipboard(index) == site_commands.for_cell(conditions.load("bm25"), SUITES[0], SUITES[0].datasets[0]).ours


def test_copying_from_the_page_of_a_condition(opened, folder):
    for tab in watched(opened, folder / "conditions" / "bm25-rm3.html"):
        tab.locator("summary", has_text="Biology").click()
        block = tab.locator(".copy[data-what='Pyserini commands for Biology']")
        block.locator("button").click()
        shows(block.locator("button"), "Copied")
        wanted = site_commands.for_cell(conditions.load("bm25-rm3"), SUITES[0], SUITES[0].datasets[0]).ours
        assert clipboard(tab) == wanted and "\n" in wanted


def test_a_cell_has_an_address(index, opened, folder):
    open_cell(index, "bm25+monobert-100", "medqa-diag")
    address = index.url
    assert address.endswith("index.html#bm25%2Bmonobert-100/medqa-diag")
    index.keyboard.press("Escape")
    index.wait_for_url(re.compile(r"index\.html$"))
    tab = opened.new_page()
    tab.goto(address)
    assert tab.locator("#cell").is_visible()
    assert tab.locator("#cell-title").inner_text() == "bm25+monobert-100 on MedQA-Diag"
    tab.locator("#cell-condition").click()
    assert tab.locator("h1").inner_text() == "bm25+monobert-100"
    tab.close()


@pytest.mark.parametrize(
    "hash_", ["#__proto__/biology", "#toString/biology", "#bm25/nowhere", "#%E0%A4%A/biology", "#x"]
)
def test_an_address_of_no_cell_opens_none(opened, folder, hash_):
    tab = opened.new_page()
    complaints = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto((folder / "index.html").as_uri() + hash_)
    assert not tab.locator("#cell").is_visible() and complaints == []
    tab.close()


# Without a mouse, without scripts, in other colours


def focused(tab) -> str:
    """What has the focus: its id, its name, or its text."""
    return tab.evaluate("(({id, name, textContent}) => id || name || textContent)(document.activeElement)")


def press_until(tab, wanted: str, key: str = "Tab", most: int = 40) -> None:
    for _ in range(most):
        tab.keyboard.press(key)
        if focused(tab) == wanted:
            return
    raise AssertionError(f"{most} times {key} did not lead to {wanted!r}")


def test_the_keyboard_alone_will_do(index):
    index.keyboard.press("Tab")
    assert index.evaluate("document.activeElement.className") == "skip"
    assert index.locator(".skip").bounding_box()["y"] >= 0
    index.keyboard.press("Enter")
    assert focused(index) == "main"
    press_until(index, "measure")
    index.keyboard.press("ArrowRight")
    assert index.locator("#caption").inner_text() == "R@100, published, r2med"
    press_until(index, "family")
    index.keyboard.press("Space")
    assert all(site_facts.family(conditions.load(name)) == "lexical" for name in shown_names(index))
    press_until(index, "words")
    index.keyboard.type("official")
    assert shown_names(index) == ["bm25-official"]
    press_until(index, "bm25-official")
    index.keyboard.press("ArrowRight")
    index.keyboard.press("ArrowRight")
    assert focused(index) == known_figures("bm25-official", "published-r2med", "R@100")[1]
    outline = index.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    index.keyboard.press("Enter")
    assert index.locator("#cell-title").inner_text() == "bm25-official on Bioinformatics"
    press_until(index, "Copy")
    index.keyboard.press("Enter")
    shows(index.locator("[data-kind=run] button"), "Copied")
    assert clipboard(index) == "r2med run bm25-official --suite r2med --dataset bioinformatics"
    for _ in range(30):
        index.keyboard.press("Tab")
        assert index.evaluate("document.activeElement.matches('body, #cell, #cell *')")
    index.keyboard.press("Escape")
    assert not index.locator("#cell").is_visible()
    assert focused(index) == known_figures("bm25-official", "published-r2med", "R@100")[1]


def test_arrows_move_in_the_table_and_stop_at_its_ends(index):
    first, second = shown_names(index)[:2]
    index.locator(f'#table tr[data-name="{first}"] a').focus()
    for key, wanted in (
        ("ArrowUp", first), ("ArrowLeft", first), ("ArrowDown", second), ("ArrowDown", shown_names(index)[2]),
        ("ArrowUp", second), ("End", known_figures(second, "published-r2med", "nDCG@10")[7]),
        ("ArrowRight", known_figures(second, "published-r2med", "nDCG@10")[7]), ("Home", second),
    ):  # fmt: skip
        index.keyboard.press(key)
        assert focused(index) == wanted, key
    stops = "all => all.filter(one => one.tabIndex === 0).length"
    assert index.eval_on_selector_all("#table tbody :is(a, button)", stops) == 1


def test_without_scripts_the_figures_are_there(folder, chromium):
    with window(chromium, scripts=False) as context:
        tab = context.new_page()
        tab.goto((folder / "index.html").as_uri())
        assert tab.locator("#table tbody tr").count() == len(NAMES)
        assert not tab.locator("#controls").is_visible() and not tab.locator("#theme").is_visible()
        tab.locator("#table tbody a").first.click()
        tab.locator("summary", has_text="Biology").click()
        assert tab.locator("details code").first.is_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_can_be_chosen_and_are_remembered(folder, chromium, dark):
    with window(chromium, dark=dark) as context:
        tab = context.new_page()
        tab.goto((folder / "index.html").as_uri())
        background = "getComputedStyle(document.body).backgroundColor"
        before = tab.evaluate(background)
        assert tab.locator("#theme").inner_text() == ("Light colours" if dark else "Dark colours")
        tab.locator("#theme").click()
        after = tab.evaluate(background)
        assert after != before
        tab.goto((folder / "conditions" / "bm25.html").as_uri())
        assert tab.evaluate(background) == after
        assert tab.locator("#theme").inner_text() == ("Dark colours" if dark else "Light colours")


# Looks


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_pages_fit_and_keep_nobody_out(folder, chromium, tmp_path, axe, size, dark):
    """Screenshots are left in the test's folder, for people to look at."""
    with window(chromium, size, dark) as context:
        tab = context.new_page()
        for name in PAGES:
            tab.goto((folder / name).as_uri())
            found = [line for line in violations(tab, axe) if line.startswith(SERIOUS)]
            assert found == [], name
            assert tab.evaluate("document.documentElement.scrollWidth") <= size[0], name
            tab.screenshot(path=tmp_path / f"{Path(name).stem}.png", full_page=True)
        tab.goto((folder / "index.html").as_uri() + "#minilm/biology")
        tab.reload()
        assert [line for line in violations(tab, axe) if line.startswith(SERIOUS)] == []
        box = tab.locator("#cell").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size[0] and box["height"] <= size[1]
        tab.screenshot(path=tmp_path / "cell.png")


def test_axe_sees_what_keeps_people_out(opened, axe, tmp_path):
    body = Markup('<img src="data:,"><p style="color: #ccc; background: #fff">pale</p><button></button>')
    (tmp_path / "bad.html").write_text(page("Bad", body))
    tab = opened.new_page()
    tab.goto((tmp_path / "bad.html").as_uri())
    found = {line.split(": ")[1] for line in violations(tab, axe) if line.startswith(SERIOUS)}
    assert found >= {"image-alt", "color-contrast", "button-name"}
    tab.close()


def test_hostile_texts_run_nowhere(opened, tmp_path):
    file = tmp_path / "mine.yaml"
    title = HOSTILE.replace("'", "''")
    file.write_text(f"title: '{title}'\nindex: {{kind: lucene}}\nsearch: {{model: bm25}}\n")
    folder = tmp_path / "docs"
    site.write(site.build(folder, [conditions.parse(file.read_text(), file)]), folder)
    said = []
    for name in ("index.html", "conditions/mine.html"):
        for tab in watched(opened, folder / name):
            tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
            assert HOSTILE in tab.locator("body").inner_text()
            if name == "index.html":
                open_cell(tab, "mine", "biology")
                assert tab.locator("#cell-about").inner_text() == HOSTILE
            assert tab.complaints == []
    assert said == []


# Copied commands, run


def copied(tab, kind: str) -> str:
    open_cell(tab, "bm25", "biology")
    tab.locator("#cell .segments label", has_text="mini").click()
    tab.locator(f"[data-kind={kind}] button").click()
    shows(tab.locator(f"[data-kind={kind}] button"), "Copied")
    return clipboard(tab)


def test_the_copied_line_of_r2med_runs(index, tmp_path):
    words = shlex.split(copied(index, "run"))
    assert words[0] == "r2med"
    workspace = Workspace(tmp_path)
    done = r2med_in(workspace, *words[1:])
    assert done.status == 0, done.err
    assert workspace.run("mini", "biology", "bm25").is_file()
    assert known_figures("bm25", "recorded-mini", "nDCG@10")[0] in done.out


def test_the_copied_line_that_makes_a_collection_runs(index, tmp_path):
    words = shlex.split(copied(index, "data"))
    workspace = Workspace(tmp_path)
    assert r2med_in(workspace, *words[1:]).status == 0
    assert workspace.collection("mini", "biology").docs.is_file()


def test_the_copied_line_of_make_runs(index, tmp_path):
    makefile = PACKAGE.parent / "Makefile"
    if not makefile.is_file() or not shutil.which("make"):
        pytest.skip("needs make, and the repository's Makefile, which is not installed")
    line = copied(index, "make")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "r2med").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m r2med_pyserini "$@"\n')
    (venv / "bin" / "r2med").chmod(0o755)
    (venv / ".installed").touch()
    words = [*shlex.split(line), f"VENV={venv}"]
    environment = os.environ | {"R2MED_HOME": str(tmp_path / "work")}
    done = subprocess.run(words, cwd=makefile.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Workspace(tmp_path / "work").run("mini", "biology", "bm25").is_file()
