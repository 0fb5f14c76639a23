import csv
import io

import pytest

from r2med_pyserini.report.grid import grid

HEADER = ("name", "a", "b")
ODD = [["x", "007", "1e5"], ["yy", None, 'c,"d"'], ["z", 12345, "+0.10"]]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_text_stands_under_its_header_as_it_is():
    assert grid(HEADER, ODD).splitlines() == [
        "name        a      b",
        "------  -----  -----",
        "x         007    1e5",
        'yy             c,"d"',
        "z       12345  +0.10",
    ]  # fmt: skip


@pytest.mark.parametrize("left", [(0, 2), (0, -1)])
def test_columns_can_be_aligned_left(left):
    assert [line.rstrip() for line in grid(HEADER, ODD, left=left).splitlines()[2:]] == [
        "x         007  1e5",
        'yy             c,"d"',
        "z       12345  +0.10",
    ]


def test_markdown_has_a_cell_for_every_cell():
    header, rule, *body = grid(HEADER, ODD, "markdown").splitlines()
    assert cells(header) == list(HEADER)
    assert len(cells(rule)) == 3 and set(rule) <= set("|:-")
    assert [cells(line) for line in body] == [["" if cell is None else str(cell) for cell in row] for row in ODD]


def test_csv_reads_back():
    text = grid(HEADER, ODD, "csv")
    wanted = [list(HEADER), *(["" if cell is None else str(cell) for cell in row] for row in ODD)]
    assert list(csv.reader(io.StringIO(text))) == wanted
    assert "\r" not in text and not text.endswith("\n")


@pytest.mark.parametrize("form", ["text", "markdown", "csv"])
def test_a_table_without_rows_has_its_header(form):
    assert all(word in grid(HEADER, [], form).splitlines()[0] for word in HEADER)


@pytest.mark.parametrize("form", ["text", "markdown", "csv"])
def test_rows_may_come_one_by_one(form):
    assert grid(HEADER, iter(ODD), form) == grid(HEADER, ODD, form)
