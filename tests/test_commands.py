import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from r2med_pyserini.commands import OURS, PLAIN, for_cell
from r2med_pyserini.conditions import load, names, parse
from r2med_pyserini.paths import Workspace
from r2med_pyserini.suites import load_suite

FILES = "collections/mini/biology"


def commands(condition, root=".", prefix=PLAIN, suite="mini"):
    workspace = Workspace(Path(root))
    found = load_suite(suite, workspace)
    return for_cell(condition, found, found.datasets[0], workspace, prefix)


def mine(search):
    return parse(f"title: t\nindex: {{kind: lucene}}\nsearch: {{{search}}}\n", Path("conditions/mine.yaml"))


def test_bm25():
    assert commands(load("bm25")) == [
        f"python -m pyserini.index.lucene --collection JsonCollection --input {FILES}/corpus "
        "--index indexes/pyserini.lucene.mini-biology --generator DefaultLuceneDocumentGenerator --threads 1",
        f"python -m pyserini.search.lucene --index indexes/pyserini.lucene.mini-biology --topics {FILES}/topics.json "
        "--output runs/pyserini.run.mini-biology.bm25.txt --bm25 --k1 0.9 --b 0.4 --hits 1000",
        f"python -m pyserini.eval.trec_eval -c -m ndcg_cut.10 {FILES}/qrels.txt "
        "runs/pyserini.run.mini-biology.bm25.txt",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bm25-rm3", "--bm25 --k1 0.9 --b 0.4 --rm3 --hits 1000"),
        ("bm25-rocchio", "--bm25 --k1 0.9 --b 0.4 --rocchio --hits 1000"),
        ("bm25qs", "--bm25qs --k1 0.9 --b 0.4 --hits 1000"),
        ("qld", "--qld --hits 1000"),
    ],
)
def test_the_search_of_the_other_conditions(name, words):
    search = commands(load(name))[1]
    assert search.endswith(f" --output runs/pyserini.run.mini-biology.{name}.txt {words}")


@pytest.mark.parametrize(
    ("name", "vectors"), [("bm25", False), ("qld", False), ("bm25-rm3", True), ("bm25-rocchio", True)]
)
def test_feedback_has_an_index_with_document_vectors(name, vectors):
    index, search, _ = commands(load(name))
    assert ("--storeDocvectors" in index.split()) is vectors
    for command in (index, search):
        assert ("indexes/pyserini.lucene-docvectors.mini-biology" in command.split()) is vectors


def test_our_prefix_replaces_the_plain_one():
    plain, ours = (commands(load("bm25"), prefix=prefix) for prefix in (PLAIN, OURS))
    assert ours == [command.replace("python -m pyserini.", "r2med pyserini ") for command in plain]


def test_parameters_of_ones_own_are_passed_on():
    assert commands(mine("model: bm25, k1: 1.2, b: 0.75, hits: 50"))[1].endswith(" --bm25 --k1 1.2 --b 0.75 --hits 50")


@pytest.mark.parametrize("k1", [0.1234567, 123456.75])
def test_parameters_are_passed_on_exactly(k1):
    words = commands(mine(f"model: bm25, k1: {k1}"))[1].split()
    assert float(words[words.index("--k1") + 1]) == k1


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (load("bm25-official"), "the authors' BM25"),
        (mine("model: qld, mu: 2000"), "cannot set mu"),
        (mine("model: bm25, feedback: rm3, fb_terms: 20"), "cannot set fb_terms"),
        (mine("model: bm25qs, k1: 0"), "takes a k1 or b of 0 for none given"),
        (mine("model: bm25qs, b: 0"), "takes a k1 or b of 0 for none given"),
        (mine("model: bm25, feedback: rocchio, alpha: 0.5, beta: 0.5"), "cannot set alpha, beta"),
    ],
)
def test_what_pyserini_cannot_express_is_said_in_a_comment(condition, words):
    (line,) = commands(condition)
    assert line.startswith("# Pyserini") and words in line
    name = condition.name if condition.name in names() else "conditions/mine.yaml"
    assert line.endswith(f"; use: r2med run {name} --suite mini --dataset biology")


@pytest.mark.parametrize("name", [name for name in names() if name != "bm25-official"])
@pytest.mark.parametrize("root", ["/a b/it's", "$HOME/x;y"])
def test_odd_paths_are_quoted_for_the_shell(name, root):
    index, search, evaluation = (shlex.split(command) for command in commands(load(name), root))
    collection = f"{root}/collections/mini/biology"
    assert index[index.index("--input") + 1] == f"{collection}/corpus"
    assert search[search.index("--topics") + 1] == f"{collection}/topics.json"
    assert search[search.index("--output") + 1] == evaluation[-1]
    assert evaluation[-2] == f"{collection}/qrels.txt"


@pytest.mark.parametrize("name", [name for name in names() if name != "bm25-official"])
def test_the_installed_pyserini_knows_every_option_of_search(name):
    (package,) = find_spec("pyserini").submodule_search_locations
    source = (Path(package) / "search" / "lucene" / "__main__.py").read_text()
    known = set(re.findall(r"add_argument\(\s*['\"](--[\w-]+)", source))
    used = {word for word in commands(load(name))[1].split() if word.startswith("--")}
    assert len(used) >= 5
    assert used <= known


def test_they_write_beside_our_files():
    workspace = Workspace(Path())
    ours = {str(workspace.index("lucene", "mini", "biology")), str(workspace.run("mini", "biology", "bm25"))}
    assert not ours & set(" ".join(commands(load("bm25"))).split())
