"""Fetching R2MED: from a Hub that works, from one that does not, and from a folder of the user's."""

import gzip
import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from r2med_pyserini.paths import CORPUS_FILE, MINI, QRELS_FILE, QUERY_FILE, RAW_FILES, Collection, Workspace
from r2med_pyserini.suites import Dataset, load_suite

from ..hub_server import Fault, HubServer
from .helpers import R2MED, Result, built, environment

SLUG, OTHER = "iiyi-clinical", "pmc-treatment"
DATASETS: dict[str, Dataset] = {dataset.slug: dataset for dataset in load_suite("r2med", Workspace(Path())).datasets}
CLOSED = "http://127.0.0.1:9"  # the port of `discard`, where nobody listens
TOKEN = "hf_token_of_somebody"
LIMITED = """
import resource, sys
from r2med_pyserini.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""


@cache
def published(slug: str) -> dict[str, bytes]:
    """Files with as many rows as the published ones, of very short texts."""
    dataset = DATASETS[slug]
    documents = [{"id": f"d{number}", "text": f"case {number}"} for number in range(dataset.documents)]
    queries = [{"id": f"q{number}", "text": f"which case is {number}"} for number in range(dataset.queries)]
    qrels = [
        {"q_id": f"q{number % dataset.queries}", "p_id": f"d{number}", "score": 1} for number in range(dataset.qrels)
    ]
    return {name: jsonl(rows) for name, rows in zip(RAW_FILES, (documents, queries, qrels), strict=True)}


def jsonl(rows: list[dict]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def mini(slug: str = SLUG) -> dict[str, bytes]:
    return {name: (MINI / slug / name).read_bytes() for name in RAW_FILES}


@dataclass
class Place:
    """A Hub, a workspace and the cache of the Hub's client."""

    root: Path
    hub: HubServer
    slugs: tuple[str, ...] = (SLUG,)

    def __post_init__(self) -> None:
        self.workspace = Workspace(self.root / "work")
        self.workspace.root.mkdir(parents=True, exist_ok=True)
        self.home = self.root / "huggingface"

    def publish(self, slug: str, files: dict[str, bytes] | None = None) -> None:
        dataset = DATASETS[slug]
        self.hub.serve(dataset.repo, dataset.revision, files or published(slug), large=(CORPUS_FILE,))

    def elsewhere(self, *slugs: str) -> "Place":
        """The same Hub and the same cache, with another workspace."""
        other = Place(self.root / "elsewhere", self.hub, slugs or self.slugs)
        other.home = self.home
        return other

    @property
    def raw(self) -> Path:
        return self.workspace.data("r2med") / SLUG

    def start(
        self, *words: str | Path, limit: int | None = None, setup: Callable[[], object] | None = None, **env: str
    ) -> subprocess.Popen:
        """`r2med WORDS...`, which may write no file larger than `limit` bytes; `setup` is run first in its process."""
        foreign = re.compile(r"HF_|HUGGING|\w+_proxy$", re.IGNORECASE)
        inherited = {name: value for name, value in environment(self.workspace).items() if not foreign.match(name)}
        hub = {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.home)}
        command = R2MED if limit is None else (sys.executable, "-c", LIMITED, str(limit))
        return subprocess.Popen(
            [*command, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=inherited | hub | env,
            preexec_fn=setup,
        )

    def run(self, *words: str | Path, limit: int | None = None, **env: str) -> Result:
        return ended(self.start(*words, limit=limit, **env))

    def data(self, *words: str | Path, limit: int | None = None, **env: str) -> Result:
        return self.run("data", *self.chosen, *words, limit=limit, **env)

    @property
    def chosen(self) -> list[str]:
        return [word for slug in self.slugs for word in ("--dataset", slug)]

    @property
    def collection(self) -> Collection:
        return self.workspace.collection("r2med", SLUG)

    def files(self) -> dict[str, bytes]:
        """The raw files that are there, the manifest aside."""
        return {path.name: path.read_bytes() for path in self.raw.glob("*") if path.name != "manifest.json"}

    def left(self) -> list[str]:
        """What stands where the raw files of the dataset belong, under whatever name."""
        return sorted(path.name for path in self.raw.parent.glob("*") if SLUG in path.name)


def ended(process: subprocess.Popen) -> Result:
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, out, err)


def errors(done: Result) -> list[str]:
    """The errors that a command told, without the word."""
    return re.findall(r"^Error: (.*(?:\n(?!Error: ).*)*)", done.err.rstrip("\n"), re.MULTILINE)


# what works


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as hub:
        yield hub


@pytest.fixture
def place(tmp_path, hub) -> Place:
    """A Hub that has the dataset, and nothing here yet."""
    place = Place(tmp_path, hub)
    place.publish(SLUG)
    return place


@pytest.fixture(scope="module")
def fetching(tmp_path_factory) -> Iterator[tuple[Place, Result]]:
    """A dataset that has been fetched, not to be changed, and what the command said."""
    with HubServer() as hub:
        place = Place(tmp_path_factory.mktemp("fetched"), hub)
        place.publish(SLUG)
        yield place, place.data()


@pytest.fixture
def fetched(fetching) -> Place:
    return fetching[0]


@pytest.fixture
def copy(fetched, place) -> Place:
    """The same, to be changed."""
    shutil.copytree(fetched.workspace.root, place.workspace.root, dirs_exist_ok=True)
    shutil.copytree(fetched.home, place.home, symlinks=True)
    return place


def test_a_dataset_is_fetched_and_converted(fetching):
    _, done = fetching
    assert done.status == 0, done.err
    assert built(done) == [f"convert r2med/{SLUG}", f"fetch r2med/{SLUG}"]


def test_the_files_are_the_hubs_byte_for_byte(fetched):
    assert fetched.files() == published(SLUG)


def test_the_manifest_tells_revision_and_hashes(fetched):
    manifest = json.loads((fetched.raw / "manifest.json").read_text())
    assert manifest["files"] == {name: hashlib.sha256(text).hexdigest() for name, text in published(SLUG).items()}
    wanted = {"repo": DATASETS[SLUG].repo, "revision": DATASETS[SLUG].revision}
    assert manifest["recipe"] | wanted == manifest["recipe"]


def test_the_collection_has_every_row(fetched):
    health = json.loads(fetched.collection.health.read_text())
    counts = DATASETS[SLUG].documents, DATASETS[SLUG].queries, DATASETS[SLUG].qrels
    assert (health["documents"], health["queries"], health["judgements"]) == counts


def test_each_file_is_asked_for_once(fetched):
    assert fetched.hub.asked("GET") == list(RAW_FILES)
    assert fetched.hub.asked("HEAD") == [CORPUS_FILE, *RAW_FILES]  # once more to see whether the Hub can be reached


def test_the_large_file_comes_from_the_store_that_the_hub_redirects_to(fetched):
    assert [request.file for request in fetched.hub.requests if request.path.startswith("/blobs/")] == [CORPUS_FILE]


def test_a_second_call_asks_and_builds_nothing(fetched):
    before = list(fetched.hub.requests)
    again = fetched.data()
    assert (again.status, built(again), fetched.hub.requests) == (0, [], before)


def test_another_workspace_is_served_from_the_cache(copy):
    assert copy.elsewhere().data().status == 0
    assert copy.hub.requests == []


def test_running_a_condition_fetches_by_itself(place):
    done = place.run("run", "bm25", *place.chosen)
    assert done.status == 0, done.err
    verbs = [line.split()[0] for line in built(done)]
    assert verbs == ["convert", "evaluate", "fetch", "index", "search"]


def test_a_token_goes_to_the_hub_and_not_to_its_store(place):
    place.hub.gate(DATASETS[SLUG].repo, TOKEN)
    assert place.data(HF_TOKEN=TOKEN).status == 0
    told = {(request.path.startswith("/blobs/"), request.authorization) for request in place.hub.requests}
    assert told == {(False, f"Bearer {TOKEN}"), (True, None)}


# what goes wrong


@dataclass(eq=False)
class Case:
    """A trouble, the words that tell of it, and how `r2med data` is called while it lasts."""

    breaks: Callable[[Place], object]
    says: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    limit: int | None = None
    slugs: tuple[str, ...] = (SLUG,)


@dataclass
class Attempt:
    """What a command did while there was trouble, what it left below data/, and what the next one did without."""

    first: Result
    left: list[str]
    second: Result
    files: dict[str, bytes]


def trouble(kind: str, method: str = "GET", file: str = CORPUS_FILE, **what) -> Callable[[Place], None]:
    return lambda place: place.hub.fail(file, Fault(kind, method, **what))


def lacking(name: str) -> Callable[[Place], None]:
    return lambda place: place.publish(SLUG, {other: text for other, text in published(SLUG).items() if other != name})


def gated(place: Place) -> None:
    place.hub.gate(DATASETS[SLUG].repo, TOKEN)


def removed(place: Place) -> None:
    place.hub.remove(DATASETS[SLUG].repo)


def nothing(place: Place) -> None:
    pass


def other_revision(place: Place) -> None:
    place.hub.serve(DATASETS[SLUG].repo, "main", published(SLUG))


def cached(slug: str) -> Callable[[Place], None]:
    def breaks(place: Place) -> None:
        assert place.elsewhere(slug).data().status == 0

    return breaks


AT_ONCE = {"Retry-After": "0"}
IMPATIENT = {"HF_HUB_DOWNLOAD_TIMEOUT": "1"}
FIRST, CACHED, LAST = SLUG, OTHER, "medical-sciences"  # by size, which is the order in which they are fetched

FAILING = {
    "connection ended": Case(trouble("cut", after=5000), ("broke off", "closed connection", "again")),
    "connection reset": Case(trouble("reset", after=5000), ("broke off", "reset", "again")),
    "wrong size of a large file": Case(trouble("size", "HEAD", after=3), ("broke off", "of size", "again")),
    "wrong size of a small file": Case(trouble("size", "HEAD", QUERY_FILE, after=3), ("broke off", "of size", "again")),
    "flipped byte in a large file": Case(trouble("flip"), (CORPUS_FILE, "damaged", "again")),
    "flipped byte in a small file": Case(trouble("flip", file=QUERY_FILE), (QUERY_FILE, "damaged", "again")),
    "too many requests": Case(trouble("status", "HEAD", status=429, headers=AT_ONCE), ("HTTP 429", "later", "again")),
    "Hub out of order": Case(trouble("status", "HEAD", status=503, headers=AT_ONCE), ("HTTP 503", "later", "again")),
    "store out of order": Case(trouble("status", status=503), ("HTTP 503", "later", "again")),
    "login page": Case(trouble("page", "HEAD"), ("is not the Hub", "login page")),
    "no file": Case(lacking(QRELS_FILE), (QRELS_FILE, "no such file", DATASETS[SLUG].revision, "404")),
    "no revision": Case(other_revision, ("no revision", DATASETS[SLUG].revision, "--from FOLDER")),
    "no repository": Case(removed, ("there is no", DATASETS[SLUG].repo, "HTTP 404"), {"HF_TOKEN": TOKEN}),
    "no login": Case(gated, ("wants a login", "HTTP 401", "HF_TOKEN")),
    "wrong login": Case(gated, ("wants a login", "HTTP 403", "HF_TOKEN"), {"HF_TOKEN": "hf_other"}),
    "offline": Case(nothing, ("HF_HUB_OFFLINE is set", "not in the cache", "--from FOLDER"), {"HF_HUB_OFFLINE": "1"}),
    "full disk of the cache": Case(nothing, (CORPUS_FILE, "File too large", "HF_HOME"), limit=100_000),
    "full disk of the workspace": Case(cached(SLUG), ("cannot make", SLUG, "File too large"), limit=100_000),
    "cache in a file": Case(nothing, ("cannot be kept", "Not a directory", "HF_HOME"), {"HF_HOME": __file__}),
    "wrong counts": Case(
        lambda place: place.publish(SLUG, mini()),
        (
            "corpus.jsonl has 57 rows, but there are 10,449 at revision",
            "query.jsonl has 9 rows, but there are 129",
            "qrels.jsonl has 20 rows, but there are 457",
            "not taken",
        ),
    ),
    "no answer to a download": Case(trouble("hang"), ("broke off", "timed out", "again"), IMPATIENT),
    "no more answer": Case(trouble("stall", after=5000), ("broke off", "timed out", "again"), IMPATIENT),
}  # fmt: skip
CUT_OFF = Case(cached(CACHED), env={"HF_ENDPOINT": CLOSED}, slugs=(FIRST, CACHED, LAST))
PASSING = {
    "connection ended": Case(trouble("cut", after=5000, times=2)),
    "no answer to a question": Case(trouble("hang", "HEAD", times=1), env={"HF_HUB_ETAG_TIMEOUT": "1"}),
    "no answer to a download": Case(trouble("hang", times=1), env=IMPATIENT),
    "no more answer": Case(trouble("stall", after=5000, times=1), env=IMPATIENT),
    "too many questions": Case(trouble("status", "HEAD", times=2, status=429, headers=AT_ONCE)),
    "too many downloads": Case(trouble("status", times=1, status=429, headers=AT_ONCE)),
    "Hub out of order": Case(trouble("status", "HEAD", times=2, status=503, headers=AT_ONCE)),
}


def attempt(case: Case, root: Path) -> Attempt:
    with HubServer() as hub:
        place = Place(root, hub, case.slugs)
        for slug in case.slugs:
            place.publish(slug)
        case.breaks(place)
        first = place.data("--threads", "1", limit=case.limit, **case.env)
        left = place.left()
        hub.heal()
        place.publish(SLUG)
        return Attempt(first, left, place.data(), place.files())


@pytest.fixture(scope="module")
def attempts(request, tmp_path_factory) -> Iterator[dict[Case, Future[Attempt]]]:
    """All cases that are to be tested, tried at the same time: in most, the client waits before it tries again."""
    items = [item for item in request.session.items if "attempts" in getattr(item, "fixturenames", ())]
    cases = dict.fromkeys(item.callspec.params["case"] for item in reversed(items))  # long ones first
    with ThreadPoolExecutor(12) as pool:
        yield {case: pool.submit(attempt, case, tmp_path_factory.mktemp("case")) for case in cases}


def cases(table: dict[str, Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", table.values(), ids=table)


@cases(FAILING)
def test_a_trouble_is_told_in_one_sentence(attempts, case):
    first = attempts[case].result().first
    [said] = [error for error in errors(first) if DATASETS[SLUG].name in error or SLUG in error]
    assert (first.status, [words for words in case.says if words not in said]) == (1, []), said
    assert "Traceback" not in first.err


@cases(FAILING)
def test_a_trouble_leaves_nothing_behind(attempts, case):
    assert attempts[case].result().left == []


@cases(FAILING)
def test_the_same_command_completes_when_the_trouble_is_over(attempts, case):
    tried = attempts[case].result()
    assert (tried.second.status, tried.files) == (0, published(SLUG)), tried.second.err


@cases(PASSING)
def test_a_trouble_that_passes_does_no_harm(attempts, case):
    tried = attempts[case].result()
    assert (tried.first.status, errors(tried.first), tried.files) == (0, [], published(SLUG)), tried.first.err


def test_a_trouble_with_one_dataset_does_not_keep_others(place):
    place.slugs = (SLUG, OTHER)
    place.publish(OTHER)
    place.hub.fail(QUERY_FILE, Fault("size", "HEAD", times=1, after=3))
    done = place.data("--threads", "1")
    assert (done.status, len(errors(done)), built(done)) == (1, 1, [f"convert r2med/{OTHER}", f"fetch r2med/{OTHER}"])


def test_what_has_arrived_is_not_fetched_again(place):
    place.hub.fail(QRELS_FILE, Fault("reset", times=1, after=100))
    assert [place.data().status, place.data().status] == [1, 0]
    assert place.hub.asked() == [*RAW_FILES, QRELS_FILE]


def test_a_large_file_goes_on_from_where_it_was_cut_off(place):
    corpus = b"".join(line[:-3] + b" " * 1200 + line[-3:] + b"\n" for line in published(SLUG)[CORPUS_FILE].splitlines())
    place.publish(SLUG, {**published(SLUG), CORPUS_FILE: corpus})
    place.hub.fail(CORPUS_FILE, Fault("cut", times=1, after=len(corpus) - 1000))
    done = place.data()
    assert (done.status, place.files()[CORPUS_FILE] == corpus) == (0, True), done.err
    first, second = (request.range for request in place.hub.requests if request.path.startswith("/blobs/"))
    assert first is None
    assert re.fullmatch(r"bytes=[1-9]\d+-", second)


@pytest.mark.parametrize("name", RAW_FILES)
def test_a_kill_in_the_middle_of_a_file_costs_that_file_only(place, name):
    place.hub.fail(name, Fault("stall", times=1, after=1000))
    process = place.start("data", *place.chosen)
    assert place.hub.stuck.wait(60)
    process.kill()
    process.communicate()
    done = place.data()
    assert (done.status, place.files()) == (0, published(SLUG)), done.err
    assert sorted(place.hub.asked()) == sorted([*RAW_FILES, name])
    assert place.left() == [SLUG]


def test_control_c_in_the_middle_of_a_file_ends_it_with_one_line(place):
    place.hub.fail(CORPUS_FILE, Fault("stall", times=1, after=1000))
    process = place.start("data", *place.chosen, setup=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert place.hub.stuck.wait(60)
    process.send_signal(signal.SIGINT)
    done = ended(process)
    said = "Interrupted. What is done is kept: the same command goes on from here."
    assert (done.status, done.out, done.err.strip()) == (130, "", said)
    assert place.data().status == 0


@pytest.mark.parametrize("apart", [False, True], ids=["one workspace", "two workspaces"])
def test_two_at_once_fetch_every_file_once(place, apart):
    both = [place.start("data", *place.chosen), (place.elsewhere() if apart else place).start("data", *place.chosen)]
    assert [ended(process).status for process in both] == [0, 0]
    assert (place.hub.asked(), place.files()) == (list(RAW_FILES), published(SLUG))


def test_offline_the_cache_is_enough(copy):
    assert copy.elsewhere().data(HF_HUB_OFFLINE="1").status == 0
    assert copy.hub.requests == []


# files of the user's


def gzipped(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(text) for name, text in files.items()}


def beir(files: dict[str, bytes]) -> dict[str, bytes]:
    rows = [json.loads(line) for line in files[QRELS_FILE].splitlines()]
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row.values())) for row in rows)]
    return {CORPUS_FILE: files[CORPUS_FILE], QUERY_FILE: files[QUERY_FILE], "qrels.tsv": "\n".join(lines).encode()}


def flip_a_byte(path: Path) -> None:
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(text)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text)
    return folder


@pytest.mark.parametrize("below", [SLUG, DATASETS[SLUG].name, ""])
def test_a_folder_may_be_named_by_slug_or_as_on_the_hub_or_be_the_dataset(place, tmp_path, below):
    write(tmp_path / "mine" / below, published(SLUG))
    done = place.data("--from", tmp_path / "mine")
    assert (done.status, place.files()) == (0, published(SLUG)), done.err


@pytest.mark.parametrize("form", [gzipped, beir])
def test_files_of_other_forms_make_the_same_collection(place, fetched, tmp_path, form):
    files = form(published(SLUG))
    done = place.data("--from", write(tmp_path / "mine", files))
    assert (done.status, place.files()) == (0, files), done.err
    for name in ("docs", "topics", "qrels"):
        assert getattr(place.collection, name).read_bytes() == getattr(fetched.collection, name).read_bytes()


def test_files_from_a_folder_need_no_network(place, tmp_path):
    place.data("--from", write(tmp_path / "mine", published(SLUG)))
    assert place.hub.requests == []


WRONG = {
    "other counts": (mini(), "corpus.jsonl has 57 rows, but there are 10,449"),
    "other counts, gzipped": (gzipped(mini()), "corpus.jsonl.gz has 57 rows, but there are 10,449"),
    "no judgement": ({**published(SLUG), QRELS_FILE: b""}, "qrels.jsonl has 0 rows, but there are 457"),
    "a missing file": ({name: published(SLUG)[name] for name in (CORPUS_FILE, QRELS_FILE)}, "lacks query.jsonl"),
    "a torn file": (
        {**published(SLUG), QUERY_FILE: gzip.compress(published(SLUG)[QUERY_FILE])[:-9]},
        "query.jsonl: cannot be read",
    ),
}


@pytest.mark.parametrize(("files", "says"), WRONG.values(), ids=WRONG)
def test_wrong_files_in_a_folder_are_not_taken(place, tmp_path, files, says):
    done = place.data("--from", write(tmp_path / "mine", files))
    [said] = errors(done)
    assert (done.status, says in said, place.left()) == (1, True, []), said
    assert place.data("--from", write(tmp_path / "mine", published(SLUG))).status == 0


@pytest.mark.parametrize(("files", "says"), WRONG.values(), ids=WRONG)
def test_wrong_files_in_the_data_folder_are_told_and_stay(place, files, says):
    write(place.raw, files)
    done = place.data()
    [said] = errors(done)
    assert (done.status, says in said, place.files()) == (1, True, files), said
    assert (place.left(), (place.raw / "manifest.json").exists()) == ([SLUG], False)


def test_a_folder_without_the_dataset_is_named(place, tmp_path):
    done = place.data("--from", tmp_path / "mine")
    assert (done.status, f"{tmp_path / 'mine'}: no such folder" in done.err) == (2, True)


def test_data_that_are_here_are_not_taken_again(copy, tmp_path):
    done = copy.data("--from", write(tmp_path / "mine", published(SLUG)))
    assert (done.status, "was here already" in done.out, built(done)) == (0, True, [])


def test_an_empty_data_folder_does_not_keep_files_from_being_fetched(place):
    place.raw.mkdir(parents=True)
    assert place.data().status == 0
    assert place.files() == published(SLUG)


def test_a_folder_for_several_datasets_wants_one_sub_folder_each(place, tmp_path):
    place.slugs = (SLUG, OTHER)
    done = place.data("--from", write(tmp_path / "mine", published(SLUG)))
    said = sorted(error.partition(" in ")[0] for error in errors(done))
    assert (done.status, said) == (1, [f"{DATASETS[slug].name}: no corpus.jsonl" for slug in place.slugs])


def test_the_embedded_suite_is_taken_from_no_folder(place, tmp_path):
    done = place.run("data", "--suite", "mini", "--from", tmp_path)
    assert (done.status, "--from is for suite r2med" in done.err) == (2, True)


def test_files_put_into_the_data_folder_are_kept_whatever_lies_beside_them(place):
    write(place.raw, {**published(SLUG), "notes.txt": b"got these by post"})
    assert place.data().status == 0
    assert place.files() == {**published(SLUG), "notes.txt": b"got these by post"}
    assert sorted(json.loads((place.raw / "manifest.json").read_text())["files"]) == sorted(RAW_FILES)
    assert place.hub.requests == []


def test_a_users_files_beside_fetched_ones_change_nothing(copy):
    (copy.raw / "notes").mkdir()
    (copy.raw / "notes" / "mine.txt").write_bytes(b"mine")
    done = copy.data()
    assert (done.status, built(done), (copy.raw / "notes" / "mine.txt").read_bytes()) == (0, [], b"mine")


def test_a_users_files_outlive_another_fetch(copy):
    (copy.raw / "notes").mkdir()
    (copy.raw / "notes" / "mine.txt").write_bytes(b"mine")
    corrected = published(SLUG)[QUERY_FILE].replace(b"case", b"corrected case", 1)
    (copy.raw / QUERY_FILE).write_bytes(corrected)
    assert copy.data().status == 0
    assert (copy.raw / "notes" / "mine.txt").read_bytes() == b"mine"
    assert (copy.raw / f"{QUERY_FILE}.changed").read_bytes() == corrected
    assert (copy.raw / QUERY_FILE).read_bytes() == published(SLUG)[QUERY_FILE]


# damage


def test_a_file_damaged_later_is_mended_from_the_cache(copy):
    flip_a_byte(copy.raw / CORPUS_FILE)
    done = copy.data()
    assert (done.status, built(done)) == (0, [f"fetch r2med/{SLUG}"])
    assert copy.files().pop(f"{CORPUS_FILE}.changed")
    assert (published(SLUG).items() <= copy.files().items(), copy.hub.requests) == (True, [])


@pytest.mark.parametrize("name", RAW_FILES)
def test_a_file_damaged_in_the_cache_too_is_noticed_and_fetched_again(copy, name):
    flip_a_byte(copy.raw / name)
    flip_a_byte(next(copy.home.rglob(f"snapshots/*/{name}")).resolve())
    [said] = errors(copy.data())
    assert f"{name} arrived damaged" in said
    assert copy.data().status == 0
    assert (published(SLUG).items() <= copy.files().items(), copy.hub.asked()) == (True, [name])


# no network: last, since the client takes its time before it gives up, and other tests need not wait for it

without_network = pytest.mark.parametrize("case", [CUT_OFF], ids=["no network"])


@without_network
def test_without_network_there_is_one_sentence_a_dataset(attempts, case):
    first = attempts[case].result().first
    why = f"{CORPUS_FILE}: no answer from {CLOSED} ([Errno 111] Connection refused)"
    assert [error.partition(";")[0] for error in errors(first)] == [
        f"{DATASETS[slug].name}: {why}" for slug in (FIRST, LAST)
    ]
    assert (first.status, "Traceback" in first.err) == (1, False)


@without_network
def test_without_network_only_the_first_dataset_is_asked_for(attempts, case):
    said = errors(attempts[case].result().first)
    assert len(said) == 2 and len({error.partition("no answer")[2] for error in said}) == 1


@without_network
def test_without_network_what_is_in_the_cache_is_had(attempts, case):
    assert built(attempts[case].result().first) == [f"convert r2med/{CACHED}", f"fetch r2med/{CACHED}"]


@without_network
def test_when_the_network_is_back_the_same_command_completes(attempts, case):
    tried = attempts[case].result()
    assert (tried.left, tried.second.status, tried.files) == ([], 0, published(SLUG)), tried.second.err
