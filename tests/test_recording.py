import pytest

from r2med_pyserini import conditions, recording
from r2med_pyserini.conditions import Recorded
from r2med_pyserini.errors import BadInput
from r2med_pyserini.evaluation import Scores

TEXT = "title: x  # a comment that stays\nindex: {kind: lucene}\nsearch: {model: bm25}\n"
RECORDED = {"mini": Recorded({"anserini": "2.2"}, {"biology": {"nDCG@10": 0.1234, "MRR": 1.0}})}


def test_what_is_written_is_read_back():
    text = recording.rewrite(TEXT, "x.yaml", RECORDED)
    assert text.startswith(TEXT)
    assert conditions.parse(text, "x", "x.yaml").recorded == RECORDED


def test_a_second_record_replaces_the_first():
    first = recording.rewrite(
        TEXT, "x.yaml", {"mini": Recorded({}, {"biology": {"MRR": 0.5}}), "own": RECORDED["mini"]}
    )
    assert recording.rewrite(first, "x.yaml", RECORDED) == recording.rewrite(TEXT, "x.yaml", RECORDED)


def test_a_text_without_a_last_line_end():
    assert recording.rewrite(TEXT.rstrip(), "x.yaml", RECORDED) == recording.rewrite(TEXT, "x.yaml", RECORDED)


def test_a_key_after_the_block_is_not_lost():
    text = recording.rewrite(TEXT, "x.yaml", RECORDED) + "published: {source: r2med, retriever: bm25}\n"
    with pytest.raises(BadInput, match="last key"):
        recording.rewrite(text, "x.yaml", RECORDED)


def test_figures_have_four_decimals():
    assert recording.figures(Scores(1, 1, {"MRR": 0.123456}, {})) == {"MRR": 0.1235}


def test_a_write_that_fails_leaves_the_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "x.yaml"
    path.write_text(TEXT)
    monkeypatch.setattr(recording, "block", lambda _: "\udcff")  # no UTF-8
    with pytest.raises(UnicodeEncodeError):
        recording.write(path, RECORDED)
    assert path.read_text() == TEXT
    assert list(tmp_path.iterdir()) == [path]
