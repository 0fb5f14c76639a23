from pathlib import Path

import pytest

from r2med_pyserini.artifacts import Artifact, Hashes
from r2med_pyserini.cleaning import made_here, remove
from r2med_pyserini.paths import Workspace

CACHE = Workspace(Path()).hashes.parent.name
PARTS = f"{CACHE}/parts/vectors.mini-biology.toy"
SHARD = "0123456789abcdef" * 2


def made(workspace: Workspace) -> dict[str, Artifact]:
    """One artifact of each kind."""
    hashes = Hashes(workspace.hashes)
    artifacts = {
        "collection": Artifact(workspace.collection("mini", "biology").root, folder=True),
        "index": Artifact(workspace.index("lucene", "mini", "biology"), folder=True),
        "vectors": Artifact(workspace.index("vectors", "mini", "biology", "toy"), folder=True),
        "run": Artifact(workspace.run("mini", "biology", "bm25"), folder=False),
        "scores": Artifact(workspace.scores("mini", "biology", "bm25"), folder=False),
    }
    for artifact in artifacts.values():
        artifact.make(
            {"v": 1},
            lambda path: (path / "x" if path.is_dir() else path).write_text("x"),
            hashes,
        )
    hashes.save()
    return artifacts


def clean(workspace: Workspace) -> None:
    remove(workspace, made_here(workspace))


def files(workspace: Workspace) -> set[str]:
    return {path.relative_to(workspace.root).as_posix() for path in workspace.root.rglob("*") if path.is_file()}


def own(workspace: Workspace, *names: str) -> set[str]:
    """Files of the user's own."""
    for name in names:
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    return set(names)


def test_what_was_made_is_found(workspace):
    artifacts = made(workspace)
    assert {artifact.path for artifact in made_here(workspace)} == {artifact.path for artifact in artifacts.values()}


def test_everything_that_was_made_is_removed(workspace):
    made(workspace)
    clean(workspace)
    assert files(workspace) == set()
    assert not (workspace.root / "collections" / "mini").exists()
    assert not workspace.hashes.parent.exists()


def test_nothing_is_found_in_an_empty_workspace(workspace):
    assert made_here(workspace) == []
    clean(workspace)


def test_cleaning_twice_is_no_error(workspace):
    made(workspace)
    clean(workspace)
    assert made_here(workspace) == []
    clean(workspace)


def test_temporaries_of_a_killed_build_are_removed(workspace):
    made(workspace)
    own(workspace, "indexes/.tmp.new.lucene.mini-biology/segment", "runs/.tmp.new.run.mini-biology.bm25.txt")
    clean(workspace)
    assert files(workspace) == set()


@pytest.mark.parametrize("word", ["new", "old"])
@pytest.mark.parametrize(
    "name",
    [
        "collections/mini/.tmp.{}.biology/corpus/docs.jsonl",
        "indexes/.tmp.{}.lucene-exact.mini-biology/segments_1",
        "runs/.tmp.{}.run.mini-biology.qld.txt",
    ],
)
def test_what_a_killed_build_left_is_found_though_nothing_was_made(workspace, name, word):
    own(workspace, name.format(word))
    (found,) = made_here(workspace)
    assert (found.made_by(), found.is_tidy()) == (None, False)
    remove(workspace, [found])
    assert files(workspace) == set()


def test_what_a_killed_build_left_is_not_counted_beside_the_artifact(workspace):
    count = len(made(workspace))
    own(workspace, "indexes/.tmp.new.lucene.mini-biology/x", "indexes/.tmp.old.lucene.mini-biology/x")
    assert len(made_here(workspace)) == count
    clean(workspace)
    assert files(workspace) == set()


@pytest.mark.parametrize(
    "name",
    [
        "runs/.tmp.123.run.mini-biology.bm25.txt",  # no name of a build's
        "indexes/.tmp.mine.x/segments_1",
        "runs/.manifests/notes.txt",
        "indexes/.locks/notes.txt",
        f"{CACHE}/notes.txt",
        f"{CACHE}/parts/notes.txt",
        f"{PARTS}/notes.txt",
        f"{PARTS}/{SHARD}.txt",
        "runs/.tmp.",
        "runs/.tmp.mine",
        "runs/.tmp.new.",
    ],
)
def test_files_of_ones_own_stay_where_ours_are(workspace, name):
    made(workspace)
    mine = own(workspace, name)
    clean(workspace)
    assert files(workspace) == mine


@pytest.mark.parametrize(
    "name", ["runs/.manifests/.tmp.{}.run.mini-biology.bm25.txt.json", f"{CACHE}/.tmp.{{}}.hashes.json"]
)
def test_half_a_text_that_a_killed_process_left_is_removed(workspace, name):
    made(workspace)
    own(workspace, name.format(4711))
    clean(workspace)
    assert files(workspace) == set()


def test_the_manifest_of_a_run_that_its_user_deleted_is_removed(workspace):
    made(workspace)["run"].path.unlink()
    clean(workspace)
    assert files(workspace) == set()


@pytest.mark.parametrize(
    "name", [f"{SHARD}.npy", f"{SHARD}.npz", f"{SHARD}.json", f"new-4711-{SHARD}.npy", f"new-4711-{SHARD}.json"]
)
def test_shards_that_were_not_put_together_are_removed(workspace, name):
    own(workspace, f"{PARTS}/{name}", f"{CACHE}/parts/query-vectors.mini-biology.toy/{name}")
    assert len(made_here(workspace)) == 2
    clean(workspace)
    assert not (workspace.root / CACHE).exists()


def test_shards_are_removed_with_all_the_rest(workspace):
    made(workspace)
    own(workspace, f"{PARTS}/{SHARD}.npy")
    clean(workspace)
    assert files(workspace) == set()
    assert not (workspace.root / CACHE).exists()


def test_scores_and_replies_stay_since_they_may_have_cost_money(workspace):
    made(workspace)
    kept = own(workspace, f"{CACHE}/scores/llm-pointwise.sqlite")
    clean(workspace)
    assert files(workspace) == kept


def test_what_was_made_can_be_made_again(workspace):
    made(workspace)
    clean(workspace)
    artifacts = made(workspace)
    assert all(artifact.is_current({"v": 1}, Hashes(workspace.hashes)) for artifact in artifacts.values())


@pytest.mark.parametrize(
    "name",
    [
        "collections/README.md",
        "indexes/README.md",
        "runs/README.md",
        "runs/my-run.txt",
        "runs/run.mini-biology.theirs.txt",
        "runs/old/run.txt",
        "indexes/mine/segments_1",
        "indexes/pyserini.lucene.mini-biology/segments_1",
        "collections/theirs/biology/corpus/docs.jsonl",
        "data/r2med/biology/corpus.jsonl",
        "notes.txt",
        "conditions/mine.yaml",
    ],
)
def test_files_of_ones_own_stay(workspace, name):
    made(workspace)
    mine = own(workspace, name)
    clean(workspace)
    assert files(workspace) == mine


@pytest.mark.parametrize(
    "name",
    [
        "collections/mini/notes.txt",
        "collections/mini/mine/docs.jsonl",
        "indexes/lucene.mini-biology/notes.txt",
    ],
)
def test_files_of_ones_own_among_what_was_made_stay(workspace, name):
    made(workspace)
    mine = own(workspace, name)
    clean(workspace)
    assert files(workspace) == mine


def test_a_workspace_may_be_called_collections(tmp_path):
    workspace = Workspace(tmp_path / "collections")
    made(workspace)
    mine = own(workspace, "runs/README.md")
    clean(workspace)
    assert files(workspace) == mine
