"""`python -m r2med_pyserini` is the console script `r2med`."""

from .cli import main

main()
