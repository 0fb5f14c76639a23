"""Tiny random models with the architecture, the tokenizer and the files of published ones, in a Hub cache of their own.

`make("contriever-msmarco")` puts a BertModel of two layers and 32 dimensions where the Hub's client would have put
facebook/contriever-msmarco, so that the entry of models.yaml and all code that loads it are used as they are.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tokenizers

from r2med_pyserini import models
from r2med_pyserini.hubclient import Repository
from r2med_pyserini.models import DOCUMENT, QUERY, Model

from . import tiny_tokenizers

DIMENSIONS = 32


@contextmanager
def hub_cache(folder: Path) -> Iterator[Path]:
    """Have the Hub's cache in `folder`, and no Hub."""
    import transformers
    from huggingface_hub import constants

    transformers.utils.logging.disable_progress_bar()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", str(folder))
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        patch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(folder / "modules"))
        yield folder


def snapshot(model: Model, side: str = DOCUMENT) -> Path:
    """Where the cache has a model's files."""
    of_queries = side == QUERY and model.query_id
    name = model.query_id if of_queries else model.id
    revision = model.query_revision if of_queries else model.revision
    return Repository(model.name, "model", name, revision, "").snapshot


def make(name: str) -> Model:
    """The model of that name, a tiny one of its kind being in the cache."""
    model = models.load(name)
    for number, side in enumerate((DOCUMENT, QUERY)):
        folder = snapshot(model, side)
        if not folder.exists():
            folder.mkdir(parents=True)
            MAKERS[name](folder, number)
    return model


def save(folder: Path, tokenizer: tokenizers.Tokenizer, network, shard: str = "1GB", **tokenizer_config) -> None:
    """A folder as transformers writes it; `network` is a function of the vocabulary's size."""
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder, "tokenizer_config.json", tokenizer_config)
    made = network(tokenizer.get_vocab_size())
    made.apply(vary)
    made.save_pretrained(folder, max_shard_size=shard)


def vary(module) -> None:
    """No weight stays at zero or one, so that one that is lost, or not used, is seen."""
    import torch

    for name, weight in module.named_parameters(recurse=False):
        if weight.dim() == 1:
            torch.nn.init.normal_(weight, mean=0.0 if name == "bias" else 1.0, std=0.1)


def write(folder: Path, name: str, content: object) -> None:
    """A JSON file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def sentence_transformer(folder: Path, pooling: str, max_seq_length: int, *more: str) -> None:
    """The files by which sentence-transformers, since its early versions, tells what comes after the network."""
    parts = [
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        *((f"{number + 2}_{name}", name) for number, name in enumerate(more)),
    ]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(parts)
    ]
    write(folder, "modules.json", modules)
    write(folder, "sentence_bert_config.json", {"max_seq_length": max_seq_length, "do_lower_case": False})
    keys = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    modes = {f"pooling_mode_{key}": key == pooling for key in keys}
    write(folder, "1_Pooling/config.json", {"word_embedding_dimension": DIMENSIONS, **modes})


def seeded(seed: int):
    """Random numbers that are the same each time."""
    import torch

    torch.manual_seed(seed)
    import transformers

    return transformers


_SIZES = {"hidden_size": DIMENSIONS, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_BERT = {"tokenizer_class": "BertTokenizer", "model_max_length": 512, "pad_token": "[PAD]", "do_lower_case": True}


def bert(folder: Path, seed: int, architecture: str = "BertModel", **config) -> None:
    def network(size: int):
        made = seeded(seed)
        return getattr(made, architecture)(made.BertConfig(vocab_size=size, initializer_range=0.2, **_SIZES, **config))

    save(folder, tiny_tokenizers.wordpiece(), network, **_BERT)


def bge(folder: Path, seed: int) -> None:
    bert(folder, seed)
    sentence_transformer(folder, "cls_token", 512, "Normalize")


def mpnet(folder: Path, seed: int) -> None:
    def network(size: int):
        made = seeded(seed)
        config = made.MPNetConfig(vocab_size=size, max_position_embeddings=514, initializer_range=0.2, **_SIZES)
        return made.MPNetModel(config)

    tokens = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>",
              "mask_token": "<mask>", "unk_token": "[UNK]"}  # fmt: skip
    save(
        folder,
        tiny_tokenizers.wordpiece("<s>", "</s>", "<pad>", "<mask>"),
        network,
        tokenizer_class="MPNetTokenizer",
        **tokens,
    )
    sentence_transformer(folder, "mean_tokens", 384, "Normalize")


def xlm_roberta(folder: Path, seed: int) -> None:
    def network(size: int):
        made = seeded(seed)
        config = made.XLMRobertaConfig(vocab_size=size, max_position_embeddings=8194, type_vocab_size=1,
                                       pad_token_id=1, initializer_range=0.2, **_SIZES)  # fmt: skip
        return made.XLMRobertaModel(config)

    save(folder, tiny_tokenizers.xlm_roberta(), network, tokenizer_class="XLMRobertaTokenizer", model_max_length=8192)
    sentence_transformer(folder, "cls_token", 8192, "Normalize")


def t5(folder: Path, seed: int) -> None:
    """Instructor's folder, with pickled weights: the encoder of T5, the mean, a layer without bias, normalised."""
    import safetensors.torch
    import torch

    def network(size: int):
        made = seeded(seed)
        config = made.T5Config(vocab_size=size, d_model=DIMENSIONS, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
        return made.T5EncoderModel(config)

    save(folder, tiny_tokenizers.t5(), network, tokenizer_class="T5Tokenizer", model_max_length=512, extra_ids=100)
    weights = folder / "model.safetensors"
    torch.save(safetensors.torch.load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    sentence_transformer(folder, "mean_tokens", 512, "Dense", "Normalize")
    dense = {"in_features": DIMENSIONS, "out_features": 24, "bias": False}
    write(folder, "2_Dense/config.json", dense | {"activation_function": "torch.nn.modules.linear.Identity"})
    torch.save({"linear.weight": torch.randn(24, DIMENSIONS)}, folder / "2_Dense" / "pytorch_model.bin")


def gpt_neox(folder: Path, seed: int) -> None:
    def network(size: int):
        made = seeded(seed)
        return made.GPTNeoXModel(made.GPTNeoXConfig(vocab_size=size, initializer_range=0.2, **_SIZES))

    tokens = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    save(
        folder,
        tiny_tokenizers.gpt_neox(),
        network,
        tokenizer_class="GPTNeoXTokenizer",
        add_prefix_space=False,
        **tokens,
    )


def gemma(folder: Path, seed: int) -> None:
    def network(size: int):
        made = seeded(seed)
        config = made.GemmaConfig(vocab_size=size, head_dim=8, num_key_value_heads=1, initializer_range=0.2, **_SIZES)
        return made.GemmaModel(config)

    tokens = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    save(folder, tiny_tokenizers.gemma(), network, tokenizer_class="GemmaTokenizer", **tokens)


def mistral(folder: Path, seed: int, architecture: str = "MistralModel", **tokenizer_config) -> None:
    def network(size: int):
        made = seeded(seed)
        config = made.MistralConfig(vocab_size=size, num_key_value_heads=2, initializer_range=0.2, **_SIZES)
        return getattr(made, architecture)(config)

    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    save(
        folder,
        tiny_tokenizers.llama(),
        network,
        shard="20KB",
        tokenizer_class="LlamaTokenizer",
        **tokens,
        **tokenizer_config,
    )


def e5_mistral(folder: Path, seed: int) -> None:
    mistral(folder, seed, add_eos_token=True, padding_side="left", pad_token="</s>")


def gritlm(folder: Path, seed: int) -> None:
    """With remote code that must not run, and a head and a chat template that are of no use here."""
    mistral(folder, seed, "MistralForCausalLM", padding_side="left", chat_template="{{ messages }}")
    ban_remote_code(folder, "modeling_gritlm7b.MistralForCausalLM")


def ban_remote_code(folder: Path, name: str) -> None:
    """Name code in the configuration that fails when it is run."""
    config = json.loads((folder / "config.json").read_text())
    write(folder, "config.json", config | {"auto_map": {"AutoModel": name, "AutoModelForCausalLM": name}})
    (folder / name.split(".")[0]).with_suffix(".py").write_text("raise SystemExit('remote code was run')")


def qwen2(folder: Path, seed: int) -> None:
    """gte-Qwen2's: remote code is named for the network and for a tokenizer that appends an end token."""

    def network(size: int):
        made = seeded(seed)
        config = made.Qwen2Config(vocab_size=size, num_key_value_heads=2, initializer_range=0.2, **_SIZES)
        return made.Qwen2Model(config)

    tokenizer = tiny_tokenizers.qwen()
    save(folder, tokenizer, network, tokenizer_class="Qwen2Tokenizer", eos_token="<|endoftext|>", add_eos_token=True,
         pad_token="<|endoftext|>", model_max_length=32768, bos_token=None,
         auto_map={"AutoTokenizer": ["tokenization_qwen.Qwen2Tokenizer", "tokenization_qwen.Qwen2TokenizerFast"]},
    )  # fmt: skip
    ban_remote_code(folder, "modeling_qwen.Qwen2Model")
    sentence_transformer(folder, "lasttoken", 8192, "Normalize")


def qwen3(folder: Path, seed: int) -> None:
    """Qwen3-Embedding's: the tokenizer ends texts in <|endoftext|>, which is not its eos_token; prompts of its own."""

    def network(size: int):
        made = seeded(seed)
        config = made.Qwen3Config(vocab_size=size, num_key_value_heads=2, head_dim=8, initializer_range=0.2, **_SIZES)
        return made.Qwen3Model(config)

    tokenizer = tiny_tokenizers.qwen(end="<|endoftext|>")
    save(folder, tokenizer, network, tokenizer_class="Qwen2Tokenizer", eos_token="<|im_end|>", padding_side="left",
         pad_token="<|endoftext|>", model_max_length=131072, bos_token=None,
         chat_template="{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}",
    )  # fmt: skip
    sentence_transformer(folder, "lasttoken", 32768, "Normalize")
    write(folder, "config_sentence_transformers.json", {
        "prompts": {"query": "Instruct: something else\nQuery:", "document": ""}, "default_prompt_name": "query",
        "similarity_fn_name": "cosine",
    })  # fmt: skip


_SPARSE = "sentence_transformers.sparse_encoder.models"
_SPARSE_ENCODER = {"model_type": "SparseEncoder", "similarity_fn_name": "dot", "prompts": {"query": "", "document": ""}}


def splade(folder: Path, seed: int) -> None:
    """A masked language model and the pooling, named as their first users did."""
    bert(folder, seed, "BertForMaskedLM")
    types = (
        ("", f"{_SPARSE}.MLMTransformer.MLMTransformer"),
        ("1_SpladePooling", f"{_SPARSE}.SpladePooling.SpladePooling"),
    )
    write(folder, "modules.json", [
        {"idx": number, "name": str(number), "path": path, "type": name} for number, (path, name) in enumerate(types)
    ])  # fmt: skip
    write(folder, "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    write(folder, "config_sentence_transformers.json", _SPARSE_ENCODER)
    pooling = {"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": None}
    write(folder, "1_SpladePooling/config.json", pooling)


def plain_splade(folder: Path, seed: int) -> None:
    """A masked language model alone, without the weights that are those of its embeddings."""
    bert(folder, seed, "BertForMaskedLM")


def inference_free(folder: Path, seed: int) -> None:
    """OpenSearch's: queries get the weights of a table, documents go through DistilBERT."""
    import safetensors.torch
    import torch

    def network(size: int):
        made = seeded(seed)
        config = made.DistilBertConfig(vocab_size=size, dim=DIMENSIONS, hidden_dim=48, n_layers=2, n_heads=4,
                                       initializer_range=0.2)  # fmt: skip
        return made.DistilBertForMaskedLM(config)

    config = _BERT | {"tokenizer_class": "DistilBertTokenizer"}
    save(folder, tiny_tokenizers.wordpiece(), network, **config)
    static = "query_0_SparseStaticEmbedding"
    (folder / static).mkdir()
    tokenizer = tiny_tokenizers.wordpiece()
    tokenizer.save(str(folder / static / "tokenizer.json"))
    write(folder, f"{static}/tokenizer_config.json", config)
    write(folder, f"{static}/config.json", {"frozen": False})
    table = {"weight": torch.rand(tokenizer.get_vocab_size()) * 9 + 1}
    safetensors.torch.save_file(table, folder / static / "model.safetensors")
    pooling = {"pooling_strategy": "max", "activation_function": "log1p_relu", "word_embedding_dimension": None}
    write(folder, "document_1_SpladePooling/config.json", pooling)
    write(folder, "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    write(folder, "config_sentence_transformers.json", _SPARSE_ENCODER)
    router = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}]
    write(folder, "modules.json", router)
    write(folder, "router_config.json", {
        "types": {
            static: f"{_SPARSE}.SparseStaticEmbedding.SparseStaticEmbedding",
            "": f"{_SPARSE}.MLMTransformer.MLMTransformer",
            "document_1_SpladePooling": f"{_SPARSE}.SpladePooling.SpladePooling",
        },
        "structure": {"query": [static], "document": ["", "document_1_SpladePooling"]},
        "parameters": {"default_route": "document", "allow_empty_key": True},
    })  # fmt: skip


OWN_CODE = """
import torch
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedModel


class TinyConfig(PretrainedConfig):
    model_type = "tiny-nv-embed"


class TinyModel(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.words = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.turn = torch.nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()

    def encode(self, prompts, instruction="", max_length=4096):
        \"\"\"The mean over what comes after the instruction; an end token is appended before the text is cut.\"\"\"
        if "crash" in prompts:
            raise KeyError("no crash here")
        tokenizer = AutoTokenizer.from_pretrained(self.config.name_or_path, trust_remote_code=True)
        before = len(tokenizer(instruction)["input_ids"])
        vectors = []
        for prompt in prompts:
            text = instruction + prompt + tokenizer.eos_token
            ids = tokenizer(text, truncation=True, max_length=max_length)["input_ids"][before:]
            vectors.append(self.turn(self.words(torch.tensor(ids))).mean(dim=0))
        return torch.stack(vectors)
"""


def own_code(folder: Path, seed: int) -> None:
    """NV-Embed's way: an architecture that transformers does not have, and code that encodes texts by itself."""
    import safetensors.torch
    import torch

    tokenizer = tiny_tokenizers.gpt_neox()
    tokenizer.save(str(folder / "tokenizer.json"))
    tokens = {"eos_token": "<|endoftext|>", "pad_token": "<|padding|>"}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **tokens})
    (folder / "modeling_tiny.py").write_text(OWN_CODE, encoding="utf-8")
    size = tokenizer.get_vocab_size()
    classes = {"AutoConfig": "modeling_tiny.TinyConfig", "AutoModel": "modeling_tiny.TinyModel"}
    config = {"model_type": "tiny-nv-embed", "auto_map": classes, "architectures": ["TinyModel"]}
    write(folder, "config.json", config | {"vocab_size": size, "hidden_size": DIMENSIONS})
    torch.manual_seed(seed)
    weights = {"words.weight": torch.randn(size, DIMENSIONS), "turn.weight": torch.randn(DIMENSIONS, DIMENSIONS)}
    weights["turn.bias"] = torch.randn(DIMENSIONS)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})


MAKERS = {
    "contriever-msmarco": bert, "medcpt": bert, "medcpt-fixed": bert, "bge-large-en-v1.5": bge,
    "bge-small-en-v1.5": bge, "all-mpnet-base-v2": mpnet, "bge-m3": xlm_roberta, "instructor-large": t5,
    "instructor-xl": t5, "bmretriever-410m": gpt_neox, "bmretriever-2b": gemma, "bmretriever-7b": mistral,
    "e5-mistral-7b-instruct": e5_mistral, "sfr-embedding-mistral": e5_mistral, "gritlm-7b": gritlm,
    "gte-qwen2-7b-instruct": qwen2, "inf-retriever-v1": qwen2, "qwen3-embedding-0.6b": qwen3,
    "splade-v3": splade, "splade-pp-ensembledistil": plain_splade, "opensearch-doc-v3-distill": inference_free,
    "nv-embed-v2": own_code, "qwen3-embedding-4b": qwen3, "qwen3-embedding-8b": qwen3, "diver-retriever-4b": qwen3,
}  # fmt: skip
