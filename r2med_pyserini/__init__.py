"""R2MED, the benchmark of reasoning-driven medical retrieval, reproducible with Pyserini."""

__version__ = "0.1.0"
