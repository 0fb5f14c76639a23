import re
from dataclasses import replace
from html.parser import HTMLParser
from math import log2
from pathlib import Path

import pytest

from r2med_pyserini.conditions import load
from r2med_pyserini.errors import R2medError, UsageError
from r2med_pyserini.plan import prepare
from r2med_pyserini.report.shown import COLUMN, NARROWEST, cut, printable, spelled, width_of, wrap
from r2med_pyserini.showing import MOST, show

HOSTILE = "\x1b[2J\x07<script>alert(1)</script> & \u202eabc \u2028next \"quoted\" 'text'"
NDCG = f"{(1 / log2(1 + 4)) / (2 / log2(1 + 1) + 1 / log2(1 + 2) + 1 / log2(1 + 3)):.4f}"  # of bm25's run below
WIDE = "胸痛" * 40


@pytest.fixture
def suite(make_dataset) -> Path:
    """One dataset, of a user: what a text can hold that must not reach a terminal, or a page, as it stands."""
    corpus = {
        "right": f"The relevant one. {'word ' * 200}the very end",
        "better": "More relevant still.",
        "wrong": "Judged, and of no use.",
        "hostile": HOSTILE,
        "wide": WIDE,
        "long/" + "x" * 120: "a long name",
    }
    queries = [
        {"id": "q1", "text": f"first line\n\n\nsecond {HOSTILE}", "answer": "angina", "body_system": "  "},
        {"id": "q2", "text": "not judged", "answer": 7},
        {"id": "q3", "text": "without hits"},
    ]
    grades = {"right": 1, "better": 2, "wrong": 0, "absent": 1}
    qrels = [{"q_id": "q1", "p_id": name, "score": grade} for name, grade in grades.items()]
    qrels += [{"q_id": "q3", "p_id": "wrong", "score": 0}]
    return make_dataset("own", [{"id": name, "text": text} for name, text in corpus.items()], queries, qrels)


def rows(query: str, *hits: tuple[str, float]) -> str:
    return "".join(f"{query} Q0 {name} {rank} {score} t\n" for rank, (name, score) in enumerate(hits, 1))


@pytest.fixture
def plant(workspace, suite):
    """Puts a run in the workspace where a condition's current run would be; everything else is made as ever."""

    def plant(condition: str, run: str) -> None:
        prepared = prepare(str(suite), conditions=[load(condition)])
        for stage in prepared.stages:
            if stage.verb == "search":
                stage = replace(stage, build=lambda path: path.write_text(run), tools=())
            if stage.verb != "index":
                stage.make(prepared.setting.hashes)

    return plant


@pytest.fixture
def planted(plant, suite) -> str:
    """Runs of two conditions. Where a run and trec_eval disagree about ties, scores go by trec_eval."""
    long = "long/" + "x" * 120
    plant("bm25", rows("q1", ("hostile", 9), ("wide", 8), ("right", 5), ("wrong", 5)) + rows("q2", (long, 1)))
    plant("qld", rows("q1", ("better", 2.5), (long, 1.5), ("right", 1), ("hostile", 0.5)))
    return str(suite)


def call(suite: str, query: str = "q1", names=(), top: int = 3, width: int = 100, page: Path | None = None) -> str:
    return show(suite, "own", query, names, top, width, page)


def folded(text: str) -> str:
    return " ".join(text.split())


class TestText:
    def test_ranks_of_relevant_documents(self, planted):
        text = call(planted)
        assert "4 relevant" not in text and "3 relevant documents:" in text
        assert text.index("\nbetter (relevance 2)") < text.index("\nabsent") < text.index("\nright")
        said = folded(text)
        assert "better (relevance 2) qld: rank 1; not among the hits of bm25 More relevant still." in said
        assert "absent not among the hits of bm25, qld (it is not in the corpus)" in said
        assert "right bm25: rank 4; qld: rank 3 The relevant one." in said  # equal scores: by id, descending

    def test_hits_are_marked(self, planted):
        lines = call(planted, names=("bm25",), top=4).splitlines()
        marked = [line[:9].rstrip() for line in lines if re.match(r"\d [ +-] ", line)]
        assert marked == ["1   hosti", "2   wide", "3 - wrong", "4 + right"]

    def test_what_is_a_tie_to_trec_eval_is_one(self, plant, suite):
        plant("bm25", rows("q1", ("right", 2**24 + 1), ("wrong", 2**24), ("better", 1.5)))  # in single precision
        assert re.findall(r"^\d [ +-] (\w+)$", call(str(suite)), re.MULTILINE) == ["wrong", "right", "better"]

    def test_only_the_top_is_listed(self, planted):
        assert not any(re.match(r"3 [ +-] ", line) for line in call(planted, top=2).splitlines())

    def test_scores_of_the_query_stand_above(self, planted):
        assert f"nDCG@10 {NDCG}, R@100 0.3333, 4 hits" in call(planted, names=("bm25",))

    def test_conditions_are_those_named_or_all_that_have_a_run(self, planted):
        assert "qld" not in call(planted, names=("bm25",))
        one, other = call(planted), call(planted, names=("bm25", "qld"))
        assert one == other

    def test_what_the_dataset_says_of_a_query_besides(self, planted):
        text = call(planted)
        assert "Answer: angina" in text and "Body system" not in text
        assert "Answer" not in call(planted, "q2", ("bm25",))

    def test_lines_of_the_query_stay_apart(self, planted):
        assert "\nfirst line\n\nsecond " in call(planted)

    def test_a_query_without_judgements_and_one_without_hits(self, planted):
        assert "The query has no judgements." in call(planted, "q2", ("bm25",))
        text = call(planted, "q3")
        assert "None of its judged documents is relevant." in text and "R@100 0.0000, 0 hits" in text

    @pytest.mark.parametrize("width", [1, 20, 33, 40, 69, 70, 100, 300])
    def test_no_line_is_wider_than_the_terminal(self, planted, width):
        text = call(planted, top=10, width=width)
        assert max(map(width_of, text.splitlines())) <= max(width, NARROWEST)
        assert ("bm25" in text) and ("qld" in text)

    @pytest.mark.parametrize(("width", "beside"), [(2 * COLUMN + 1, False), (2 * COLUMN + 2, True)])
    def test_runs_stand_side_by_side_where_there_is_room(self, planted, width, beside):
        assert bool(re.search(r"^bm25 +qld$", call(planted, width=width), re.MULTILINE)) is beside

    def test_columns_stay_straight_beside_wide_letters(self, planted):
        lines = call(planted, width=80).splitlines()
        head = next(at for at, line in enumerate(lines) if line.startswith("bm25 "))
        column = lines[head].index("qld")
        both = [line for line in lines[head:] if width_of(line) > column]
        assert any("胸" in line for line in both)
        for line in both:
            places = {width_of(line[:at]): at for at in range(len(line) + 1)}
            assert line[: places[column]].endswith("  ")

    def test_nothing_reaches_the_terminal_that_it_would_obey(self, planted):
        text = call(planted, top=10)
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert r"\x1b[2J\x07<script>" in text and r"\u202e" in text

    def test_long_texts_are_cut(self, planted):
        assert "the very end" not in call(planted) and "word..." in call(planted)

    def test_many_relevant_documents(self, make_dataset, plant):
        names = [f"d{number:03}" for number in range(MOST + 2)]
        folder = make_dataset(
            "own",
            [{"id": name, "text": name} for name in names],
            [{"id": "q1", "text": "all"}],
            [{"q_id": "q1", "p_id": name, "score": 1} for name in names],
        )
        plant("bm25", rows("q1", ("d000", 1)))
        text = call(str(folder))
        assert f"{MOST + 2} relevant documents:" in text and "and 2 more" in text
        assert sum(line in names for line in text.splitlines()) == MOST


class TestPage:
    def test_it_holds_what_the_text_holds(self, planted, tmp_path):
        page = tmp_path / "q1.html"
        assert call(planted, page=page) == str(page)
        seen = _Seen.of(page)
        for words in ("angina", "not among the hits", "The relevant one.", "not relevant", f"nDCG@10 {NDCG}", "bm25"):
            assert words in seen.text
        assert "the very end" in seen.text  # it has room

    def test_texts_are_escaped(self, planted, tmp_path):
        call(planted, page=tmp_path / "q1.html")
        seen = _Seen.of(tmp_path / "q1.html")
        assert "<script>alert(1)</script> &" in seen.text and "alert(1)" not in seen.code
        html = (tmp_path / "q1.html").read_text(encoding="utf-8")
        assert not set("\x1b\x07\u202e") & set(html)

    def test_it_is_written_anew_and_the_same(self, planted, tmp_path):
        page = tmp_path / "q1.HTM"
        page.write_text("old")
        call(planted, page=page)
        first = page.read_bytes()
        call(planted, page=page)
        assert page.read_bytes() == first != b"old"

    def test_another_file_is_not_replaced(self, planted, write):
        with pytest.raises(UsageError, match=r"ends in \.html"):
            call(planted, page=write("corpus.jsonl", "mine"))

    def test_a_folder_that_is_not_there(self, planted, tmp_path):
        with pytest.raises(R2medError, match=r"cannot write .*q1\.html: No such file"):
            call(planted, page=tmp_path / "none" / "q1.html")


class _Seen(HTMLParser):
    """What a page shows, and what it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.code, self._inside = "", "", None

    @classmethod
    def of(cls, page: Path) -> "_Seen":
        seen = cls()
        seen.feed(page.read_text(encoding="utf-8"))
        return seen

    def handle_starttag(self, tag, attrs):
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside in ("script", "style"):
            self.code += data
        else:
            self.text += data


class TestRefused:
    def test_a_query_that_is_not_there(self, planted):
        with pytest.raises(UsageError, match=r"no query 'Q1' in own; did you mean 'q1'\? \(there are q1, q2, q3\)"):
            call(planted, "Q1")

    def test_a_dataset_or_a_condition_that_is_not_there(self, planted):
        with pytest.raises(UsageError, match="did you mean 'own'"):
            show(planted, "owl", "q1", (), 3, 80)
        with pytest.raises(UsageError, match="did you mean 'bm25'"):
            call(planted, names=("bm52",))

    def test_without_any_run(self, suite, workspace):
        with pytest.raises(R2medError, match=r"no current run on own; make it with `r2med run bm25 --suite .*own`"):
            call(str(suite))

    def test_a_condition_that_is_named_has_none(self, planted):
        with pytest.raises(
            R2medError, match=r"no current run of bm25qs on own; make it with `r2med run bm25qs --suite"
        ):
            call(planted, names=("bm25", "bm25qs"))

    def test_a_run_that_was_changed_is_none(self, planted, workspace):
        run = workspace.run("own", "own", "bm25")
        run.write_text(rows("q1", ("right", 1)))
        assert "bm25" not in call(planted)
        with pytest.raises(R2medError, match="no current run of bm25 on own"):
            call(planted, names=("bm25",))


class TestWords:
    @pytest.mark.parametrize(
        ("text", "lines"),
        [
            ("", []),
            (" \n\t ", []),
            ("one two", ["one", "two"]),
            ("a b c d e", ["a b c", "d e"]),
            ("abcdefghijkl m", ["abcde", "fghij", "kl m"]),
            ("胸痛胸痛", ["胸痛", "胸痛"]),
            ("cafe\u0301s", ["cafe\u0301s"]),
            ("\x1b!", [r"\x1b!"]),
            ("ab\xa0c\u2028d", ["ab c", "d"]),
        ],
    )
    def test_wrap(self, text, lines):
        assert wrap(text, 5) == lines

    def test_spelled_keeps_lines(self):
        assert spelled("a\n\x00\u202e\x7f\ud7ffé") == "a\n\\x00\\u202e\\x7f\\ud7ffé"
        assert printable(" a\n\n b ") == "a b"

    def test_cut(self):
        assert (cut("12345", 5), cut("123456", 5)) == ("12345", "12...")
