import json

import pytest

from r2med_pyserini.collection import convert, warnings
from r2med_pyserini.errors import BadInput
from r2med_pyserini.paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE, RAW_FILES, Collection
from r2med_pyserini.trec import IDENTIFIER, MAX_IDENTIFIER

BOM = b"\xef\xbb\xbf"
CONTROLS = ["a\x00b", "a\x1fb", "\x7f", "\ufeffa", "a\ufeffb"]  # lost on the way through trec_eval or Java


@pytest.fixture
def files(tmp_path) -> Collection:
    return Collection(tmp_path / "converted")


@pytest.fixture
def converted(make_dataset, files):
    """Converts a dataset of the given rows and returns its health report; the other files are the usual ones."""
    return lambda **rows: convert(make_dataset(**rows), files)


@pytest.fixture
def faults_of(converted):
    def faults(**rows):
        with pytest.raises(BadInput) as caught:
            converted(**rows)
        return caught.value.faults

    return faults


def docs(files):
    return [json.loads(line) for line in files.docs.read_bytes().decode().split("\n")[:-1]]


def topics(files):
    return {query: topic["title"] for query, topic in json.loads(files.topics.read_bytes()).items()}


class TestFiles:
    def test_documents_are_pyserinis_json_lines(self, converted, files):
        converted(corpus=[{"id": "d1", "text": "one\ttwo"}, {"text": '“é”\n"x"', "id": "d2", "title": "dropped"}])
        assert docs(files) == [{"id": "d1", "contents": "one\ttwo"}, {"id": "d2", "contents": '“é”\n"x"'}]

    def test_a_query_keeps_its_id_and_its_text(self, converted, files):
        converted(queries=[{"id": "007", "text": "chest pain\tat rest\n2 days"}])
        assert topics(files) == {"007": "chest pain\tat rest\n2 days"}
        assert files.topics_tsv.read_text() == "007\tchest pain at rest 2 days\n"

    def test_topics_are_sorted_by_id_as_a_string(self, converted, files):
        converted(queries=[{"id": query, "text": "x"} for query in ("10", "9", "b", "a", "1")])
        assert list(topics(files)) == ["1", "10", "9", "a", "b"]

    def test_qrels_are_trec_evals_and_sorted(self, converted, files):
        judged = [("q2", "d1", 0), ("q10", "d3", -1), ("q2", "d02", 2)]
        converted(qrels=[{"q_id": query, "p_id": doc, "score": score} for query, doc, score in judged])
        assert files.qrels.read_text() == "q10 0 d3 -1\nq2 0 d02 2\nq2 0 d1 0\n"

    def test_the_health_report_is_written_as_returned(self, converted, files):
        assert converted(queries=[{"id": "q1", "text": ""}]) == json.loads(files.health.read_text())

    def test_the_health_report_counts(self, converted):
        health = converted(qrels=[{"q_id": "q1", "p_id": f"d{score + 1}", "score": score - 1} for score in (0, 1, 2)])
        counts = {key: health[key] for key in ("documents", "queries", "judgements", "relevant")}
        assert counts == {"documents": 3, "queries": 2, "judgements": 3, "relevant": 1}

    def test_a_sound_dataset_gives_no_warning(self, converted):
        assert warnings(converted()) == []

    @pytest.mark.parametrize(
        "change",
        [
            lambda data: BOM + data,
            lambda data: data.replace(b"\n", b"\r\n"),
            lambda data: data.rstrip(b"\n"),
            lambda data: b"\n" + data.replace(b"\n", b"\n\n"),
        ],
        ids=["BOM", "CRLF", "no final newline", "blank lines"],
    )
    def test_ways_to_save_the_files_convert_the_same(self, make_dataset, tmp_path, change):
        raw = make_dataset()
        convert(raw, Collection(tmp_path / "plain"))
        for name in RAW_FILES:
            (raw / name).write_bytes(change((raw / name).read_bytes()))
        convert(raw, Collection(tmp_path / "changed"))
        outputs = [
            {path.relative_to(root): path.read_bytes() for path in root.rglob("*.*")}
            for root in (tmp_path / "plain", tmp_path / "changed")
        ]
        assert outputs[0] == outputs[1]

    @pytest.mark.parametrize("odd", ["a\u00a0b", "\u00a0a", "naïve", "日本", "a\u2028b", "a\u3000b", "a/b(c)&d,_1.txt"])
    def test_odd_ids_stay_whole(self, converted, files, odd):
        converted(
            corpus=[{"id": odd, "text": "a"}],
            queries=[{"id": odd, "text": "b"}],
            qrels=[{"q_id": odd, "p_id": odd, "score": 1}],
        )
        assert docs(files) == [{"id": odd, "contents": "a"}]
        assert topics(files) == {odd: "b"}
        assert files.qrels.read_bytes().decode() == f"{odd} 0 {odd} 1\n"


class TestHealth:
    @pytest.mark.parametrize("text", ["", None, " ", "\n\t \r", "\x00\x1f "])
    def test_an_empty_document_is_named_and_kept(self, converted, files, text):
        health = converted(corpus=[{"id": "d1", "text": "a"}, {"id": "d2", "text": text}])
        assert health["documents"] == 2
        assert health["empty documents"] == ["d2"]
        assert docs(files)[1] == {"id": "d2", "contents": text or ""}

    @pytest.mark.parametrize("text", ["", None])
    def test_an_empty_query_is_named_and_kept(self, converted, files, text):
        health = converted(queries=[{"id": "q1", "text": "a"}, {"id": "q2", "text": text}])
        assert health["empty queries"] == ["q2"]
        assert topics(files) == {"q1": "a", "q2": ""}

    def test_a_document_given_twice_is_kept_once(self, converted, files):
        health = converted(corpus=[{"id": "d1", "text": "a"}, {"id": "d2", "text": "b"}, {"id": "d1", "text": "a"}])
        assert [doc["id"] for doc in docs(files)] == ["d1", "d2"]
        assert (health["documents"], health["documents given twice"]) == (2, ["d1"])

    def test_a_query_given_twice_is_kept_once(self, converted, files):
        health = converted(queries=[{"id": "q1", "text": "a"}, {"id": "q1", "text": "a", "answer": "b"}])
        assert (health["queries"], health["queries given twice"]) == (1, ["q1"])
        assert topics(files) == {"q1": "a"}

    def test_a_judgement_given_twice_is_kept_once(self, converted, files):
        health = converted(qrels=[{"q_id": "q1", "p_id": "d1", "score": score} for score in (1, "1", 1.0)])
        assert (health["judgements"], health["judgements given twice"]) == (1, ["q1 d1", "q1 d1"])
        assert files.qrels.read_text() == "q1 0 d1 1\n"

    def test_an_absent_document_that_is_judged_is_named(self, converted):
        health = converted(qrels=[{"q_id": "q1", "p_id": doc, "score": 1} for doc in ("d1", "zz", "d9")])
        assert health["judged documents missing"] == ["d9", "zz"]

    def test_an_absent_query_that_is_judged_is_named(self, converted):
        health = converted(qrels=[{"q_id": query, "p_id": "d1", "score": 1} for query in ("q1", "q2", "q9")])
        assert health["judged queries missing"] == ["q9"]

    def test_a_query_without_judgements_is_named(self, converted):
        assert converted(qrels=[{"q_id": "q1", "p_id": "d1", "score": 1}])["queries without judgements"] == ["q2"]

    def test_numeric_ids_are_read_as_text_and_noted(self, converted, files):
        health = converted(
            corpus=[{"id": 7, "text": "a"}],
            queries=[{"id": "q", "text": "a"}, {"id": 0, "text": "b"}],
            qrels=[{"q_id": 0, "p_id": 7, "score": 1}],
        )
        assert docs(files)[0]["id"] == "7"
        assert set(topics(files)) == {"0", "q"}
        assert files.qrels.read_text() == "0 0 7 1\n"
        assert health["ids written as numbers"] == [
            f"{CORPUS_FILE}:1",
            f"{QUERY_FILE}:2",
            f"{QRELS_FILE}:1",
        ]

    @pytest.mark.parametrize(("kind", "noun"), [("corpus", "documents"), ("queries", "queries")])
    def test_a_text_that_another_one_has_too_is_noted(self, converted, kind, noun):
        texts = {"x1": "a", "x2": "b", "x3": "a", "x4": "a ", "x5": "", "x6": ""}
        health = converted(**{kind: [{"id": name, "text": text} for name, text in texts.items()]})
        assert health[f"{noun} with another's text"] == ["x3"]
        assert health[noun] == 6

    def test_a_key_that_is_not_used_is_noted_once_a_file(self, converted):
        health = converted(
            corpus=[{"id": f"d{number}", "text": f"a{number}", "title": "b", "doc_id": 1} for number in (1, 2)],
            queries=[{"id": "q1", "text": "a", "answer": "b", "body_system": "c", "title": "d", "note": 1}],
            qrels=[{"q_id": "q1", "p_id": "d1", "score": 1, "note": 1}],
        )
        assert health["keys not used"] == [
            f"{CORPUS_FILE}: title", f"{QUERY_FILE}: title", f"{QUERY_FILE}: note", f"{QRELS_FILE}: note",
        ]  # fmt: skip

    def test_warnings_count_and_name_the_first_three(self):
        health = {"empty queries": ["a"], "judged documents missing": [f"d{n}" for n in range(1200)]}
        assert warnings(health) == [
            "1,200 judged but not in the corpus: d0, d1, d2, ...",
            "1 empty queries (no hits): a",
        ]

    @pytest.mark.parametrize(
        "key",
        [
            "judged documents missing",
            "judged queries missing",
            "queries without judgements",
            "empty queries",
            "empty documents",
            "documents given twice",
            "queries given twice",
            "judgements given twice",
            "documents with another's text",
            "queries with another's text",
            "ids written as numbers",
            "keys not used",
        ],
    )
    def test_every_finding_has_a_warning(self, key):
        (warning,) = warnings({key: ["x1", "x2", "x3"]})
        assert warning.startswith("3 ") and warning.endswith(": x1, x2, x3")


class TestFaults:
    def test_one_id_with_two_texts_names_both_lines(self, faults_of):
        (fault,) = faults_of(corpus=[{"id": "d0", "text": "x"}, {"id": "d1", "text": "a"}, {"id": "d1", "text": "b"}])
        assert fault.endswith(f"{CORPUS_FILE}:3: id 'd1' stands on line 2 already, with another text")

    def test_a_number_and_a_string_can_be_the_same_id(self, faults_of):
        (fault,) = faults_of(queries=[{"id": 7, "text": "a"}, {"id": "7", "text": "b"}])
        assert "id '7' stands on line 1 already" in fault

    @pytest.mark.parametrize("letter", ["x", "日"])
    def test_an_id_is_no_longer_than_lucene_takes(self, converted, faults_of, letter):
        longest = letter * (MAX_IDENTIFIER // len(letter.encode()))
        assert converted(corpus=[{"id": longest, "text": "a"}])["documents"] == 1
        (fault,) = faults_of(corpus=[{"id": longest + "x", "text": "a"}])
        assert fault.endswith(f"... ({len(longest) + 3:,} characters); {IDENTIFIER} is wanted") and len(fault) < 500

    def test_a_text_is_no_longer_than_anserini_reads(self, converted, faults_of, monkeypatch):
        monkeypatch.setattr("r2med_pyserini.collection.MAX_TEXT", 60)
        assert converted(corpus=[{"id": "d1", "text": "x" * 60}])["documents"] == 1
        (fault,) = faults_of(corpus=[{"id": "d1", "text": "x" * 61}])
        assert fault.endswith(f"{CORPUS_FILE}:1: 'text' has 61 characters; Anserini reads at most 60")

    def test_one_query_with_two_texts_names_both_lines(self, faults_of):
        (fault,) = faults_of(queries=[{"id": "q1", "text": "a"}, {"id": "q1", "text": ""}])
        assert fault.endswith(f"{QUERY_FILE}:2: id 'q1' stands on line 1 already, with another text")

    def test_a_pair_judged_differently_names_both_lines(self, faults_of):
        (fault,) = faults_of(qrels=[{"q_id": "q1", "p_id": "d1", "score": score} for score in (1, 0)])
        assert fault.endswith(f"{QRELS_FILE}:2: query 'q1', document 'd1': judged 1 on line 1, now 0")

    @pytest.mark.parametrize(
        "identifier", ["", " ", "a b", "a\tb", " a", "a ", "a\n", "\r", "a\x0bb", "a\x0cb", *CONTROLS]
    )
    @pytest.mark.parametrize("kind", ["corpus", "queries"])
    def test_an_id_holds_no_white_space(self, faults_of, kind, identifier):
        (fault,) = faults_of(**{kind: [{"id": identifier, "text": "a"}]})
        assert f":1: 'id' is {identifier!r}; {IDENTIFIER} is wanted" in fault

    @pytest.mark.parametrize("identifier", [None, True, 1.5, ["a"], {"a": 1}])
    def test_an_id_is_a_string(self, faults_of, identifier):
        (fault,) = faults_of(corpus=[{"id": identifier, "text": "a"}])
        assert f"{CORPUS_FILE}:1: 'id' is {identifier!r}; {IDENTIFIER} is wanted" in fault

    @pytest.mark.parametrize("key", ["q_id", "p_id"])
    def test_the_ids_of_a_judgement_are_checked_too(self, faults_of, key):
        (fault,) = faults_of(qrels=[{"q_id": "q1", "p_id": "d1", "score": 1} | {key: "a b"}])
        assert f"{QRELS_FILE}:1: {key!r} is 'a b'; {IDENTIFIER} is wanted" in fault

    @pytest.mark.parametrize("text", [7, 0.5, True, ["a"], {"a": "b"}])
    @pytest.mark.parametrize(("kind", "name"), [("corpus", CORPUS_FILE), ("queries", QUERY_FILE)])
    def test_a_text_is_a_string(self, faults_of, kind, name, text):
        (fault,) = faults_of(**{kind: [{"id": "x", "text": text}]})
        assert fault.endswith(f"{name}:1: 'text' is {text!r}; a string is wanted")

    @pytest.mark.parametrize("score", [2, "2", 1.0, -1, "-1", 0])
    def test_ways_to_write_a_score(self, converted, files, score):
        converted(qrels=[{"q_id": "q1", "p_id": "d1", "score": score}])
        assert files.qrels.read_text() == f"q1 0 d1 {int(score)}\n"

    @pytest.mark.parametrize("score", [0.5, True, "high", None, [1], "", 1001, "1_0", "1e3 "])
    def test_anything_else_is_no_score(self, faults_of, score):
        (fault,) = faults_of(qrels=[{"q_id": "q1", "p_id": "d1", "score": score}])
        assert fault.endswith(f"{QRELS_FILE}:1: 'score' is {score!r}; an integer from -1,000 to 1,000 is wanted")

    @pytest.mark.parametrize(
        ("kind", "row", "key", "near"),
        [
            ("corpus", {"_id": "d1", "text": "a"}, "id", "_id"),
            ("corpus", {"id": "d1", "txt": "a"}, "text", "txt"),
            ("corpus", {"id": "d1", "Text": "a"}, "text", "Text"),
            ("queries", {"id": "d1", "texts": "a"}, "text", "texts"),
            ("qrels", {"qid": "q1", "p_id": "d1", "score": 1}, "q_id", "qid"),
            ("qrels", {"q_id": "q1", "pid": "d1", "score": 1}, "p_id", "pid"),
            ("corpus", {"ID": "d1", "text": "a"}, "id", "ID"),
            ("corpus", {"id": "d1", "TEXT": "a"}, "text", "TEXT"),
            ("qrels", {"q_id": "q1", "p_id": "d1", "scores": 1}, "score", "scores"),
        ],
    )
    def test_a_misspelt_key_is_recognised(self, faults_of, kind, row, key, near):
        (fault,) = faults_of(**{kind: [row]})
        assert f":1: no key {key!r}; did you mean {near!r}?" in fault

    @pytest.mark.parametrize(
        ("kind", "row", "words"),
        [
            ("corpus", {"text": "a"}, "no key 'id' (keys here: text)"),
            ("corpus", {"id": "d1"}, "no key 'text' (keys here: id)"),
            ("queries", {"text": "a"}, "no key 'id' (keys here: text)"),
            ("qrels", {"p_id": "d1", "score": 1}, "no key 'q_id'"),
            ("qrels", {"q_id": "q1", "score": 1}, "no key 'p_id'"),
            ("qrels", {"q_id": "q1", "p_id": "d1"}, "no key 'score' (keys here: q_id, p_id)"),
        ],
    )
    def test_a_missing_key_is_named(self, faults_of, kind, row, words):
        (fault,) = faults_of(**{kind: [row]})
        assert words in fault

    @pytest.mark.parametrize(
        ("kind", "keys"),
        [("corpus", ["id", "text"]), ("queries", ["id", "text"]), ("qrels", ["q_id", "p_id", "score"])],
    )
    def test_all_missing_keys_are_named(self, faults_of, kind, keys):
        found = faults_of(**{kind: [{}]})
        assert [fault.split(":1: ")[1] for fault in found] == [f"no key {key!r} (keys here: none)" for key in keys]

    def test_faults_of_all_files_are_reported_together(self, faults_of):
        found = faults_of(
            corpus=[{"id": "d1", "text": 1}, "[]", {"id": "d 2", "text": "a"}],
            queries=["{"],
            qrels=[{"q_id": "q1", "p_id": "d1", "score": "x"}],
        )
        places = [fault.split(": ")[0].rpartition("/")[2] for fault in found]
        assert places == [
            f"{CORPUS_FILE}:1", f"{CORPUS_FILE}:2", f"{CORPUS_FILE}:3", f"{QUERY_FILE}:1:2", f"{QRELS_FILE}:1",
        ]  # fmt: skip

    @pytest.mark.parametrize("name", RAW_FILES)
    @pytest.mark.parametrize("content", [b"", b"\n \n", BOM])
    def test_an_empty_file_is_refused(self, make_dataset, files, name, content):
        raw = make_dataset()
        (raw / name).write_bytes(content)
        with pytest.raises(BadInput) as caught:
            convert(raw, files)
        assert caught.value.faults == [f"{raw / name}: holds no row"]

    @pytest.mark.parametrize("name", RAW_FILES)
    def test_a_missing_file_is_named(self, make_dataset, files, name):
        raw = make_dataset()
        (raw / name).unlink()
        with pytest.raises(BadInput, match=rf"tiny\b.*\b{name}"):
            convert(raw, files)

    def test_a_folder_in_place_of_a_file_is_named(self, make_dataset, files):
        raw = make_dataset()
        (raw / QUERY_FILE).unlink()
        (raw / QUERY_FILE).mkdir()
        with pytest.raises(BadInput, match=QUERY_FILE):
            convert(raw, files)

    def test_nothing_but_the_documents_is_written_when_there_are_faults(self, faults_of, files):
        faults_of(qrels=["[]"])
        assert not any(path.exists() for path in (files.topics, files.topics_tsv, files.qrels, files.health))
