import gzip

import pytest

from r2med_pyserini.errors import BadInput
from r2med_pyserini.validation import faults

QUERIES, DOCUMENTS = {"q1", "q2"}, {"d1", "d2", "d3"}
GOOD = "q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\nq2 Q0 d3 1 0.5 t\n"


def found(tmp_path, text: str, hits: int = 1000) -> list[tuple[str, int | None]]:
    path = tmp_path / "run.txt"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return [(fault.kind, fault.line) for fault in faults(path, QUERIES, DOCUMENTS, hits)]


def test_a_good_run_has_no_fault(tmp_path):
    assert found(tmp_path, GOOD) == []


def test_a_gzipped_run_is_read(tmp_path):
    path = tmp_path / "run.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    assert faults(path, QUERIES, DOCUMENTS, 10) == []


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("q9 Q0 d1 1 1.0 t", "unknown-query"),
        ("q2 Q0 d9 2 0.1 t", "unknown-document"),
        ("q2 Q0 d3 2 0.1 t", "duplicate"),
        ("q2 Q0 d1 2 0.6 t", "unsorted"),
        ("q2 Q0 d1 1 0.1 t", "rank"),
        ("q2 Q0 d1 one 0.1 t", "rank"),
        ("q2 Q0 d1 -1 0.1 t", "rank"),
        ("q2 Q0 d1 ² 0.1 t", "rank"),
        ("q2 Q0 d1 2 nan t", "score"),
        ("q2 Q0 d1 2 -inf t", "score"),
        ("q2 Q0 d1 2 high t", "score"),
        ("q2 Q0 d1 2 0.1", "columns"),
        ("q2 Q0 d1 2 0.1 t extra", "columns"),
        ("q2 Q0 d\udce9 2 0.1 t", "encoding"),
    ],
)
def test_a_faulty_fourth_row_is_named(tmp_path, row, kind):
    assert (kind, 4) in found(tmp_path, GOOD + row + "\n")


def test_a_rank_that_contradicts_the_scores_is_named(tmp_path):
    text = "q1 Q0 d1 2 2.0 t\nq1 Q0 d2 1 1.0 t\nq2 Q0 d3 1 1.0 t\n"
    assert found(tmp_path, text) == [("rank-score", 1)]


def test_missing_queries_come_last(tmp_path):
    assert found(tmp_path, "q1 Q0 d9 1 1.0 t\n") == [("unknown-document", 1), ("missing-query", None)]


def test_more_documents_than_are_kept(tmp_path):
    assert found(tmp_path, GOOD, hits=1) == [("too-many", 2)]


def test_everything_is_reported_in_one_go(tmp_path):
    rows = [f"q1 Q0 x{number} {number} {-number} t" for number in range(1, 301)]
    assert len(found(tmp_path, "\n".join(rows))) == 301


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(BadInput, match="nothing"):
        faults(tmp_path / "nothing", QUERIES, DOCUMENTS, 10)
