import hashlib
import json
import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest

from r2med_pyserini.artifacts import INCOMPLETE, Artifact, Hashes, replace_text, sha256
from r2med_pyserini.errors import R2medError

PROCESSES = multiprocessing.get_context("spawn")
PATIENCE = 60  # seconds that a child may take to start


@pytest.fixture
def hashes(tmp_path) -> Hashes:
    return Hashes(tmp_path / ".cache" / "hashes.json")


@pytest.fixture(params=["folder", "file"])
def artifact(request, tmp_path) -> Artifact:
    return Artifact(tmp_path / "out" / "thing.x", folder=request.param == "folder")


def builder(text: str):
    """Writes `text`: into a file, or into two files of a folder."""

    def build(path: Path) -> None:
        if path.is_dir():
            (path / "a").write_text(text)
            (path / "sub").mkdir()
            (path / "sub" / "b").write_text("b")
        else:
            path.write_text(text)

    return build


def not_called(path: Path) -> None:
    pytest.fail("built again")


def content(artifact: Artifact) -> str | None:
    path = artifact.path / "a" if artifact.folder else artifact.path
    return path.read_text() if path.exists() else None


def manifest_of(artifact: Artifact) -> Path:
    folder = artifact.path.parent / ".manifests"
    return artifact.path / "manifest.json" if artifact.folder else folder / f"{artifact.path.name}.json"


def leftovers(artifact: Artifact) -> list[str]:
    return [path.name for path in artifact.path.parent.rglob(".tmp*")]


class TestMake:
    def test_what_is_absent_is_built(self, artifact, hashes):
        assert not artifact.is_current({"v": 1}, hashes)
        assert artifact.make({"v": 1}, builder("one"), hashes) is True
        assert content(artifact) == "one"
        assert artifact.made_by() == {"v": 1}
        assert leftovers(artifact) == []

    def test_the_manifest_holds_recipe_and_hashes(self, artifact, hashes):
        artifact.make({"v": [1, "é"]}, builder("one"), hashes)
        one, b = (hashlib.sha256(data).hexdigest() for data in (b"one", b"b"))
        files = {"a": one, "sub/b": b} if artifact.folder else {"thing.x": one}
        manifest = json.loads(manifest_of(artifact).read_bytes())
        assert manifest.pop("seconds") == artifact.seconds()
        assert manifest == {"recipe": {"v": [1, "é"]}, "files": files}

    def test_what_is_current_is_not_built_again(self, artifact, hashes, tmp_path):
        artifact.make({"v": 1}, builder("one"), hashes)
        assert artifact.make({"v": 1}, not_called, hashes) is False
        assert artifact.make({"v": 1}, not_called, Hashes(tmp_path / "none")) is False

    @pytest.mark.parametrize("changed", [{"v": 2}, {"v": 1, "w": 1}, {}, {"v": "1"}, {"v": None}])
    def test_a_changed_recipe_builds_anew(self, artifact, hashes, changed):
        artifact.make({"v": 1}, builder("one"), hashes)
        assert not artifact.is_current(changed, hashes)
        assert artifact.make(changed, builder("two"), hashes) is True
        assert (content(artifact), artifact.made_by()) == ("two", changed)
        assert leftovers(artifact) == []

    def test_a_new_build_leaves_nothing_of_the_old_one(self, tmp_path, hashes):
        artifact = Artifact(tmp_path / "out", folder=True)
        artifact.make({"v": 1}, builder("one"), hashes)
        artifact.make({"v": 2}, lambda path: (path / "c").write_text("two"), hashes)
        assert sorted(path.name for path in artifact.path.iterdir()) == ["c", "manifest.json"]

    @pytest.mark.parametrize(
        "damage",
        [
            lambda folder: (folder / "a").write_text("One"),
            lambda folder: (folder / "a").write_text(""),
            lambda folder: (folder / "a").unlink(),
        ],
        ids=["changed", "emptied", "removed"],
    )
    def test_a_changed_folder_is_built_anew(self, tmp_path, hashes, damage):
        artifact = Artifact(tmp_path / "out", folder=True)
        artifact.make({"v": 1}, builder("one"), hashes)
        damage(artifact.path)
        assert not artifact.is_current({"v": 1}, hashes)
        assert artifact.make({"v": 1}, builder("one"), hashes) is True
        assert artifact.is_current({"v": 1}, hashes)
        files = sorted(path.relative_to(artifact.path).as_posix() for path in artifact.path.rglob("*"))
        assert files == ["a", "manifest.json", "sub", "sub/b"]

    @pytest.mark.parametrize(
        ("foreign", "add"),
        [
            ("sub/c", lambda folder: (folder / "sub" / "b").rename(folder / "sub" / "c")),
            ("added", lambda folder: (folder / "added").write_text("x")),
            ("sub/manifest.json", lambda folder: (folder / "sub" / "manifest.json").write_text("{}")),
            ("link", lambda folder: (folder / "link").symlink_to("nowhere")),
        ],
        ids=["renamed", "added", "another manifest", "dead link"],
    )
    def test_what_somebody_put_into_a_folder_is_not_thrown_away(self, tmp_path, hashes, foreign, add):
        artifact = Artifact(tmp_path / "out", folder=True)
        artifact.make({"v": 1}, builder("one"), hashes)
        add(artifact.path)
        assert not artifact.is_current({"v": 1}, hashes)
        with pytest.raises(R2medError, match=f"{artifact.path / foreign} is not r2med's, and would be lost"):
            artifact.make({"v": 1}, not_called, hashes)
        assert os.path.lexists(artifact.path / foreign) and content(artifact) == "one"
        assert leftovers(artifact) == []

    def test_hidden_files_of_other_programs_do_not_count(self, tmp_path, hashes):
        artifact = Artifact(tmp_path / "out", folder=True)
        artifact.make({"v": 1}, builder("one"), hashes)
        (artifact.path / ".DS_Store").write_text("x")
        assert artifact.is_current({"v": 1}, hashes)
        assert artifact.make({"v": 2}, builder("two"), hashes) is True

    @pytest.mark.parametrize(
        "damage",
        [lambda file: file.write_text("One"), lambda file: file.write_text(""), lambda file: file.unlink()],
        ids=["changed", "emptied", "removed"],
    )
    def test_a_changed_file_is_built_anew(self, tmp_path, hashes, damage):
        artifact = Artifact(tmp_path / "out.txt", folder=False)
        artifact.make({"v": 1}, builder("one"), hashes)
        damage(artifact.path)
        assert artifact.make({"v": 1}, builder("one"), hashes) is True
        assert content(artifact) == "one"

    @pytest.mark.parametrize(
        "text",
        ["", "{", "[]", "null", "{}", '{"recipe": {"v": 1}}', '{"recipe": 1, "files": {}}', "\x00", b"\xff\xfe",
         '{"recipe": {"v": 1}, "files": []}', '{"recipe": {"v": 1}, "files": {}}', "[" * 100_000],
        ids=lambda text: repr(text)[:40],
    )  # fmt: skip
    def test_a_garbled_manifest_builds_anew(self, artifact, hashes, text):
        artifact.make({"v": 1}, builder("one"), hashes)
        manifest_of(artifact).write_bytes(text if isinstance(text, bytes) else text.encode())
        assert not artifact.is_current({"v": 1}, hashes)
        assert artifact.make({"v": 1}, builder("two"), hashes) is True
        assert content(artifact) == "two"
        assert artifact.is_current({"v": 1}, hashes)

    @pytest.mark.parametrize("before", [False, True])
    def test_what_has_no_manifest_is_somebody_elses_and_stays(self, artifact, hashes, before):
        if before:
            artifact.make({"v": 1}, builder("somebody's"), hashes)
            manifest_of(artifact).unlink()
        else:
            artifact.path.mkdir(parents=True) if artifact.folder else artifact.path.parent.mkdir()
            builder("somebody's")(artifact.path)
        assert artifact.made_by() is None and not artifact.is_current({"v": 1}, hashes)
        with pytest.raises(R2medError, match=f"{artifact.path} is there, but r2med did not make it: move it"):
            artifact.make({"v": 1}, not_called, hashes)
        assert content(artifact) == "somebody's" and leftovers(artifact) == []

    @pytest.mark.parametrize("name", ["../mine.txt", "/etc/passwd", "sub/../../mine.txt"])
    def test_a_manifest_that_names_other_places_is_not_believed(self, artifact, hashes, tmp_path, name):
        (tmp_path / "mine.txt").write_text("mine")
        artifact.make({"v": 1}, builder("one"), hashes)
        manifest_of(artifact).write_text(json.dumps({"recipe": {"v": 1}, "files": {name: "x"}}))
        assert artifact.files() == {} and artifact.made_by() is None
        artifact.remove()
        assert (tmp_path / "mine.txt").read_text() == "mine"

    def test_files_of_one_folder_are_told_apart(self, tmp_path, hashes):
        one, two = (Artifact(tmp_path / "runs" / name, folder=False) for name in ("one", "two"))
        one.make({"v": 1}, builder("one"), hashes)
        two.make({"v": 2}, builder("two"), hashes)
        assert one.is_current({"v": 1}, hashes) and two.is_current({"v": 2}, hashes)
        one.remove()
        assert two.is_current({"v": 2}, hashes)


class TestStillTrue:
    """Whether the recipe still holds is asked after the build, before its result takes its place."""

    def test_what_is_made_from_inputs_that_changed_meanwhile_is_thrown_away(self, artifact, hashes):
        artifact.make({"v": 1}, builder("one"), hashes)
        with pytest.raises(R2medError, match="changed meanwhile; run the same command again"):
            artifact.make({"v": 2}, builder("two"), hashes, still_true=lambda: False)
        assert content(artifact) == "one" and artifact.is_current({"v": 1}, hashes)
        assert leftovers(artifact) == []

    def test_it_is_asked_when_all_is_built(self, artifact, hashes):
        seen = []
        build = builder("one")

        def logged(path: Path) -> None:
            build(path)
            seen.append("built")

        artifact.make({"v": 1}, logged, hashes, still_true=lambda: seen.append("asked") or True)
        assert seen == ["built", "asked"] and content(artifact) == "one"


class TestServes:
    @staticmethod
    def more(have: dict, want: dict) -> bool:
        return have["v"] >= want["v"]

    def test_a_recipe_that_serves_is_current(self, artifact, hashes):
        artifact.make({"v": 2}, builder("two"), hashes)
        assert artifact.is_current({"v": 1}, hashes, self.more)
        assert artifact.make({"v": 1}, not_called, hashes, self.more) is False
        assert artifact.made_by() == {"v": 2}

    def test_a_recipe_that_does_not_serve_is_built(self, artifact, hashes):
        artifact.make({"v": 1}, builder("one"), hashes)
        assert artifact.make({"v": 2}, builder("two"), hashes, self.more) is True

    def test_damage_is_noticed_all_the_same(self, artifact, hashes):
        artifact.make({"v": 2}, builder("two"), hashes)
        builder("2")(artifact.path) if not artifact.folder else (artifact.path / "a").write_text("2")
        assert not artifact.is_current({"v": 1}, hashes, self.more)


class TestFailure:
    @pytest.mark.parametrize("error", [R2medError("no"), ValueError("no"), KeyboardInterrupt()])
    @pytest.mark.parametrize("before", [False, True])
    def test_a_builder_that_raises_leaves_the_old_artifact_and_no_temporary(self, artifact, hashes, error, before):
        if before:
            artifact.make({"v": 1}, builder("one"), hashes)

        def build(path: Path) -> None:
            builder("half")(path)
            raise error

        with pytest.raises(type(error)):
            artifact.make({"v": 2}, build, hashes)
        assert leftovers(artifact) == []
        assert content(artifact) == ("one" if before else None)
        assert artifact.is_current({"v": 1}, hashes) is before
        assert not artifact.is_current({"v": 2}, hashes)

    def test_a_full_disk_becomes_a_clear_error(self, artifact, hashes):
        def build(path: Path) -> None:
            raise OSError(28, "No space left on device")

        with pytest.raises(R2medError, match=r"cannot make .*thing\.x: No space left on device"):
            artifact.make({"v": 1}, build, hashes)
        assert leftovers(artifact) == []

    def test_a_builder_that_writes_no_file_is_a_clear_error(self, tmp_path, hashes):
        with pytest.raises(R2medError, match="cannot make"):
            Artifact(tmp_path / "out.txt", folder=False).make({"v": 1}, lambda path: None, hashes)

    @pytest.mark.parametrize("renames", range(3))
    @pytest.mark.parametrize("method", ["rename", "replace"])
    def test_whenever_publishing_stops_no_manifest_vouches_for_other_files(
        self, artifact, hashes, monkeypatch, method, renames
    ):
        artifact.make({"v": 1}, builder("one"), hashes)
        whole, left = getattr(Path, method), [renames]

        def limited(path, target):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return whole(path, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, method, limited)
            try:
                artifact.make({"v": 2}, builder("two"), hashes)
            except KeyboardInterrupt:
                assert left == [0]
        vouched = {version for version in (1, 2) if artifact.is_current({"v": version}, hashes)}
        assert vouched <= {{"one": 1, "two": 2}.get(content(artifact))}
        artifact.make({"v": 2}, builder("two"), hashes)
        assert content(artifact) == "two" and artifact.is_current({"v": 2}, hashes)
        assert leftovers(artifact) == []


def _killed_while_building(artifact: Artifact, hashes: Path) -> None:
    def build(path: Path) -> None:
        builder("half")(path)
        os._exit(9)

    artifact.make({"v": 2}, build, Hashes(hashes))


def _made_with_others(artifact: Artifact, hashes: Path, barrier, log: Path, answers) -> None:
    def build(path: Path) -> None:
        with log.open("a") as file:
            file.write("built\n")
        try:
            barrier.wait(0.5)  # two builders at once would meet here
        except threading.BrokenBarrierError:
            builder("one")(path)

    known = Hashes(hashes)
    barrier.wait(PATIENCE)
    answers.put(artifact.make({"v": 1}, build, known))


def _built_in_two_parts(artifact: Artifact, half, go_on) -> None:
    def build(path: Path) -> None:
        if not path.is_dir():
            path.touch()
        half.set()
        go_on.wait(PATIENCE)
        builder("one")(path)

    artifact.make({"v": 1}, build, Hashes(artifact.path.with_name("hashes.json")))


class TestProcesses:
    def test_what_a_killed_build_left_is_removed(self, artifact, hashes, tmp_path):
        artifact.make({"v": 1}, builder("one"), hashes)
        child = PROCESSES.Process(target=_killed_while_building, args=(artifact, tmp_path / "child.json"))
        child.start()
        child.join(PATIENCE)
        assert child.exitcode == 9
        assert len(leftovers(artifact)) == 1
        assert content(artifact) == "one" and artifact.is_current({"v": 1}, hashes)
        assert artifact.make({"v": 2}, builder("two"), hashes) is True
        assert content(artifact) == "two"
        assert leftovers(artifact) == []

    def test_leftovers_do_not_get_into_the_next_build(self, tmp_path, hashes):
        artifact = Artifact(tmp_path / "out", folder=True)
        artifact.make({"v": 1}, builder("one"), hashes)
        for word in ("new", "old"):
            (tmp_path / f".tmp.{word}.out").mkdir()
            (tmp_path / f".tmp.{word}.out" / "half").write_text("x")
        artifact.make({"v": 2}, builder("two"), hashes)
        assert not (artifact.path / "half").exists()
        assert leftovers(artifact) == []

    def test_of_two_processes_only_one_builds(self, artifact, tmp_path):
        barrier, answers, log = PROCESSES.Barrier(2), PROCESSES.Queue(), tmp_path / "log"
        common = (artifact, tmp_path / "hashes.json", barrier, log, answers)
        children = [PROCESSES.Process(target=_made_with_others, args=common) for _ in range(2)]
        for child in children:
            child.start()
        found = sorted(answers.get(timeout=PATIENCE) for _ in children)
        for child in children:
            child.join(PATIENCE)
        assert [child.exitcode for child in children] == [0, 0]
        assert found == [False, True]
        assert log.read_text() == "built\n"
        assert content(artifact) == "one"


class TestTidy:
    @pytest.mark.parametrize("word", ["new", "old"])
    @pytest.mark.parametrize("is_folder", [True, False])
    def test_leftovers_of_either_sort_are_seen_and_removed(self, artifact, hashes, word, is_folder):
        artifact.make({"v": 1}, builder("one"), hashes)
        assert artifact.is_tidy()
        left = artifact.path.with_name(f".tmp.{word}.{artifact.path.name}")
        left.mkdir() if is_folder else left.write_text("half")
        assert not artifact.is_tidy()
        artifact.tidy()
        assert artifact.is_tidy() and leftovers(artifact) == []
        assert content(artifact) == "one" and artifact.is_current({"v": 1}, hashes)

    def test_what_belongs_to_another_artifact_is_left_alone(self, artifact):
        other = artifact.path.with_name(f".tmp.new.other.{artifact.path.name}")
        other.parent.mkdir()
        other.write_text("half")
        assert artifact.is_tidy()
        artifact.tidy()
        assert other.exists()

    def test_looking_makes_nothing(self, artifact):
        artifact.tidy()
        assert artifact.is_tidy() and not artifact.path.parent.exists()

    def test_remove_takes_the_leftovers_along(self, artifact, hashes):
        artifact.make({"v": 1}, builder("one"), hashes)
        artifact.path.with_name(f".tmp.new.{artifact.path.name}").write_text("half")
        artifact.remove()
        assert artifact.is_tidy() and leftovers(artifact) == [] and not artifact.path.exists()

    def test_nobody_tidies_away_what_another_process_is_building(self, artifact):
        """`tidy` waits for the lock that a build holds."""
        half, go_on = PROCESSES.Event(), PROCESSES.Event()
        child = PROCESSES.Process(target=_built_in_two_parts, args=(artifact, half, go_on))
        child.start()
        assert half.wait(PATIENCE)
        assert not artifact.is_tidy()
        tidying = threading.Thread(target=artifact.tidy)
        tidying.start()
        tidying.join(0.3)
        assert tidying.is_alive() and not artifact.is_tidy()
        go_on.set()
        tidying.join(PATIENCE)
        child.join(PATIENCE)
        assert (child.exitcode, content(artifact)) == (0, "one")


class TestReplaceText:
    def test_the_new_text_takes_the_place_of_the_old(self, tmp_path):
        for text in ("one", "“zwei”\n"):
            replace_text(tmp_path / "f", text)
            assert (tmp_path / "f").read_bytes().decode() == text
        assert [path.name for path in tmp_path.iterdir()] == ["f"]

    def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(self, write, tmp_path, monkeypatch):
        path = write("f", "one")

        def full(path, text, encoding):
            path.write_bytes(text.encode()[:1])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            replace_text(path, "two")
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"one")]


class TestHashes:
    def test_sha256_is_that_of_the_bytes(self, write):
        assert sha256(write("f", b"abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

    def test_changes_in_quick_succession_are_noticed(self, write, hashes):
        for number in range(300):
            data = b"%04d" % number
            assert hashes.of(write("f", data)) == hashlib.sha256(data).hexdigest()

    def test_a_file_that_has_not_changed_is_not_read_again(self, write, hashes, monkeypatch):
        path = write("f", b"abc")
        monkeypatch.setattr("r2med_pyserini.artifacts.SETTLED_NS", -(10**18))  # as if it had been written long ago
        first = hashes.of(path)
        monkeypatch.setattr("r2med_pyserini.artifacts.sha256", not_called)
        assert hashes.of(path) == first == hashlib.sha256(b"abc").hexdigest()

    @pytest.mark.parametrize(
        "change",
        [
            lambda path: path.write_bytes(b"xyz"),
            lambda path: (path.write_bytes(b"xyz"), os.utime(path, ns=(10**18, 10**18))),
            lambda path: (path.with_name("g").write_bytes(b"xyz"), path.with_name("g").replace(path)),
        ],
        ids=["rewritten", "with the old time", "replaced"],
    )
    def test_a_change_of_the_same_size_is_noticed(self, write, hashes, change):
        path = write("f", b"abc")
        os.utime(path, ns=(10**18, 10**18))
        hashes.of(path)
        change(path)
        assert hashes.of(path) == hashlib.sha256(b"xyz").hexdigest()

    def test_a_change_within_the_clocks_tick_is_noticed(self, write, hashes, monkeypatch):
        now = time.time_ns()
        monkeypatch.setattr(Hashes, "_signature", staticmethod(lambda path: [3, now, now, 1]))
        path = write("f", b"abc")
        hashes.of(path)
        path.write_bytes(b"xyz")
        assert hashes.of(path) == hashlib.sha256(b"xyz").hexdigest()

    def test_a_change_within_the_clocks_tick_of_publishing_is_noticed(self, write, hashes, monkeypatch):
        now = time.time_ns()
        monkeypatch.setattr(Hashes, "_signature", staticmethod(lambda path: [3, now, now, 1]))
        path = write("f", b"abc")
        hashes.just_written(path, sha256(path))
        path.write_bytes(b"xyz")
        assert hashes.of(path) == hashlib.sha256(b"xyz").hexdigest()
        hashes.save()
        assert hashes.of(path) == hashlib.sha256(b"xyz").hexdigest()

    def test_the_memory_outlives_the_process(self, write, tmp_path, monkeypatch):
        monkeypatch.setattr("r2med_pyserini.artifacts.SETTLED_NS", -(10**18))  # as if it had been written long ago
        path, memory = write("f", b"abc"), tmp_path / "cache" / "hashes.json"
        hashes = Hashes(memory)
        hashes.just_written(path, "known")
        hashes.save()
        assert Hashes(memory).of(path) == "known"

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"f": 1}', "\x00"])
    def test_a_garbled_memory_costs_nothing_but_time(self, write, text):
        memory, path = write("hashes.json", text), write("f", b"abc")
        memory.write_text(text.replace("f", str(path)))
        assert Hashes(memory).of(path) == hashlib.sha256(b"abc").hexdigest()

    def test_a_memory_that_cannot_be_written_is_no_error(self, write):
        path = write("f", b"abc")
        hashes = Hashes(path / "hashes.json")
        hashes.just_written(path, "known")
        hashes.save()
        assert path.read_bytes() == b"abc"

    def test_a_missing_file_is_an_os_error(self, tmp_path, hashes):
        with pytest.raises(FileNotFoundError):
            hashes.of(tmp_path / "none")


def test_remove_leaves_what_the_manifest_does_not_list(tmp_path, hashes):
    artifact = Artifact(tmp_path / "out", folder=True)
    artifact.make({"v": 1}, builder("one"), hashes)
    own = [artifact.path / "notes.txt", artifact.path / "sub" / "notes.txt"]
    for path in own:
        path.write_text("mine")
    artifact.remove()
    assert sorted(path for path in artifact.path.rglob("*") if path.is_file()) == sorted(own)
    assert artifact.made_by() is None


def test_remove_leaves_a_file_that_has_no_manifest(artifact):
    path = artifact.path / "notes.txt" if artifact.folder else artifact.path
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    artifact.remove()
    assert path.read_text() == "mine"


def test_remove_deletes_artifact_and_manifest(artifact, hashes):
    artifact.make({"v": 1}, builder("one"), hashes)
    artifact.remove()
    assert not artifact.path.exists() and not manifest_of(artifact).exists()
    artifact.remove()


def test_a_kill_between_the_two_renames_loses_nothing_that_a_user_keeps_in_the_folder(tmp_path):
    hashes = Hashes(tmp_path / "hashes.json")
    artifact = Artifact(tmp_path / "data", folder=True, members=lambda folder: [folder / "ours"])
    artifact.make({"v": 1}, lambda new: (new / "ours").write_text("1"), hashes)
    (artifact.path / "notes").write_text("mine")
    artifact.path.rename(tmp_path / ".tmp.old.data")
    assert not artifact.make({"v": 1}, lambda new: (new / "ours").write_text("1"), hashes)
    assert {path.name: path.read_text() for path in artifact.path.iterdir() if path.name != "manifest.json"} == {
        "ours": "1",
        "notes": "mine",
    }
    assert not (tmp_path / ".tmp.old.data").exists()


class TestWhatTheManifestTellsBesides:
    def test_seconds_are_those_of_the_build(self, artifact, hashes):
        def build(path: Path) -> None:
            time.sleep(0.05)
            builder("one")(path)

        assert artifact.seconds() is None
        artifact.make({"v": 1}, build, hashes)
        assert 0.05 <= artifact.seconds() < PATIENCE
        before = manifest_of(artifact).read_bytes()
        artifact.make({"v": 1}, not_called, hashes)
        assert manifest_of(artifact).read_bytes() == before

    @pytest.mark.parametrize("seconds", ["1", None, True, -1, float("nan"), float("inf"), [1]])
    def test_an_artifact_is_current_whatever_it_says_of_seconds(self, artifact, hashes, seconds):
        artifact.make({"v": 1}, builder("one"), hashes)
        manifest = json.loads(manifest_of(artifact).read_bytes())
        manifest_of(artifact).write_text(json.dumps(manifest | {"seconds": seconds}))
        assert artifact.seconds() is None and artifact.is_current({"v": 1}, hashes)
        del manifest["seconds"]  # as older versions wrote it
        manifest_of(artifact).write_text(json.dumps(manifest))
        assert artifact.seconds() is None
        assert artifact.make({"v": 1}, not_called, hashes) is False

    def test_the_size_is_that_of_the_files_listed(self, artifact, hashes):
        assert artifact.size() is None
        artifact.make({"v": 1}, builder("three"), hashes)
        assert artifact.size() == len("three") + (len("b") if artifact.folder else 0)
        (artifact.path / "a" if artifact.folder else artifact.path).unlink()
        assert artifact.size() is None


class TestNotes:
    """What a build tells besides its files."""

    @pytest.mark.parametrize("folder", [True, False])
    def test_they_are_kept(self, tmp_path, hashes, folder):
        artifact = Artifact(tmp_path / "out", folder)
        assert artifact.notes() == {}
        artifact.make({"v": 1}, noting(folder, {"precision": "float32"}), hashes)
        assert artifact.notes() == {"precision": "float32"}
        assert artifact.is_current({"v": 1}, hashes)

    @pytest.mark.parametrize("folder", [True, False])
    def test_what_is_incomplete_is_made_anew_until_it_is_not(self, tmp_path, hashes, folder):
        artifact = Artifact(tmp_path / "out", folder)
        for incomplete in (True, True, False):
            assert artifact.make({"v": 1}, noting(folder, {INCOMPLETE: incomplete}), hashes) is True
            assert artifact.is_current({"v": 1}, hashes) is not incomplete
        assert artifact.make({"v": 1}, noting(folder, {INCOMPLETE: False}), hashes) is False

    def test_odd_ones_are_none(self, tmp_path, hashes):
        artifact = Artifact(tmp_path / "out", folder=True)
        artifact.make({"v": 1}, noting(True, {"a": 1}), hashes)
        manifest = artifact.path / "manifest.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"notes": [1]}))
        assert artifact.notes() == {}


def noting(folder: bool, notes: dict):
    """A build that writes something and returns notes."""

    def build(path):
        (path / "file" if folder else path).write_text("content")
        return notes

    return build
