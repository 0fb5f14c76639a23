"""Texts of like length go through a model together, several batches side by side, and come back in their order."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from threading import Lock

from ..errors import R2medError
from .base import Advance

Batch = list[int]
Work = Callable[[Batch], None]

_NO_MEMORY = re.compile(r"out of memory|can't allocate memory", re.IGNORECASE)  # a GPU's, and the processors'


def plan(lengths: Sequence[int], tokens: int, most: int) -> list[Batch]:
    """The positions of texts in batches of at most `most` texts and `tokens` tokens with padding, longest first.

    A text longer than `tokens` has a batch of its own. The plan is a function of the lengths alone: equal ones keep
    their order.
    """
    batches: list[Batch] = []
    for position in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        batch = batches[-1] if batches else []
        full = not batch or len(batch) == most or lengths[batch[0]] * (len(batch) + 1) > tokens
        if full:
            batches.append([position])
        else:
            batch.append(position)
    return batches


def run(batches: list[Batch], workers: Sequence[Work], advance: Advance) -> None:
    """Give every batch to the next worker that is free; each worker does one batch at a time.

    The first exception ends the work and is raised. A batch for which there is too little memory is tried again in two
    halves; R2medError is raised if there is too little for a single text. `advance` is never called by two at once.
    """
    queue: SimpleQueue[Batch] = SimpleQueue()
    for batch in batches:
        queue.put(batch)
    failed: list[BaseException] = []
    one_at_a_time = Lock()

    def drain(work: Work) -> None:
        while not failed:
            try:
                batch = queue.get_nowait()
            except Empty:
                return
            try:
                _halving(work, batch)
                with one_at_a_time:
                    advance(len(batch))
            except BaseException as error:
                failed.append(error)
                raise

    pool = ThreadPoolExecutor(len(workers), thread_name_prefix="encode")
    try:
        running = [pool.submit(drain, work) for work in workers]
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    except BaseException as error:
        failed.append(error)  # so that the others stop after their batch
        raise
    finally:
        pool.shutdown(wait=True)


def out_of_memory(error: Exception) -> bool:
    """Whether an error of PyTorch's, or Python's, says that there is too little memory."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def _halving(work: Work, batch: Batch) -> None:
    try:
        work(batch)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        if len(batch) == 1:
            raise R2medError("too little memory for one text: use a device with more, or --dtype bfloat16") from error
        middle = len(batch) // 2
    else:
        return
    _halving(work, batch[:middle])
    _halving(work, batch[middle:])
