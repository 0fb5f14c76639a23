import json

import pytest

from r2med_pyserini.errors import BadInput
from r2med_pyserini.jsonl import Faults, objects
from r2med_pyserini.textio import lines

BOM = b"\xef\xbb\xbf"


def read(path):
    faults = Faults()
    rows = list(objects(path, faults))
    faults.check()
    return rows


def faults_of(path):
    with pytest.raises(BadInput) as caught:
        read(path)
    return caught.value.faults


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}\n{"a": 2}\n',
        b'{"a": 1}\n{"a": 2}',
        b'{"a": 1}\r\n{"a": 2}\r\n',
        BOM + b'{"a": 1}\n{"a": 2}\n',
        BOM + b'{"a": 1}\r\n{"a": 2}',
    ],
    ids=["plain", "no final newline", "CRLF", "BOM", "BOM and CRLF"],
)
def test_ways_to_save_a_file_read_the_same(write, content):
    assert read(write("f.jsonl", content)) == [(1, {"a": 1}), (2, {"a": 2})]


def test_only_what_ends_a_line_is_taken_off_it(write):
    path = write("f", BOM + b"\ra b\r\n\r\r\n \tc \r\r\nd")
    assert list(lines(path)) == [(1, b"\ra b"), (3, b" \tc "), (4, b"d")]


def test_blank_lines_are_skipped_and_counted(write):
    assert read(write("f.jsonl", b'\n{"a": 1}\n \t\n\r\n{"a": 2}\n\n')) == [(2, {"a": 1}), (5, {"a": 2})]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\u00a0", "é", "日", "𝛼"])
def test_only_a_line_feed_ends_a_line(write, character):
    text = f"x{character}y"
    assert read(write("f.jsonl", json.dumps({"a": text}, ensure_ascii=False))) == [(1, {"a": text})]


def test_an_escaped_surrogate_pair_is_one_character(write):
    assert read(write("f.jsonl", rb'{"a": "\ud835\udefc"}')) == [(1, {"a": "𝛼"})]


def test_a_byte_order_mark_belongs_at_the_start_only(write):
    (fault,) = faults_of(write("f.jsonl", b'{"a": 1}\n' + BOM + b'{"a": 2}\n'))
    assert ":2:1: not valid JSON" in fault


@pytest.mark.parametrize(
    ("line", "column"),
    [(b'{"a" 1}', 6), ('{"é" 1}'.encode(), 6), (b"{", 2), (b"hello", 1), (b'{"a": 1} x', 10), (b'  {"a" 1}', 8)],
)
def test_a_json_error_names_file_line_and_column(write, line, column):
    path = write("f.jsonl", b'{"a": 0}\n' + line + b"\n")
    (fault,) = faults_of(path)
    assert fault.startswith(f"{path}:2:{column}: not valid JSON: ")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a": "caf\xe9"}', "byte 11 is not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "byte 8 is not UTF-8"),
        (b'{"a": NaN}', "not valid JSON: NaN and Infinity are no JSON numbers"),
        (b'{"a": [1, Infinity]}', "NaN and Infinity are no JSON numbers"),
        (b'{"a": -Infinity}', "NaN and Infinity are no JSON numbers"),
        (b'{"a": 1e999}', "NaN and Infinity are no JSON numbers"),
        (rb'{"a": "\ud800"}', "surrogate"),
        (rb'{"a": "x\udfffy"}', "surrogate"),
        (rb'{"\ud800": 1}', "surrogate"),
        (b'{"a": "x\ty"}', "not valid JSON"),
        (b"[1, 2]", "a JSON object is wanted here, not [1, 2]"),
        (b"7", "a JSON object is wanted here, not 7"),
        (b"0.5", "a JSON object is wanted here, not 0.5"),
        (b'"text"', 'a JSON object is wanted here, not "text"'),
        (b"false", "a JSON object is wanted here, not false"),
        (b"null", "a JSON object is wanted here, not null"),
        (b'"' + b"x" * 100 + b'"', 'a JSON object is wanted here, not "' + "x" * 39),
        (b'{"a": ' + b"1" * 5000 + b"}", "not valid JSON: Exceeds the limit (4300 digits)"),
        (b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}", "nested too deeply"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b"[" * 100_000, "not valid JSON"),
    ],
    ids=lambda value: value[:16].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_what_is_no_json_object_is_a_fault_of_its_line(write, line, words):
    path = write("f.jsonl", b'{"a": 0}\n' + line + b'\n{"a": 2}\n')
    (fault,) = faults_of(path)
    assert fault.startswith(f"{path}:2")
    assert words in fault


def test_good_lines_between_faults_are_read(write):
    faults = Faults()
    assert list(objects(write("f.jsonl", b'[]\n{"a": 1}\n{\n{"a": 2}\n'), faults)) == [(2, {"a": 1}), (4, {"a": 2})]


def test_several_faults_are_reported_in_one_go(write):
    path = write("f.jsonl", b'{"a": 1}\n[]\n{"b": NaN}\n{"a": 2}\n{\n')
    assert [fault.removeprefix(f"{path}:").split(":")[0] for fault in faults_of(path)] == ["2", "3", "5"]


def test_reading_gives_up_after_100_faults(write):
    assert len(faults_of(write("f.jsonl", b"[]\n" * 1000))) == 100


def test_a_message_shows_20_faults_and_counts_the_others():
    error = BadInput(f"f:{number}: bad" for number in range(1, 1025))
    assert str(error).splitlines() == [f"f:{number}: bad" for number in range(1, 21)] + ["... and 1,004 more"]


def test_a_missing_file_is_named(tmp_path):
    (fault,) = faults_of(tmp_path / "none.jsonl")
    assert fault == f"{tmp_path / 'none.jsonl'}: cannot be read: No such file or directory"


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    (fault,) = faults_of(tmp_path)
    assert fault == f"{tmp_path}: cannot be read: Is a directory"
