"""Dense retrieval as plain Pyserini commands, as far as they do what we do: for usual encoders, in FAISS's indexes.

What Pyserini's command line does is told by its source, version 2.3:

- `encode` parts a document's text into fields at a delimiter, a line break unless another is given, and cuts off the
  blanks at its ends. Its encoder class `auto` (encode/_auto.py) pools by mean or by cls, knows no token types, puts a
  blank between a prefix and the text, and computes in the precision of the files. The class `qwen3`
  (encode/_qwen3.py) pools by the last token, puts nothing after a prefix, reads a missing prefix of documents as the
  word None, and computes in float32.
- `search.faiss` cuts queries at the tokenizer's own length, except for `qwen3`; `encode.query` cuts where it is told
  to, but chooses an encoder's class by words in its name.
- `index.faiss` adds all vectors to a graph at once, which gives another graph than adding them part by part.

Rankings are then the same, and scores to about six digits: the batch that a text is in changes its vector a little.
Pyserini writes six decimals, and leaves hits with equal scores in FAISS's order.
"""

from dataclasses import dataclass
from pathlib import Path

from . import weights
from .errors import R2medError
from .models import API, CLS, DOCUMENT, LAST, MEAN, ONNX, OWN_CODE, QUERY, SIDES, Model
from .paths import Collection
from .specs import COSINE, FAISS_HNSW, IMPACT, LUCENE_FLAT, LUCENE_HNSW, IndexSpec, SearchSpec
from .vectors import SHARD

_NOWHERE = "[no delimiter]"  # which no document holds
# How many tokens Pyserini may encode at once: `auto` keeps in memory what only training needs, `qwen3` does not.
_TOKENS_AUTO, _TOKENS_QWEN3 = 4096, 32_768
# In an encoder's name, or in the path of its folder, these make `encode` or `encode.query` take another class.
_OTHER_CLASSES = ("ance", "arctic", "clip", "dpr", "dse", "mmeb", "openai-api", "splade", "tct", "unicoil")
_MEAN_OF_UNIT_LENGTH = "sentence-transformers"  # there `encode.query` heeds neither pooling nor prefix
_OTHER_VECTORS = "bpr"  # in the path of queries' vectors: `search.faiss` then wants them in another form


@dataclass(frozen=True)
class Dense:
    """A cell of the table whose index holds what `model` made of the documents, and where the commands write.

    Vectors go to the folder `vectors`: documents' as a flat FAISS index, and queries' beside it. A graph goes to the
    folder `index`. `dataset` is the slug, by which prompts are chosen.
    """

    model: Model
    spec: IndexSpec
    how: SearchSpec
    dataset: str
    files: Collection
    vectors: Path
    index: Path
    run: Path

    @property
    def _last(self) -> bool:
        """Whether the encoder class is to be `qwen3`."""
        return self.model.pooling == LAST

    @property
    def _unit_length(self) -> bool:
        return self.spec.metric == COSINE or self.model.normalize

    def _prompt(self, side: str) -> str:
        return self.model.prompt(side, self.dataset)

    def _name(self, side: str) -> str:
        """What Pyserini calls the encoder of a side: a folder, or a repository of the Hub. Raises R2medError."""
        if self.model.package:
            return str(weights.folder(self.model, side))
        return self.model.query_id if side == QUERY and self.model.query_id else self.model.id

    def inexpressible(self) -> str | None:
        """Why Pyserini's command line cannot do the same, in a few words; None if it can."""
        if self.spec.kind == IMPACT:
            return "Pyserini has no encoder that gives these weights (those of its SPLADE are steps of 5/256)"
        if self.spec.kind in (LUCENE_FLAT, LUCENE_HNSW):
            return "Pyserini searches Lucene's dense indexes with Anserini's own encoders of queries only"
        return self._unlike() or (None if self._last else self._misread())

    def _unlike(self) -> str | None:
        """What Pyserini's encoders do not do of what the facts about the model say."""
        model, auto = self.model, not self._last
        reasons = {
            "Pyserini does not send an API such requests": model.loader == API,
            "Pyserini does not run ONNX files": model.loader == ONNX,
            "Pyserini does not run the model's own code": model.loader == OWN_CODE,
            "Pyserini cannot leave the prompt out of pooling": not model.pool_prompt,
            "Pyserini does not know how the model pools": model.pooling not in (MEAN, CLS, LAST),
            "Pyserini gives no token types, which tell the parts of a pair apart": model.pair,
            "Pyserini runs a decoder with its causal mask only": model.bidirectional,
            "Pyserini does not append an end token": model.append_eos,
            "where texts are cut is left to the model's files": None in model.max_length.values(),
            "Pyserini puts a blank between prompt and text": auto and not all(map(self._ends_in_blank, SIDES)),
            f"Pyserini computes in {model.dtype}": auto and model.dtype != "float32",
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def _ends_in_blank(self, side: str) -> bool:
        prompt = self._prompt(side)
        return not prompt or prompt.endswith(" ")

    def _misread(self) -> str | None:
        """Which word in a name or a path leads Pyserini astray; or why there is no path."""
        try:
            names = " ".join(self._name(side) for side in SIDES).lower()
        except R2medError as error:
            return str(error)
        found = [word for word in _OTHER_CLASSES if word in names]
        plain = self.model.pooling == MEAN and self._unit_length and not self._prompt(QUERY)
        found += [] if plain or _MEAN_OF_UNIT_LENGTH not in names else [_MEAN_OF_UNIT_LENGTH]
        found += [_OTHER_VECTORS] if _OTHER_VECTORS in str(self.vectors) else []
        return f"Pyserini takes {found[0]!r} in a path for the name of another encoder" if found else None

    def remarks(self) -> list[str]:
        """What a user of the commands should know."""
        model = self.model
        found = ["the same as r2med's --dtype float32, which is its choice where there is no GPU"]
        repositories = {model.id: model.revision, model.query_id: model.query_revision}
        for name, revision in repositories.items():
            if name and revision:
                found.append(f"Pyserini takes the newest files of {name}; ours are of revision {revision}")
        if self._last:
            found.append("Pyserini cuts off blanks at the ends of documents, and runs code that a repository may bring")
        if self.spec.kind == FAISS_HNSW:
            found.append(f"of more than {SHARD:,} documents Pyserini makes another graph: some of the last hits differ")
        if self.how.remove_query:
            found.append("Pyserini gives one hit less where it leaves out the document whose id is the query's")
        return found

    def commands(self) -> list[list[str]]:
        """The commands that encode, index and search, unless they are `inexpressible`."""
        found = [self._encode()]
        if not self._last:
            found.append(self._encode_queries())
        if self.spec.kind == FAISS_HNSW:
            found.append(self._grow())
        return [*found, self._search()]

    def _encode(self) -> list[str]:
        name, tokens = ("qwen3", _TOKENS_QWEN3) if self._last else ("auto", _TOKENS_AUTO)
        batch = max(tokens // self.model.max_length[DOCUMENT], 1)
        words = ["encode", "input", "--corpus", str(self.files.corpus), "--fields", "text", "--delimiter", _NOWHERE]
        words += ["output", "--embeddings", str(self.vectors), "--to-faiss"]
        words += ["encoder", "--encoder", self._name(DOCUMENT), "--encoder-class", name, *self._settings(DOCUMENT)]
        words += ["--dimension", str(self.model.dimensions), "--batch-size", str(batch)]
        prompt = self._prompt(DOCUMENT)
        if self._last:
            return [*words, "--prefix", prompt]
        return [*words, "--prefix", prompt[:-1]] if prompt else words

    def _encode_queries(self) -> list[str]:
        words = ["encode.query", "--topics", str(self.files.topics), "--output", str(self.vectors / "embedding.pkl")]
        words += ["--encoder", self._name(QUERY), *self._settings(QUERY)]
        prompt = self._prompt(QUERY)
        return [*words, "--prefx", prompt[:-1]] if prompt else words  # spelt so by Pyserini

    def _grow(self) -> list[str]:
        """The command that makes a graph of the vectors."""
        words = ["index.faiss", "--input", str(self.vectors), "--output", str(self.index)]
        words += ["--dim", str(self.model.dimensions), "--hnsw", "--M", str(self.spec.m)]
        return [*words, "--efC", str(self.spec.ef_construction), "--threads", "1"]

    def _search(self) -> list[str]:
        searched = self.index if self.spec.kind == FAISS_HNSW else self.vectors
        words = ["search.faiss", "--index", str(searched), "--topics", str(self.files.topics)]
        words += ["--output", str(self.run), "--hits", str(self.how.hits)]
        words += ["--ef-search", str(self.how.ef_search)] if self.how.ef_search else []
        words += ["--remove-query"] if self.how.remove_query else []
        if not self._last:
            return [*words, "--encoded-queries", str(self.vectors)]
        words += ["--encoder", self._name(QUERY), "--encoder-class", "qwen3", "--device", "cuda:0"]
        return [*words, *self._settings(QUERY), "--query-prefix", self._prompt(QUERY)]

    def _settings(self, side: str) -> list[str]:
        """What encoders of both sides are told in the same words."""
        words = [] if self._last else ["--pooling", self.model.pooling]
        words += ["--l2-norm"] if self._unit_length else []
        return [*words, "--max-length", str(self.model.max_length[side])]
