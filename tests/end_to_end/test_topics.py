"""Topics and documents that are long, empty, oddly written or oddly named."""

import json
import random
import re
from pathlib import Path

import pytest

from r2med_pyserini.paths import MINI, Workspace
from r2med_pyserini.specs import MAX_HITS

from .helpers import LEXICAL, Result, hits, r2med_in, rows, write_dataset

WORDS = [f"w{number}k" for number in range(1100)]
LONGEST = " ".join(random.Random(3).choices([f"w{number}k" for number in range(3000)], k=20_000))
SENTENCE = "A boy of nine has chest pain at rest, and a rash on both arms"
FOLDED = {
    "blanks": SENTENCE,
    "tabs": SENTENCE.replace(" ", "\t"),
    "lines": SENTENCE.replace(" ", "\n"),
    "windows": f"\r\n{SENTENCE}\r\n".replace(", ", ",\r\n\r\n"),
    "mixed": SENTENCE.replace("chest pain", "chest \t\n pain").replace("and a", "and\u2028a"),
}
NAMES = ["日本語", "ünïcode/α.txt", "no\u00a0break", "e\u0301", "é", "🩺", "\u202eleft"]
FEW = {
    "d1": "Chest pain that eases with rest points to angina.",
    "d2": "A cough with rusty sputum suggests pneumonia.",
    "d3": "A rash on both arms.",
}
PAIN, COUGH = ("pain", "chest pain at rest"), ("cough", "cough and fever")


def datasets(folder: Path) -> None:
    """Each dataset has one oddity, so that they can be run together and looked at one by one."""
    corpus = {f"d{number}": f"{word} and {word}" for number, word in enumerate(WORDS)}
    for name, text in (("distinct", " ".join(WORDS)), ("longest", LONGEST)):
        write_dataset(folder / name, corpus, {"long": text, "short": WORDS[7]}, [("long", "d7"), ("short", "d7")])
    for name, text in (("empty", " \n"), ("stops", "is it of the and")):
        queries = dict([PAIN, COUGH, ("nothing", text)])
        write_dataset(folder / name, FEW, queries, [("pain", "d1"), ("cough", "d2"), ("nothing", "d3")])
    write_dataset(folder / "folded", FEW, FOLDED, [("blanks", "d1")])
    named = {name: f"fever day{place}" for place, name in enumerate(NAMES)}
    write_dataset(folder / "named", named, {"q": "fever"}, [("q", name) for name in NAMES])
    write_dataset(folder / "few", FEW, dict([PAIN]), [("pain", "d1")])
    unseen = {"unseen": "xylophone quetzal", "stops": "is it of the and", "empty": ""}
    write_dataset(folder / "hitless", FEW, unseen, [(query, "d1") for query in unseen])
    write_dataset(folder / "wordless", {"d1": "is it of the and", "d2": "to be"}, dict([PAIN]), [("pain", "d1")])


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("suites") / "odd"
    datasets(folder)
    return folder


@pytest.fixture(scope="module")
def done(suite, tmp_path_factory) -> tuple[Workspace, Result]:
    """Every condition on every odd dataset, and what the command said."""
    workspace = Workspace(tmp_path_factory.mktemp("odd"))
    return workspace, r2med_in(workspace, "run", *LEXICAL, "--suite", suite)


@pytest.fixture(scope="module")
def found(done):
    """The hits of a dataset with a condition."""
    return lambda dataset, condition: hits(done[0].run("odd", dataset, condition))


def mean(workspace: Workspace, dataset: str, condition: str) -> dict:
    return json.loads(workspace.scores("odd", dataset, condition).read_text(encoding="utf-8"))


def test_all_of_them_can_be_run(done):
    assert (done[1].status, "Error" in done[1].err) == (0, False), done[1].err


@pytest.mark.parametrize("condition", LEXICAL)
def test_a_topic_of_1100_distinct_terms_is_searched_to_its_last_word(found, condition):
    retrieved = {document for document, _ in found("distinct", condition)["long"]}
    assert len(retrieved) == (100 if condition == "bm25-official" else 1000)


def test_a_topic_of_1100_distinct_terms_finds_what_each_term_finds(done, suite, tmp_path):
    own = tmp_path / "all.yaml"
    own.write_text(f"title: all\nindex: {{kind: lucene}}\nsearch: {{model: bm25, hits: {MAX_HITS}}}\n")
    assert r2med_in(done[0], "run", own, "--suite", suite, "--dataset", "distinct").status == 0
    retrieved = {document for document, _ in hits(done[0].run("odd", "distinct", "all"))["long"]}
    assert retrieved == {f"d{number}" for number in range(1100)}


@pytest.mark.parametrize("condition", LEXICAL)
def test_a_topic_of_20000_words_finishes(found, condition):
    assert len(found("longest", condition)["long"]) == (100 if condition == "bm25-official" else 1000)


@pytest.mark.parametrize("condition", LEXICAL)
@pytest.mark.parametrize("dataset", ["empty", "stops"])
def test_a_topic_without_a_word_has_no_hits_and_counts_as_zero(done, found, dataset, condition):
    assert found(dataset, condition).keys() == {"pain", "cough"}
    scores = mean(done[0], dataset, condition)
    assert (scores["judged"], scores["evaluated"]) == (3, 2)
    assert scores["queries"]["nothing"]["nDCG@10"] == 0
    assert scores["mean"]["nDCG@10"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("dataset", ["empty", "stops"])
def test_the_output_says_how_many_queries_were_evaluated(done, suite, dataset):
    shown = r2med_in(done[0], "run", "bm25", "--suite", suite, "--dataset", dataset).out
    assert "2 of 3 judged queries" in shown


@pytest.mark.parametrize("condition", LEXICAL)
@pytest.mark.parametrize(("dataset", "queries"), [("hitless", 3), ("wordless", 1)])
def test_a_dataset_without_any_hit_scores_0(done, dataset, queries, condition):
    assert done[0].run("odd", dataset, condition).read_bytes() == b""
    scores = mean(done[0], dataset, condition)
    assert (scores["judged"], scores["evaluated"], len(scores["queries"])) == (queries, 0, queries)
    assert set(scores["mean"].values()) == {0.0}


@pytest.mark.parametrize("dataset", ["hitless", "wordless"])
def test_a_dataset_without_any_hit_is_no_error(done, suite, dataset):
    again = r2med_in(done[0], "run", *LEXICAL, "--suite", suite, "--dataset", dataset)
    assert (again.status, again.err) == (0, "")
    assert re.search(r"^bm25-official +0\.0000 +NEW$", again.out, re.MULTILINE)
    shown = r2med_in(done[0], "report", "--suite", suite, "--dataset", dataset)
    assert shown.status == 0


def test_eval_of_the_run_of_a_dataset_without_any_hit_is_an_error(done):
    run, qrels = done[0].run("odd", "hitless", "bm25"), done[0].collection("odd", "hitless").qrels
    found = r2med_in(done[0], "eval", run, "--qrels", qrels)
    assert (found.status, found.out) == (1, "")
    assert f"{run}: holds no row" in found.err


def test_an_empty_topic_is_noted(done):
    assert "Note: odd/empty: 1 empty queries (no hits): nothing\n" in done[1].out


@pytest.mark.parametrize("condition", LEXICAL)
def test_an_id_of_digits_keeps_its_zeros(lexical_mini, condition):
    assert "007" in {row["id"] for row in rows(MINI / "medqa-diag" / "query.jsonl")}
    retrieved = hits(lexical_mini.run("mini", "medqa-diag", condition))
    assert "007" in retrieved
    assert "7" not in retrieved


@pytest.mark.parametrize("condition", LEXICAL)
@pytest.mark.parametrize("query", sorted(FOLDED.keys() - {"blanks"}))
def test_white_space_in_a_topic_makes_no_difference(found, condition, query):
    retrieved = found("folded", condition)
    assert retrieved[query] == retrieved["blanks"]


@pytest.mark.parametrize("condition", LEXICAL)
def test_document_ids_come_back_unchanged(done, found, condition):
    assert {document for document, _ in found("named", condition)["q"]} == set(NAMES)
    assert mean(done[0], "named", condition)["mean"]["R@10"] == 1


@pytest.mark.parametrize("condition", LEXICAL)
def test_more_hits_may_be_asked_than_there_are_documents(found, condition):
    retrieved = [document for document, _ in found("few", condition)["pain"]]
    assert retrieved[0] == "d1"
    assert len(retrieved) == len(set(retrieved)) <= len(FEW)
