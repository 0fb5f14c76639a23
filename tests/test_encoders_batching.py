import random
import threading
import time

import pytest

from r2med_pyserini.encoders.batching import plan, run
from r2med_pyserini.errors import R2medError


def cases(count: int = 200):
    """Random lengths and limits, the odd ones first; the same each time."""
    yield from (([], 10, 4), ([0], 10, 4), ([0, 0, 0], 10, 2), ([99], 10, 4), ([99, 99, 1], 10, 4), ([3] * 9, 9, 1))
    chance = random.Random(7)
    for _ in range(count):
        longest = chance.choice([1, 5, 50, 600])
        lengths = [chance.randint(0, longest) for _ in range(chance.randint(1, 80))]
        yield lengths, chance.choice([1, 16, 100, 1024]), chance.choice([1, 2, 7, 256])


CASES = list(cases())


def test_every_position_is_in_one_batch():
    for lengths, tokens, most in CASES:
        batches = plan(lengths, tokens, most)
        assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
        assert all(batches)


def test_no_batch_is_over_the_limits_unless_it_is_a_single_text():
    for lengths, tokens, most in CASES:
        for batch in plan(lengths, tokens, most):
            assert len(batch) <= most
            assert len(batch) == 1 or len(batch) * max(lengths[position] for position in batch) <= tokens


def test_batches_are_not_smaller_than_they_need_be():
    for lengths, tokens, most in CASES:
        batches = plan(lengths, tokens, most)
        for batch in batches[:-1]:
            assert len(batch) == most or lengths[batch[0]] * (len(batch) + 1) > tokens


def test_long_texts_come_first_and_like_ones_in_their_order():
    for lengths, tokens, most in CASES:
        flat = [position for batch in plan(lengths, tokens, most) for position in batch]
        assert flat == sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))


def test_a_plan_by_hand():
    assert plan([2, 9, 2, 5, 2, 2], tokens=6, most=2) == [[1], [3], [0, 2], [4, 5]]
    assert plan([2, 9, 2, 5, 2, 2], tokens=6, most=9) == [[1], [3], [0, 2, 4], [5]]


# running


class Worker:
    """Notes what it is given; fails where `fail` says so."""

    def __init__(self, fail=lambda batch: None):
        self.done: list[int] = []
        self._fail = fail

    def __call__(self, batch):
        error = self._fail(batch)
        if error:
            raise error
        self.done += batch


BATCHES = [[0, 1, 2, 3], [4, 5], [6], [7, 8, 9]]
CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB."
PROCESSORS = (
    "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
)


def too_long(most: int, error: Exception):
    return lambda batch: error if len(batch) > most else None


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_every_batch_is_done_once_and_told_of(workers):
    worker, told = Worker(), []
    run(BATCHES, [worker] * workers, told.append)
    assert sorted(worker.done) == list(range(10))
    assert sorted(told) == [1, 2, 3, 4]


def test_no_batch_is_no_work():
    run([], [Worker(), Worker()], lambda number: pytest.fail("nothing was done"))


def test_workers_work_side_by_side():
    barrier = threading.Barrier(2, timeout=20)  # each waits for the other
    run([[0], [1]], [lambda batch: barrier.wait()] * 2, lambda number: None)


def test_each_worker_does_one_batch_at_a_time():
    busy = threading.Lock()

    def work(batch):
        assert busy.acquire(blocking=False)
        time.sleep(0.001)
        busy.release()

    run([[number] for number in range(30)], [work, Worker()], lambda number: None)


def test_advance_is_called_by_one_thread_at_a_time():
    busy, told = threading.Lock(), []

    def advance(number):
        assert busy.acquire(blocking=False)
        time.sleep(0.001)
        told.append(number)
        busy.release()

    run([[number] for number in range(40)], [Worker() for _ in range(4)], advance)
    assert sum(told) == 40


@pytest.mark.parametrize("error", [RuntimeError(CUDA), RuntimeError(PROCESSORS), MemoryError()])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_batch_too_large_for_the_memory_is_halved(most, error):
    worker, told = Worker(too_long(most, error)), []
    run(BATCHES, [worker], told.append)
    assert sorted(worker.done) == list(range(10))
    assert told == [4, 2, 1, 3]


def test_memory_too_small_for_one_text_is_a_clear_error():
    with pytest.raises(R2medError, match="too little memory for one text: use a device with more"):
        run(BATCHES, [Worker(too_long(0, RuntimeError(CUDA)))], lambda number: None)


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), RuntimeError("shapes do not match"), R2medError("no"), KeyboardInterrupt(), SystemExit(3)],
)
def test_other_errors_are_raised_and_stop_all_work(error):
    worker = Worker(lambda batch: error if batch == [3] else None)
    batches = [[number] for number in range(1000)]

    def slow(batch):
        time.sleep(0.001)
        worker(batch)

    with pytest.raises(type(error)) as caught:
        run(batches, [slow] * 3, lambda number: None)
    assert caught.value is error
    assert len(worker.done) < 500
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("encode")]


def test_an_error_of_advance_is_one_too():
    def advance(number):
        raise KeyboardInterrupt

    worker = Worker()
    with pytest.raises(KeyboardInterrupt):
        run([[number] for number in range(1000)], [worker] * 2, advance)
    assert len(worker.done) < 500


def test_ctrl_c_stops_all_work():
    """A signal reaches the main thread, which waits for the workers."""
    import signal

    worker, half_way = Worker(), threading.Event()

    def work(batch):
        if len(worker.done) > 20:
            half_way.set()
        time.sleep(0.002)
        worker(batch)

    def interrupt():
        half_way.wait(20)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs tests side by side may ignore it
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run([[number] for number in range(20_000)], [work] * 2, lambda number: None)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(worker.done) < 10_000
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("encode")]
