from dataclasses import replace
from pathlib import Path

import pytest

from r2med_pyserini import conditions, recording
from r2med_pyserini.conditions import Condition, Recorded
from r2med_pyserini.errors import BadInput
from r2med_pyserini.evaluation import Scores

TEXT = "title: x  # a comment that stays\nindex: {kind: lucene}\nsearch: {model: bm25}\n"
WITH, DATA = {"anserini": "2.2"}, {"biology": "0a1b2c3d4e5f"}
RECORDED = {"mini": Recorded(WITH, DATA, {"biology": {"nDCG@10": 0.1234, "MRR": 1.0}})}


def rewritten(text: str, recorded: dict[str, Recorded] = RECORDED) -> str:
    return recording.rewrite(text, "x.yaml", recorded)


def test_what_is_written_is_read_back():
    text = rewritten(TEXT)
    assert text.startswith(TEXT)
    assert conditions.parse(text, Path("x.yaml")).recorded == RECORDED


def test_the_block_has_a_line_a_dataset():
    assert recording.block(RECORDED).splitlines() == [
        "recorded:",
        "  mini:",
        "    with: {anserini: '2.2'}",
        "    data: {biology: 0a1b2c3d4e5f}",
        "    scores:",
        "      biology: {nDCG@10: 0.1234, MRR: 1.0}",
    ]


@pytest.mark.parametrize("digest", ["123456789012", "012345670123", "12345678901e", "1234567890e1", "000000000000"])
def test_a_digest_that_looks_like_a_number_stays_text(digest):
    recorded = {"own": Recorded(WITH, {"d": digest}, {"d": {"MRR": 0.5}})}
    assert conditions.parse(rewritten(TEXT, recorded), Path("x.yaml")).recorded_scores("own", "d", digest)


@pytest.mark.parametrize("slug", ["a-b_c", "1e3", "007", "2024", "yes", "null", "on", "-1"])
def test_a_dataset_that_yaml_takes_for_something_else_keeps_its_name(slug):
    recorded = {slug: Recorded(WITH, {slug: "0a1b"}, {slug: {"MRR": 0.5}})}
    assert conditions.parse(rewritten(TEXT, recorded), Path("x.yaml")).recorded == recorded


def test_a_second_record_replaces_the_first():
    first = rewritten(TEXT, {"mini": Recorded({}, {}, {"biology": {"MRR": 0.5}}), "own": RECORDED["mini"]})
    assert rewritten(first) == rewritten(TEXT)


def test_a_text_without_a_last_line_end():
    assert rewritten(TEXT.rstrip()) == rewritten(TEXT)


def test_a_key_after_the_block_is_not_lost():
    with pytest.raises(BadInput, match="last key"):
        rewritten(rewritten(TEXT) + "published: {source: r2med, retriever: bm25}\n")


def test_figures_have_four_decimals():
    assert recording.figures(Scores(1, 1, {"MRR": 0.123456}, {})) == {"MRR": 0.1235}


@pytest.fixture
def condition(write) -> Condition:
    """A condition of one's own, with figures that its file does not hold yet."""
    file = write("own/x.yaml", TEXT)
    return replace(conditions.parse(TEXT, file), recorded=RECORDED)


def test_a_file_is_rewritten(condition):
    recording.write(condition)
    assert condition.file.read_text() == rewritten(TEXT)
    assert conditions.load(str(condition.file)) == condition
    assert list(condition.file.parent.iterdir()) == [condition.file]


def test_the_rights_of_the_file_stay(condition):
    condition.file.chmod(0o640)
    recording.write(condition)
    assert condition.file.stat().st_mode & 0o777 == 0o640


def test_a_link_to_the_file_stays_a_link(condition, tmp_path):
    link = tmp_path / "x.yaml"
    link.symlink_to(condition.file)
    recording.write(replace(condition, file=link))
    assert link.is_symlink() and condition.file.read_text() == rewritten(TEXT)


@pytest.mark.parametrize(
    "text",
    [
        "{title: x, index: {kind: lucene}, search: {model: bm25}}\n",
        f"{TEXT}'recorded': {{}}\n",
        "".join(f"  {line}\n" for line in TEXT.splitlines()),
        f"{TEXT}...\n",
    ],
    ids=["flow style", "quoted key", "indented", "end of document"],
)
def test_a_file_to_which_nothing_can_be_added_is_left_alone(condition, text):
    condition.file.write_text(text)
    with pytest.raises(BadInput, match="cannot be added to; put this at its end:\nrecorded:\n  mini:"):
        recording.write(condition)
    assert condition.file.read_text() == text


def test_a_write_that_fails_leaves_the_file_alone(condition, monkeypatch):
    def full(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        recording.write(condition)
    assert condition.file.read_text() == TEXT
    assert list(condition.file.parent.iterdir()) == [condition.file]
