"""The cache of vectors. The encoder here is the tests' own: what is tested is where its vectors go."""

import hashlib
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from r2med_pyserini import vectors
from r2med_pyserini.encoders.base import Advance, Encoded, Settings
from r2med_pyserini.errors import R2medError
from r2med_pyserini.models import DENSE, DOCUMENT, ONNX, QUERY, SPARSE, Model
from r2med_pyserini.vectors import Job, Vectors, discard, make_parts, put_together, remove_parts, share

DIMENSIONS = 6
SIZE = 4  # of a shard
LONG = "long"  # a text with this word is cut
PROMPTS = {QUERY: "", DOCUMENT: ""}
LENGTHS = {QUERY: 9, DOCUMENT: 9}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch) -> None:
    monkeypatch.setattr(vectors, "SHARD", SIZE)


def make_model(**facts) -> Model:
    """Loader ONNX: its precision is the model's, so that no device is asked for."""
    usual = {"id": "org/toy", "revision": "1" * 40, "dimensions": DIMENSIONS, "dtype": "float32"}
    return Model("toy", loader=ONNX, prompts=PROMPTS, max_length=LENGTHS, **({"kind": DENSE} | usual | facts))


def vector(text: str) -> np.ndarray:
    """Float32 [DIMENSIONS], of which some are 0."""
    drawn = np.random.default_rng(list(hashlib.sha256(text.encode()).digest()))
    return np.where(drawn.random(DIMENSIONS) < 0.7, drawn.normal(size=DIMENSIONS), 0).astype(np.float32)


@dataclass
class Toy:
    """An encoder whose vectors are functions of the texts; `alter` changes what it gives back."""

    model: Model
    alter: Callable[[np.ndarray], np.ndarray] = lambda found: found
    stop_after: int | None = None  # shards
    texts: list[str] = field(default_factory=list)
    calls: int = 0
    device: str = "cpu"

    @property
    def precision(self) -> str:
        return self.model.dtype

    def vocabulary(self) -> list[str] | None:
        return [f"##{number}" for number in range(DIMENSIONS)] if self.model.kind == SPARSE else None

    def encode(self, texts: Sequence[str], side: str, dataset: str, advance: Advance) -> Encoded:
        if self.calls == self.stop_after:
            raise R2medError("interrupted")
        self.calls += 1
        self.texts += texts
        for _ in texts:
            advance(1)
        found = self.alter(np.array([vector(text) for text in texts]))
        return Encoded(csr_matrix(found) if self.model.kind == SPARSE else found, sum(LONG in text for text in texts))


@dataclass
class Work:
    """A model, texts, and the folders where the vectors go."""

    root: Path
    texts: dict[str, str]
    model: Model = field(default_factory=make_model)

    @property
    def job(self) -> Job:
        return Job(self.model, DOCUMENT, "biology", self.texts.items, self.root / "parts", self.root / "whole")

    @property
    def parts(self) -> list[Path]:
        return sorted(self.job.parts.iterdir()) if self.job.parts.exists() else []

    def shards(self, folder: Path | None = None) -> list[Path]:
        return sorted((folder or self.job.parts).glob("*.np[yz]"))

    def make(self, part: tuple[int, int] = (1, 1), **how) -> Toy:
        """What encoded the shards that were not there."""
        toy = Toy(self.model, **how)
        make_parts(self.job, handing_out(toy), lambda more: None, part)
        return toy

    def put(self, **how) -> Toy:
        """Put all together, as a stage does it: into a new folder, which then takes the place of the old one."""
        toy, new = Toy(self.model, **how), self.root / "new"
        new.mkdir()
        put_together(self.job, handing_out(toy), new, lambda more: None)
        if self.job.whole.exists():
            self.job.whole.rename(self.root / f"old {time.monotonic_ns()}")
        new.rename(self.job.whole)
        return toy

    @property
    def found(self) -> Vectors:
        return Vectors(self.job.whole)

    def check(self) -> None:
        """Ids and vectors are those of the texts, in their order."""
        found = self.found
        assert found.ids == list(self.texts)
        parts = list(found.parts())
        assert [name for names, _ in parts for name in names] == list(self.texts)
        assert [len(names) for names, _ in parts] == [matrix.shape[0] for _, matrix in parts]
        wanted = np.array([vector(text) for text in self.texts.values()]).astype(self.model.dtype)
        got = found.matrix() if self.model.kind == DENSE else found.matrix().toarray()
        assert np.array_equal(got, wanted.astype(np.float32)) and got.dtype == np.float32


def handing_out(toy: Toy):
    """What the code under test gets the encoder from."""
    return SimpleNamespace(settings=Settings(), get=lambda model: toy)


def some_texts(count: int) -> dict[str, str]:
    """Ids in an order that is not theirs."""
    return {f"d{number * 7 % 100}": f"text {number}" for number in range(count)}


@pytest.fixture
def work(tmp_path) -> Work:
    """Ten texts, which make three shards."""
    return Work(tmp_path, some_texts(10))


def edited(work: Work, position: int) -> dict[str, str]:
    name = list(work.texts)[position]
    return {**work.texts, name: "another text"}


class TestPuttingTogether:
    @pytest.mark.parametrize("count", [1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 3 * SIZE + 1])
    @pytest.mark.parametrize("kind", [DENSE, SPARSE])
    def test_every_text_has_its_vector(self, tmp_path, count, kind):
        work = Work(tmp_path, some_texts(count), make_model(kind=kind))
        toy = work.put()
        assert toy.texts == list(work.texts.values())
        assert toy.calls == len(work.shards(work.job.whole)) == -(-count // SIZE)
        work.check()

    @pytest.mark.parametrize("kind", [DENSE, SPARSE])
    def test_without_a_text_there_is_no_vector(self, tmp_path, kind):
        work = Work(tmp_path, {}, make_model(kind=kind))
        assert work.put().calls == 0
        assert (work.found.ids, list(work.found.parts()), work.found.truncated) == ([], [], 0)

    def test_texts_that_are_the_same_have_vectors_of_their_own(self, tmp_path):
        work = Work(tmp_path, {f"d{number}": "the same" for number in range(3 * SIZE)})
        assert work.put().calls == 1
        work.check()

    @pytest.mark.parametrize("odd", ["", " \n\t", "naïve 日本 😀", "\u2028", '"\\', "a\0b"])
    def test_any_text_will_do(self, work, odd):
        work.texts["odd"] = odd
        work.put()
        assert work.put().calls == 0
        work.check()

    def test_ids_may_hold_what_is_no_ascii_white_space(self, tmp_path):
        work = Work(tmp_path, {name: name for name in ("a\u00a0b", "a\u2028b", "a\x85b", "naïve", "日本")})
        work.put()
        work.check()

    def test_what_was_cut_is_summed_up(self, work):
        work.texts |= {"x": f"{LONG} 1", "y": f"a {LONG} 2", "z": "short"}
        work.make((1, 2))
        work.put()
        assert work.found.truncated == 2
        work.put()
        assert work.found.truncated == 2

    def test_half_precision_is_kept_as_such_and_read_from_the_disk(self, tmp_path):
        work = Work(tmp_path, some_texts(10), make_model(dtype="float16"))
        work.put()
        for _, matrix in work.found.parts():
            assert (matrix.dtype, type(matrix)) == (np.float16, np.memmap)
        work.check()

    def test_float32_is_kept_exactly_and_read_from_the_disk(self, work):
        work.put()
        for names, matrix in work.found.parts():
            assert (matrix.dtype, type(matrix)) == (np.float32, np.memmap)
            assert np.array_equal(matrix, [vector(work.texts[name]) for name in names])

    def test_sparse_vectors_stay_sparse_and_come_with_their_vocabulary(self, tmp_path):
        work = Work(tmp_path, some_texts(10), make_model(kind=SPARSE))
        work.put(alter=np.abs)
        for names, matrix in work.found.parts():
            assert isinstance(matrix, csr_matrix) and matrix.dtype == np.float32
            wanted = np.abs([vector(work.texts[name]) for name in names])
            assert matrix.nnz == (wanted != 0).sum() and np.array_equal(matrix.toarray(), wanted)
        assert work.found.vocabulary() == ["##0", "##1", "##2", "##3", "##4", "##5"]

    def test_an_empty_row_of_sparse_vectors_stays_one(self, work):
        work.model = make_model(kind=SPARSE)
        work.put(alter=np.zeros_like)
        assert (work.found.matrix().shape, work.found.matrix().nnz) == ((10, DIMENSIONS), 0)

    def test_the_record_says_what_computed_it_and_where(self, work):
        work.put()
        record = json.loads((work.job.whole / "encoding.json").read_text())
        wanted = {"model": "toy", "side": "document", "precision": "float32", "last encoded on": "cpu"}
        assert wanted.items() <= record.items()

    def test_no_more_texts_are_read_ahead_than_a_shard_has(self, work):
        read, ahead = 0, []

        def texts() -> Iterator[tuple[str, str]]:
            nonlocal read
            for pair in some_texts(5 * SIZE).items():
                read += 1
                yield pair

        def look(found: np.ndarray) -> np.ndarray:
            ahead.append(read)
            return found

        job = replace(work.job, texts=texts)
        make_parts(job, handing_out(Toy(work.model, look)), lambda more: None)
        assert ahead == [SIZE * number for number in range(1, 6)]

    @pytest.mark.parametrize("made", [0, 1, 3])
    def test_progress_counts_every_text_once(self, work, made):
        for number in range(made):
            work.make((number + 1, 3))
        heard: list[int] = []
        (work.root / "new").mkdir()
        put_together(work.job, handing_out(Toy(work.model)), work.root / "new", heard.append)
        assert sum(heard) == 10

    def test_progress_of_a_part_counts_its_own_texts(self, work):
        heard: list[int] = []
        assert make_parts(work.job, handing_out(Toy(work.model)), heard.append, (3, 3)) == 1
        assert make_parts(work.job, handing_out(Toy(work.model)), heard.append, (1, 2)) == 1
        assert sum(heard) == 2 + (SIZE + 2)

    @pytest.mark.parametrize("count", [0, 1, SIZE, SIZE + 1, 3 * SIZE - 1, 10])
    @pytest.mark.parametrize("of", [1, 2, 3, 7])
    def test_a_part_has_as_many_texts_as_its_share(self, tmp_path, count, of):
        work = Work(tmp_path, some_texts(count))
        for number in range(1, of + 1):
            assert len(work.make((number, of)).texts) == share(count, (number, of))


class TestReuse:
    def test_what_was_interrupted_goes_on_at_the_shard(self, work):
        with pytest.raises(R2medError, match="interrupted"):
            work.make(stop_after=2)
        assert len(work.shards()) == 2
        assert work.put().texts == list(work.texts.values())[2 * SIZE :]
        work.check()

    def test_a_second_time_there_is_nothing_to_do(self, work):
        assert work.make().calls == 3
        assert work.make().calls == 0
        assert work.put().calls == 0
        assert work.put().calls == 0

    def test_what_was_put_together_is_not_made_again_as_a_part(self, work):
        work.put()
        discard(work.job)
        assert (work.make((1, 2)).calls, work.parts) == (0, [])

    @pytest.mark.parametrize(("position", "shard"), [(0, 0), (5, 1), (9, 2)])
    def test_a_changed_text_costs_its_shard_alone(self, work, position, shard):
        work.put()
        discard(work.job)
        work.texts = edited(work, position)
        assert work.put().texts == list(work.texts.values())[shard * SIZE : (shard + 1) * SIZE]
        work.check()

    def test_a_changed_id_costs_nothing(self, work):
        work.put()
        work.texts = {f"new-{name}": text for name, text in work.texts.items()}
        assert work.put().calls == 0
        work.check()

    def test_texts_at_the_end_cost_the_last_shard(self, work):
        work.put()
        work.texts |= {"one": "more"}
        assert work.put().calls == 1
        work.check()

    @pytest.mark.parametrize(
        "facts",
        [
            {"revision": "2" * 40},
            {"id": "org/other"},
            {"normalize": True},
            {"dtype": "float16"},
            {"pooling": "mean"},
            {"prompts": {**PROMPTS, DOCUMENT: "passage: "}},
            {"max_length": {**LENGTHS, DOCUMENT: 10}},
        ],
        ids=lambda facts: next(iter(facts)),
    )
    def test_with_another_setting_nothing_is_reused(self, work, facts):
        work.put()
        work.model = replace(work.model, **facts)
        assert work.put().calls == 3
        work.check()

    def test_of_another_format_nothing_is_reused(self, work, monkeypatch):
        work.put()
        monkeypatch.setattr(vectors, "SHARD_FORMAT", vectors.SHARD_FORMAT + 1)
        assert work.put().calls == 3

    @pytest.mark.parametrize(
        "facts",
        [
            {"similarity": "dot"},
            {"facts": {"licence": "mit"}},
            {"prompts": {**PROMPTS, QUERY: "query: "}},
            {"max_length": {**LENGTHS, QUERY: 10}},
        ],
        ids=["similarity", "facts", "prompt of queries", "length of queries"],
    )
    def test_what_the_vectors_do_not_depend_on_costs_nothing(self, work, facts):
        work.put()
        work.model = replace(work.model, **facts)
        assert work.put().calls == 0

    def test_queries_are_not_taken_for_documents(self, work):
        work.model = replace(work.model, prompts={QUERY: "query: ", DOCUMENT: ""})
        work.make()
        toy = Toy(work.model)
        make_parts(replace(work.job, side=QUERY), handing_out(toy), lambda more: None)
        assert toy.calls == 3

    @pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])))
    def test_parts_may_be_made_in_any_order(self, work, order):
        for number in order:
            assert work.make((number, 3)).calls == 1
        assert work.put().calls == 0
        work.check()

    def test_more_parts_than_shards_are_fine(self, work):
        assert [work.make((number, 5)).calls for number in range(1, 6)] == [1, 1, 1, 0, 0]
        assert work.put().calls == 0

    def test_a_missing_part_is_encoded_when_all_is_put_together(self, work):
        work.make((1, 3))
        work.make((3, 3))
        assert work.put().texts == list(work.texts.values())[SIZE : 2 * SIZE]
        work.check()

    def test_what_is_put_together_takes_no_more_room(self, work):
        work.make()
        work.put()
        assert [path.stat().st_nlink for path in work.shards()] == [2, 2, 2]

    def test_where_files_cannot_be_linked_they_are_copied(self, work, monkeypatch):
        def refuse(*_):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        work.make()
        assert work.put().calls == 0
        assert [path.stat().st_nlink for path in work.shards()] == [1, 1, 1]
        discard(work.job)
        assert work.put().calls == 0
        work.check()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()  # it may be linked to the same shard elsewhere
    path.write_bytes(content)


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(change(content))

    return damage


def note(shard: Path) -> Path:
    return shard.with_suffix(".json")


def without(key: str) -> Callable[[bytes], bytes]:
    return lambda text: json.dumps({name: value for name, value in json.loads(text).items() if name != key}).encode()


DAMAGE = {
    "gone": Path.unlink,
    "flipped": flip,
    "short": rewrite(lambda content: content[:-3]),
    "half": rewrite(lambda content: content[: len(content) // 2]),
    "empty": rewrite(lambda content: b""),
    "no text": rewrite(lambda content: b"\xff\xfe"),
    "a list": rewrite(lambda content: b"[]"),
    "nested": rewrite(lambda content: b"[" * 100_000),
}
OF_NOTES = {
    "no hash": rewrite(without("sha256")),
    "no count": rewrite(without("truncated")),
    "no number": rewrite(lambda text: json.dumps(json.loads(text) | {"truncated": "3"}).encode()),
}
DAMAGES = {f"shard {name}": (Path, damage) for name, damage in DAMAGE.items()} | {
    f"note {name}": (note, damage) for name, damage in (DAMAGE | OF_NOTES).items() if name != "flipped"
}


class TestDamage:
    def test_a_shard_with_the_note_of_another_machines_is_encoded_again(self, work):
        """Two may make a shard at once, and differ in the last bits."""
        work.make()
        (work.root / "elsewhere").mkdir()
        other = replace(work, root=work.root / "elsewhere")
        other.make(alter=lambda found: np.nextafter(found, 1))
        [one, *_], [another, *_] = work.shards(), other.shards()
        assert one.name == another.name
        one.write_bytes(another.read_bytes())
        assert work.put().calls == 1
        work.check()

    @pytest.mark.parametrize(("file", "damage"), DAMAGES.values(), ids=DAMAGES)
    @pytest.mark.parametrize("place", ["parts", "whole"])
    def test_a_damaged_shard_is_encoded_again(self, work, place, file, damage):
        work.put()
        if place == "parts":
            work.job.whole.rename(work.root / "elsewhere")
        else:
            discard(work.job)
        shard = work.shards(work.root / place)[0]
        damage(file(shard))
        assert work.put().calls == 1
        work.check()

    def test_a_flipped_bit_of_a_note_never_harms_vectors(self, work):
        """It may change the count of texts that were cut; whatever else it changes is noticed."""
        work.put()
        discard(work.job)
        path = note(work.shards(work.job.whole)[0])
        content = path.read_bytes()
        for position in range(0, len(content), 3):
            changed = bytearray(content)
            changed[position] ^= 1
            path.write_bytes(changed)
            assert work.put().calls <= 1
            work.check()
            discard(work.job)
            path = note(work.shards(work.job.whole)[0])
            path.unlink()
            path.write_bytes(content)

    def test_a_shard_under_another_ones_name_is_not_believed(self, work):
        work.put()
        one, other, _ = work.shards()
        content = other.read_bytes()
        one.unlink()
        one.write_bytes(content)
        (work.root / "whole").rename(work.root / "elsewhere")
        assert work.put().calls == 1
        work.check()


class TestBadVectors:
    @pytest.mark.parametrize("kind", [DENSE, SPARSE])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_vector_that_is_none_is_named_and_not_kept(self, work, kind, value):
        def spoil(found: np.ndarray) -> np.ndarray:
            found[2:, 1] = value
            return found

        work.model = make_model(kind=kind)
        name = list(work.texts)[2]
        with pytest.raises(R2medError) as caught:
            work.make(alter=spoil)
        text = f"model toy: the vector of document {name} holds NaN or infinite values"
        assert str(caught.value).startswith(text) and "--dtype float32" in str(caught.value)
        assert work.parts == []

    def test_the_shards_before_it_are_kept(self, work):
        def spoil(found: np.ndarray) -> np.ndarray:
            return found if len(found) == SIZE else found * np.nan

        with pytest.raises(R2medError, match="NaN"):
            work.make(alter=spoil)
        assert len(work.shards()) == 2 and len(work.parts) == 4
        assert work.put().calls == 1

    def test_a_value_that_half_precision_cannot_hold_is_infinite(self, work):
        work.model = make_model(dtype="float16")
        with pytest.raises(R2medError, match=r"infinite values .*float32"):
            work.make(alter=lambda found: np.full_like(found, 70_000))
        assert work.parts == []

    @pytest.mark.parametrize("kind", [DENSE, SPARSE])
    @pytest.mark.parametrize(
        ("alter", "words"),
        [
            (lambda found: found[:, :-1], "gave 4 vectors of 5 dimensions; 4 of 6 are wanted"),
            (lambda found: np.hstack([found, found]), "gave 4 vectors of 12 dimensions; 4 of 6 are wanted"),
            (lambda found: found[1:], "gave 3 vectors of 6 dimensions; 4 of 6 are wanted"),
            (lambda found: np.vstack([found, found]), "gave 8 vectors of 6 dimensions; 4 of 6 are wanted"),
        ],
    )
    def test_the_wrong_number_is_not_kept(self, work, kind, alter, words):
        work.model = make_model(kind=kind)
        with pytest.raises(R2medError, match=f"model toy {words}"):
            work.put(alter=alter)
        assert work.parts == []

    def test_an_interruption_while_a_shard_is_written_leaves_nothing_of_it(self, work, monkeypatch):
        def full(path, *_):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(vectors, "_save", full)
        with pytest.raises(OSError, match="No space left"):
            work.make()
        assert work.parts == []


def make_all(root: Path, start) -> None:
    """What a process of its own does: all shards, beginning each at the same time as the other process."""
    vectors.SHARD = SIZE

    def meet(found: np.ndarray) -> np.ndarray:
        start.wait(60)
        return found

    Work(root, some_texts(10)).make(alter=meet)


class TestSideBySide:
    def test_two_processes_may_make_the_same_part(self, work):
        processes = multiprocessing.get_context("spawn")
        start = processes.Barrier(2)
        both = [processes.Process(target=make_all, args=(work.root, start)) for _ in range(2)]
        for process in both:
            process.start()
        for process in both:
            process.join()
        assert [process.exitcode for process in both] == [0, 0]
        assert len(work.parts) == 6
        assert work.put().calls == 0
        work.check()

    def test_another_process_may_finish_a_shard_while_it_is_written(self, work, monkeypatch):
        save, others = vectors._save, []

        def save_late(path: Path, found: np.ndarray) -> None:
            save(path, found)
            monkeypatch.setattr(vectors, "_save", save)
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(os, "getpid", lambda: 1)
                others.append(work.make())

        monkeypatch.setattr(vectors, "_save", save_late)
        assert work.make().calls == 1  # the other process made all the rest
        assert [other.calls for other in others] == [3]
        assert len(work.parts) == 6
        work.put()
        work.check()

    def test_discarding_leaves_nothing_but_what_another_process_is_writing(self, work):
        work.put()
        new = work.job.parts / f"new-1234-{work.shards()[0].name}"
        new.write_bytes(b"half")
        discard(work.job)
        assert work.parts == [new]

    def test_discarding_leaves_the_shards_of_other_settings(self, work):
        """Another process may be gathering them: `r2med encode --shard 1/8 --dtype ...`, say."""
        work.put()
        other = replace(work, model=replace(work.model, normalize=True))
        other.make((1, 2))
        discard(work.job)
        assert len(work.shards()) == 2
        assert other.make().calls == 1

    def test_discarding_leaves_what_was_not_put_together(self, work):
        work.make()
        before = work.parts
        discard(work.job)
        assert work.parts == before

    def test_discarding_removes_what_a_killed_process_left(self, work):
        work.put()
        left = work.job.parts / f"new-1234-{work.shards()[0].name}"
        for path in (left, left.with_suffix(".json")):
            path.write_bytes(b"half")
            os.utime(path, (time.time() - 7200,) * 2)
        discard(work.job)
        assert not work.job.parts.exists()

    def test_removing_all_parts_leaves_what_is_not_ours(self, work):
        work.make()
        mine = work.job.parts / "notes.json"
        mine.write_text("mine")
        (work.job.parts / f"new-1234-{work.shards()[0].name}").write_bytes(b"half")
        remove_parts(work.job.parts)
        assert work.parts == [mine]

    def test_discarding_twice_is_no_error(self, work):
        work.put()
        discard(work.job)
        discard(work.job)
        assert not work.job.parts.exists()

    def test_what_was_put_together_outlives_its_parts(self, work):
        work.make()
        work.put()
        discard(work.job)
        work.check()
