import gzip
import json
import math
import random
from pathlib import Path

import pytest

from r2med_pyserini import trec
from r2med_pyserini.errors import BadInput
from r2med_pyserini.jsonl import Faults
from r2med_pyserini.trec import (
    IDENTIFIER,
    MAX_IDENTIFIER,
    MAX_RELEVANCE,
    _read_plain,
    identifier,
    judged,
    judgement_rows,
    number,
    read_qrels,
    read_run,
    read_topics,
    relevance,
    write_qrels,
    write_run,
    write_topics,
)

BOM = b"\xef\xbb\xbf"
RUN = b"q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1 tag\nq2 Q0 d1 1 -0.5 tag\n"
AS_READ = {"q1": {"d1": 2.5, "d2": 1.0}, "q2": {"d1": -0.5}}
ODD_IDS = ["a\u00a0b", "\u00a0a", "a\u3000b", "a\u2003b", "a\u2028b", "a\x85b", "naïve", "日本", "𝛼"]


def faults_of(read, path):
    with pytest.raises(BadInput) as caught:
        read(path)
    return caught.value.faults


class TestReadRun:
    @pytest.mark.parametrize(
        "content",
        [
            RUN,
            RUN.rstrip(b"\n"),
            RUN.replace(b"\n", b"\r\n"),
            BOM + RUN,
            b"\n" + RUN.replace(b"\n", b"\n \t\n"),
            RUN.replace(b" ", b"\t"),
            b"  " + RUN.replace(b" ", b"  "),
            gzip.compress(RUN, mtime=0),
            gzip.compress(BOM + RUN.replace(b"\n", b"\r\n")),
        ],
        ids=["plain", "no newline", "CRLF", "BOM", "blank lines", "tabs", "several blanks", "gzip", "gzip BOM CRLF"],
    )
    def test_ways_to_save_a_run_read_the_same(self, write, content):
        assert read_run(write("run.txt", content)) == AS_READ

    def test_a_gzipped_run_needs_no_special_name(self, write):
        assert read_run(write("run.txt.gz", RUN)) == read_run(write("plain", gzip.compress(RUN, mtime=0))) == AS_READ

    def test_queries_and_documents_keep_the_order_of_the_file(self, write):
        run = read_run(write("run.txt", "q2 Q0 b 9 1 t\nq1 Q0 z 1 3 t\nq2 Q0 a 1 5 t\n"))
        assert {query: list(documents) for query, documents in run.items()} == {"q2": ["b", "a"], "q1": ["z"]}
        assert list(run) == ["q2", "q1"]

    @pytest.mark.parametrize("second", ["Q0", "q0", "0", "-", "x"])
    def test_any_second_column_is_accepted(self, write, second):
        assert read_run(write("run.txt", f"q {second} d 1 1.5 t\n")) == {"q": {"d": 1.5}}

    @pytest.mark.parametrize("rank", ["1", "0", "x", "-3"])
    def test_any_rank_is_accepted(self, write, rank):
        assert read_run(write("run.txt", f"q Q0 d {rank} 1.5 t\n")) == {"q": {"d": 1.5}}

    @pytest.mark.parametrize(("text", "score"), [("3", 3.0), ("+3", 3.0), ("-1e-3", -0.001), (".5", 0.5)])
    def test_ways_to_write_a_score(self, write, text, score):
        assert read_run(write("run.txt", f"q Q0 d 1 {text} t\n")) == {"q": {"d": score}}

    @pytest.mark.parametrize("odd", ODD_IDS)
    def test_ids_are_parted_by_ascii_white_space_only(self, write, odd):
        assert read_run(write("run.txt", f"{odd} Q0 {odd} 1 1 t\n")) == {odd: {odd: 1.0}}

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("q1 Q0 d9 1 2.5 my tag", "7 columns"),
            ("q1 Q0 d9 1 2.5 my tag", "6: query Q0 document rank score tag"),
            ("q1 Q0 d9 1 2.5", "5 columns"),
            ("q1\u00a0Q0 d9 1 2.5 t", "5 columns"),
            ("query Q0 document rank score tag", "score 'score' is not a finite number"),
            ("qid,Q0,docno,rank,score,tag", "1 columns"),
            ("q1 Q0 d9 1 high t", "'high'"),
            ("q1 Q0 d9 1 1,5 t", "'1,5'"),
            ("q1 Q0 d9 1 NaN t", "'NaN'"),
            ("q1 Q0 d9 1 nan t", "'nan'"),
            ("q1 Q0 d9 1 inf t", "'inf'"),
            ("q1 Q0 d9 1 -Infinity t", "'-Infinity'"),
            ("q1 Q0 d9 1 1e999 t", "'1e999'"),
            ("q1 Q0 d9 1 1_0 t", "'1_0'"),
            ("q1 Q0 d\0 1 1 t", "holds a NUL character"),
            ("q1 Q0 d9 1 ١٢ t", "'١٢'"),
        ],
    )
    def test_a_bad_row_is_a_fault_of_its_line(self, write, line, words):
        path = write("run.txt", RUN + line.encode() + b"\n")
        (fault,) = faults_of(read_run, path)
        assert fault.startswith(f"{path}:4: ")
        assert words in fault

    def test_a_header_is_a_fault_of_line_1(self, write):
        path = write("run.txt", b"query iter docno rank sim run_id\n" + RUN)
        (fault,) = faults_of(read_run, path)
        assert fault.startswith(f"{path}:1: score 'sim'")

    def test_bytes_that_are_no_utf8_are_a_fault_of_their_line(self, write):
        path = write("run.txt", RUN + b"q1 Q0 caf\xe9 1 2.5 t\n")
        (fault,) = faults_of(read_run, path)
        assert fault.startswith(f"{path}:4: not UTF-8")

    def test_the_same_document_twice_names_both_lines(self, write):
        path = write("run.txt", "q1 Q0 d1 1 2 t\nq1 Q0 d2 2 1 t\n\nq1 Q0 d1 3 0.5 t\n")
        (fault,) = faults_of(read_run, path)
        assert fault == f"{path}:4: document 'd1' of query 'q1' stands on line 1 already"

    def test_several_faults_are_reported_in_one_go(self, write):
        path = write("run.txt", "q Q0 d\nq Q0 d 1 x t\nq Q0 d 1 1 t\nq Q0 d 2 1 t\n")
        assert [fault.removeprefix(f"{path}:")[:2] for fault in faults_of(read_run, path)] == ["1:", "2:", "4:"]

    @pytest.mark.parametrize("content", [b"", b"\n \n", BOM, gzip.compress(b"")], ids=["empty", "blank", "BOM", "gzip"])
    def test_a_file_without_a_row_is_a_run_without_hits(self, write, content):
        assert read_run(write("run.txt", content)) == {}

    @pytest.mark.parametrize("kept", [12, -20, -8, -1])
    def test_a_truncated_gzip_is_a_clear_error(self, write, kept):
        rows = b"".join(b"q Q0 doc%d %d %d t\n" % (rank, rank, 5000 - rank) for rank in range(5000))
        path = write("run.txt.gz", gzip.compress(rows, mtime=0)[:kept])
        (fault,) = faults_of(read_run, path)
        assert fault.startswith(f"{path}: cannot be read: ")

    def test_a_damaged_gzip_is_a_clear_error(self, write):
        packed = bytearray(gzip.compress(RUN * 100))
        packed[20:30] = bytes(10)
        path = write("run.txt.gz", bytes(packed))
        (fault,) = faults_of(read_run, path)
        assert fault.startswith(f"{path}: cannot be read: ")


class TestTwoWaysToReadARun:
    """Files in the form of `write_run` are read in one go; the rest, and every faulty one, line by line."""

    ROWS = [f"q{query} Q0 d{rank} {rank} {9 - rank}.5 t" for query in (1, 2) for rank in (1, 2, 3)]  # noqa: RUF012

    @pytest.fixture
    def in_one_go(self, monkeypatch):
        """How often a file was read in one go."""
        found = []

        def watched(path):
            found.append(_read_plain(path))
            return found[-1]

        monkeypatch.setattr(trec, "_read_plain", watched)
        return lambda: sum(run is not None for run in found)

    @staticmethod
    def result(path):
        try:
            return [(query, list(hits.items())) for query, hits in read_run(path).items()]
        except BadInput as error:
            return error.faults

    def test_what_is_written_is_read_in_one_go(self, write, in_one_go):
        assert read_run(write("run.txt", "\n".join([*self.ROWS, ""])))["q2"] == {"d1": 8.5, "d2": 7.5, "d3": 6.5}
        assert in_one_go() == 1

    def test_so_is_a_file_without_a_row(self, write, in_one_go):
        assert read_run(write("run.txt", "")) == {}
        assert in_one_go() == 1

    @pytest.mark.parametrize("size", [1, 30, 31, 40, 63, 64, 1000])
    def test_so_is_a_file_of_many_blocks_unless_a_line_is_longer(self, write, in_one_go, monkeypatch, size):
        path = write("run.txt.gz", gzip.compress("\n".join([*self.ROWS, ""]).encode()))
        whole = self.result(path)
        monkeypatch.setattr(trec, "_BLOCK", size)
        assert self.result(path) == whole
        assert in_one_go() == (2 if size >= len(self.ROWS[0]) + 1 else 1)

    @pytest.mark.parametrize("seed", range(300))
    def test_both_give_the_same_of_any_file(self, write, seed, monkeypatch):
        chance = random.Random(seed)
        pieces = [" ", "\t", "\n", "\r", "\0", "\x0b", "\x1c", "\x7f", "\u00a0", "\u2028", "é", "\ufeff", "", "1", "-",
                  "e5", "1e999", "nan", "1_0", "1e5", "+1.", "q1", "d1", "x y", "\n\n", "  ", *self.ROWS]  # fmt: skip
        text = "\n".join(self.ROWS if chance.random() < 0.7 else chance.sample(self.ROWS, 5)) + "\n"
        for _ in range(chance.randrange(1, 4)):
            start = chance.randrange(len(text))
            text = text[:start] + chance.choice(pieces) + text[start + chance.choice((0, 0, 1, 1, 3)) :]
        path = write("run.txt", gzip.compress(text.encode()) if chance.random() < 0.2 else text)
        monkeypatch.setattr(trec, "_BLOCK", chance.choice((20, 50, 2**16)))
        found = self.result(path)
        monkeypatch.setattr(trec, "_read_plain", lambda path: None)
        assert found == self.result(path)


@pytest.mark.parametrize("read", [read_run, read_qrels])
class TestFiles:
    def test_a_missing_file_is_named(self, tmp_path, read):
        path = tmp_path / "none.txt"
        assert faults_of(read, path) == [f"{path}: cannot be read: No such file or directory"]

    def test_a_folder_in_place_of_a_file_is_named(self, tmp_path, read):
        assert faults_of(read, tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]


class TestWriteRun:
    def test_the_form_is_byte_exact(self, tmp_path):
        write_run(tmp_path / "r", [("q2", ["a", "é"], [12.3456789, 3.0]), ("q1", [], []), ("q10", ["c"], [-0.0000004])])
        assert (tmp_path / "r").read_bytes() == (
            "q2 Q0 a 1 12.345679 Anserini\nq2 Q0 é 2 3.000000 Anserini\nq10 Q0 c 1 -0.000000 Anserini\n"
        ).encode()

    def test_the_tag_can_be_chosen(self, tmp_path):
        write_run(tmp_path / "r", [("q", ["d"], [1])], tag="mine")
        assert (tmp_path / "r").read_text() == "q Q0 d 1 1.000000 mine\n"

    def test_scores_can_have_another_form(self, tmp_path):
        write_run(tmp_path / "r", [("q", ["d"], [1 / 3])], score_format=".9g")
        assert (tmp_path / "r").read_text() == "q Q0 d 1 0.333333333 Anserini\n"

    def test_what_is_written_reads_back(self, tmp_path):
        hits = [(query, [*ODD_IDS], [float(9 - rank) for rank in range(len(ODD_IDS))]) for query in ("q\u00a01", "q2")]
        write_run(tmp_path / "r", hits)
        assert read_run(tmp_path / "r") == {
            query: dict(zip(documents, scores, strict=True)) for query, documents, scores in hits
        }

    def test_documents_without_scores_are_not_cut_off_in_silence(self, tmp_path):
        with pytest.raises(ValueError):
            write_run(tmp_path / "r", [("q", ["a", "b"], [1.0])])


class TestReadQrels:
    AS_READ = {"q1": {"d1": 2, "d2": -1}, "q2": {"d1": 0}}  # noqa: RUF012
    TREC = b"q1 0 d1 2\nq1 0 d2 -1\nq2 0 d1 0\n"
    JSONL = (
        b'{"q_id": "q1", "p_id": "d1", "score": 2}\n'
        b'{"score": -1, "p_id": "d2", "q_id": "q1", "note": "more"}\n'
        b'{"q_id": "q2", "p_id": "d1", "score": 0}\n'
    )

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("qrels.txt", TREC),
            ("qrels.tsv", TREC.replace(b" ", b"\t")),
            ("qrels.txt", BOM + TREC.replace(b"\n", b"\r\n").rstrip()),
            ("qrels.txt", b"\n" + TREC + b"\n\n"),
            ("qrels.txt.gz", gzip.compress(TREC, mtime=0)),
            ("qrels.txt", TREC.replace(b" 0 ", b" Q0 ")),
            ("qrels.txt", TREC + TREC),
            ("qrels.jsonl", JSONL),
            ("qrels.jsonl", BOM + JSONL.replace(b"\n", b"\r\n").rstrip()),
            ("qrels.jsonl", JSONL + JSONL),
            ("qrels.jsonl", JSONL.replace(b"2}", b'"2"}').replace(b"-1", b"-1.0")),
        ],
    )
    def test_ways_to_save_qrels_read_the_same(self, write, name, content):
        assert read_qrels(write(name, content)) == self.AS_READ

    @pytest.mark.parametrize("odd", ODD_IDS)
    def test_odd_ids_stay_whole(self, write, odd):
        row = {"q_id": odd, "p_id": odd, "score": 1}
        as_jsonl = read_qrels(write("qrels.jsonl", json.dumps(row, ensure_ascii=False)))
        assert read_qrels(write("qrels.txt", f"{odd} 0 {odd} 1\n")) == as_jsonl == {odd: {odd: 1}}

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("q1 0", "2 columns"),
            ("q1 0", "query 0 document relevance"),
            ("q1 0 d9", "3 columns, but the rows above have 4"),
            ("q1 0 d9 1 x", "5 columns"),
            ("query 0 document relevance", "'score' is 'relevance'; an integer from -1,000 to 1,000 is wanted"),
            ("q1 0 d9 0.5", "'score' is '0.5'; an integer from -1,000 to 1,000 is wanted"),
            ("q1 0 d9 nan", "'score' is 'nan'; an integer from -1,000 to 1,000 is wanted"),
            ("q1 0 d9 inf", "'score' is 'inf'; an integer from -1,000 to 1,000 is wanted"),
            ("q1 0 d9 1001", "'score' is '1001'; an integer from -1,000 to 1,000 is wanted"),
            ("q1 0 d9 1_0", "'score' is '1_0'; an integer from -1,000 to 1,000 is wanted"),
            ("q1 0 d1 1", "query 'q1', document 'd1': judged 2 before, now 1"),
        ],
    )
    def test_a_bad_row_is_a_fault_of_its_line(self, write, line, words):
        path = write("qrels.txt", self.TREC + line.encode() + b"\n")
        (fault,) = faults_of(read_qrels, path)
        assert fault.startswith(f"{path}:4: ")
        assert words in fault

    @pytest.mark.parametrize(
        ("row", "words"),
        [
            ({"q_id": "q1", "p_id": "d9"}, "no key 'score' (keys here: q_id, p_id)"),
            ({"qid": "q1", "p_id": "d9", "score": 1}, "no key 'q_id'; did you mean 'qid'? (keys here: qid, p_id,"),
            ({"q_id": "q1", "p_id": "d9", "score": True}, "'score' is True; an integer from -1,000 to 1,000 is wanted"),
            ({"q_id": "q1", "p_id": "d9", "score": None}, "'score' is None; an integer from -1,000 to 1,000 is wanted"),
            (
                {"q_id": "q1", "p_id": "d9", "score": "high"},
                "'score' is 'high'; an integer from -1,000 to 1,000 is wanted",
            ),
            ({"q_id": "q1", "p_id": "d1", "score": 0}, "judged 2 before, now 0"),
            (["q1", "d9", 1], "a JSON object is wanted"),
            *(
                ({"q_id": bad, "p_id": "d9", "score": 1}, f"'q_id' is {bad!r}; {IDENTIFIER} is wanted")
                for bad in (None, ["q1"], "", "q 1")
            ),
        ],
    )
    def test_a_bad_json_row_is_a_fault_of_its_line(self, write, row, words):
        path = write("qrels.jsonl", self.JSONL + json.dumps(row).encode() + b"\n")
        (fault,) = faults_of(read_qrels, path)
        assert fault.startswith(f"{path}:4: ")
        assert words in fault

    @pytest.mark.parametrize("name", ["qrels.txt", "qrels.jsonl"])
    def test_several_faults_are_reported_in_one_go(self, write, name):
        assert len(faults_of(read_qrels, write(name, "[]\n7\n\nq 0\n"))) == 3

    @pytest.mark.parametrize(("name", "content"), [("q.txt", b""), ("q.txt", b"\n\n"), ("q.jsonl", b"")])
    def test_qrels_without_a_judgement_are_refused(self, write, name, content):
        (fault,) = faults_of(read_qrels, write(name, content))
        assert "holds no judgement" in fault

    def test_a_truncated_gzip_is_a_clear_error(self, write):
        (fault,) = faults_of(read_qrels, write("qrels.txt.gz", gzip.compress(self.TREC, mtime=0)[:-4]))
        assert "qrels.txt.gz: cannot be read: " in fault

    @pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n"])
    def test_beirs_three_columns_are_read_with_and_without_a_header(self, write, header):
        path = write("qrels.tsv", header + "q1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n")
        assert read_qrels(path) == self.AS_READ

    def test_a_row_with_fewer_columns_than_the_rows_before_is_a_fault(self, write):
        (fault,) = faults_of(read_qrels, write("qrels.txt", "q1 0 11 1\nq1 0 12\n"))
        assert "qrels.txt:2: 3 columns" in fault

    def test_what_is_written_reads_back(self, tmp_path):
        write_qrels(tmp_path / "qrels.txt", self.AS_READ)
        assert (tmp_path / "qrels.txt").read_bytes() == self.TREC
        assert read_qrels(tmp_path / "qrels.txt") == self.AS_READ


@pytest.mark.parametrize(
    ("value", "grade"),
    [
        (1000, 1000),
        ("-1000", -1000),
        (2, 2),
        ("2", 2),
        (1.0, 1),
        ("1.0", 1),
        (-1, -1),
        ("-1", -1),
        (0, 0),
        ("0", 0),
        ("+1", 1),
        (-2.0, -2),
    ],
)
def test_relevance_is_a_whole_number_however_written(value, grade):
    found = relevance(value)
    assert (found, type(found)) == (grade, int)


@pytest.mark.parametrize(
    "value",
    [0.5, "0.5", True, False, "true", "high", "", None, [1], {"a": 1}, math.nan, math.inf, "nan", "-inf", "1 2", 2**31,
     "1_0", "١٢", MAX_RELEVANCE + 1, -MAX_RELEVANCE - 1, 1001.0, "1001", 2**31 - 1, 10**400, "1" * 400],
    ids=lambda value: repr(value)[:12],
)  # fmt: skip
def test_anything_else_is_no_relevance(value):
    assert relevance(value) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("+3", 3),
        ("-3", -3),
        ("007", 7),
        ("3.", 3),
        (".5", 0.5),
        ("-1.5e-3", -0.0015),
        ("2E+2", 200),
        ("0", 0),
    ],
)
def test_numbers_are_read_as_trec_eval_reads_them(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "-", "e5", "1e", "1e999", "-1e999", "nan", "inf", "Infinity", "1_0", "١٢", "0x1F", "1,5", "1 ", " 1",
     "1\n", "--1", "1.2.3", "high"],
)  # fmt: skip
def test_anything_else_is_no_number(text):
    assert number(text) is None


@pytest.mark.parametrize(
    ("value", "name"), [("d1", "d1"), (7, "7"), (0, "0"), (-1, "-1"), ("007", "007"), *((odd, odd) for odd in ODD_IDS)]
)
def test_an_id_is_text_or_a_whole_number(value, name):
    assert identifier(value) == name


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        1.5,
        1.0,
        ["a"],
        {"a": 1},
        b"a",
        "",
        " ",
        "a b",
        " a",
        "a ",
        "a\t",
        "\n",
        "a\x0bb",
        "a\x00b",
        "\x1f",
        "a\x7fb",
        "\ufeffa",
        "a\ufeffb",
        "x" * (MAX_IDENTIFIER + 1),
        "日" * 10_923,
    ],
    ids=lambda value: repr(value)[:12],
)
def test_anything_else_is_no_id(value):
    assert identifier(value) is None


class TestJudged:
    PLACE = Path("f.jsonl"), 7

    def test_ids_become_text_and_the_relevance_a_number(self):
        faults = Faults()
        assert judged(*self.PLACE, {"q_id": 1, "p_id": "d", "score": "2", "note": "x"}, faults) == ("1", "d", 2)
        faults.check()

    def test_everything_that_is_wrong_is_noted(self):
        faults = Faults()
        assert judged(*self.PLACE, {"q_id": "a b", "pid": "d", "score": "high"}, faults) is None
        with pytest.raises(BadInput) as caught:
            faults.check()
        assert caught.value.faults == [
            f"f.jsonl:7: 'q_id' is 'a b'; {IDENTIFIER} is wanted",
            "f.jsonl:7: no key 'p_id'; did you mean 'pid'? (keys here: q_id, pid, score)",
            "f.jsonl:7: 'score' is 'high'; an integer from -1,000 to 1,000 is wanted",
        ]


class TestJudgementRows:
    ROWS = [(1, {"q_id": "q1", "p_id": "d1", "score": "2"}), (2, {"q_id": "q1", "p_id": "d2", "score": "high"})]  # noqa: RUF012

    @pytest.mark.parametrize(
        ("name", "content", "lines_above"),
        [
            ("qrels.txt", "q1 0 d1 2\nq1 0 d2 high\n", 0),
            ("qrels.tsv", "q1\td1\t2\nq1\td2\thigh\n", 0),
            ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\thigh\n", 1),
            (
                "qrels.jsonl",
                '{"q_id": "q1", "p_id": "d1", "score": "2"}\n{"q_id": "q1", "p_id": "d2", "score": "high"}',
                0,
            ),
        ],
    )
    def test_rows_are_the_same_whatever_the_form_and_unchecked(self, write, name, content, lines_above):
        faults = Faults()
        found = list(judgement_rows(write(name, content), faults))
        faults.check()
        assert found == [(line + lines_above, row) for line, row in self.ROWS]

    @pytest.mark.parametrize("first", ["q1 0 d1 1", "q1 d1 1"])
    def test_the_first_row_says_how_many_columns_there_are(self, write, first):
        faults, other = Faults(), {"q1 0 d1 1": "q2 d1 1", "q1 d1 1": "q2 0 d1 1"}[first]
        path = write("qrels.txt", f"{first}\n{other}\n{first}\n")
        assert [line for line, _ in judgement_rows(path, faults)] == [1, 3]
        with pytest.raises(BadInput, match=r"qrels\.txt:2: \d columns, but the rows above have \d"):
            faults.check()

    @pytest.mark.parametrize("header", ["query-id corpus-id score", "q d ½"])
    def test_a_header_stands_on_top_only(self, write, header):
        rows = list(judgement_rows(write("qrels.txt", f"q1 d1 1\n{header}\n"), Faults()))
        assert [row["q_id"] for _, row in rows] == ["q1", header.split()[0]]


class TestTopics:
    TOPICS = {"b": "two", "a": "tab\there\nline", "007": "  blanks  ", "9": "", "10": 'é “quoted” "x" \\'}  # noqa: RUF012

    @pytest.fixture
    def written(self, tmp_path):
        write_topics(tmp_path / "topics.json", tmp_path / "topics.tsv", self.TOPICS)
        return tmp_path

    def test_texts_read_back_whole(self, written):
        assert read_topics(written / "topics.json") == self.TOPICS

    def test_topics_are_sorted_by_id_as_a_string(self, written):
        assert list(read_topics(written / "topics.json")) == ["007", "10", "9", "a", "b"]
        rows = (written / "topics.tsv").read_bytes().decode().split("\n")
        assert [row.split("\t")[0] for row in rows] == ["007", "10", "9", "a", "b", ""]

    def test_the_json_form_is_pyserinis(self, written):
        assert json.loads((written / "topics.json").read_bytes())["a"] == {"title": "tab\there\nline"}

    @pytest.mark.parametrize(
        ("text", "folded"),
        [
            ("chest pain\tat rest\n2 days", "chest pain at rest 2 days"),
            ("a\r\n\r\n\tb", "a b"),
            ("a\x0bb\x0cc", "a b c"),
            ("a\x85b\u2028c\u2029d", "a b c d"),
            ("no\u00a0break", "no break"),
            ("a. \n b", "a. b"),
            ("  a ", "a"),
        ],
    )
    def test_white_space_is_folded_in_the_tsv_form(self, tmp_path, text, folded):
        write_topics(tmp_path / "topics.json", tmp_path / "topics.tsv", {"q": text})
        assert (tmp_path / "topics.tsv").read_bytes().decode() == f"q\t{folded}\n"
