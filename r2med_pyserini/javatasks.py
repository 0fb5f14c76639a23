"""Work that runs in parallel inside Java, driven from Python one call at a time.

pyjnius is not safe to use from two threads at once: it binds an object to a method by storing it in the method, which
all objects of the class share, and it makes classes known without a lock
(https://github.com/kivy/pyjnius/issues/563, https://github.com/kivy/pyjnius/issues/46). So every use of pyjnius here
holds `JAVA`, and nothing that takes long is called directly: it is handed to a pool of Java threads as a Callable or
Runnable, and its Future is asked, without holding the lock in between, whether it is done. A Callable made of Java
methods alone is put together with method handles.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from .jvm import JAVA, as_java, java_class

T = TypeVar("T")
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.02


class JavaPool:
    """A pool of Java threads; its methods may be called from any Python thread."""

    def __init__(self, threads: int):
        self._threads = threads
        self._executor = None

    def _submit(self, callable_):
        if self._executor is None:
            self._executor = java_class("java.util.concurrent.Executors").newFixedThreadPool(self._threads)
        return self._executor.submit(callable_)

    def run(self, runnable: str, make: Callable[[], object]) -> None:
        """Make a Java object of the class `runnable`, which implements Runnable, and run it to its end."""
        with JAVA:
            future = self._submit(as_java("java.lang.Runnable", as_java(runnable, make())))
        _result(future)

    def map(self, make: Callable[[T], object], items: Iterable[T], read: Callable[[object], object]) -> Iterator:
        """`read` the result of every Callable that `make` makes of an item, in the order of the items.

        Only a few more than there are threads are under way at once, so that results do not pile up.
        """
        waiting: deque = deque()
        try:
            for item in items:
                with JAVA:
                    waiting.append(self._submit(make(item)))
                if len(waiting) > 4 * self._threads:
                    yield self._read(waiting.popleft(), read)
            while waiting:
                yield self._read(waiting.popleft(), read)
        finally:  # after a failure the caller closes what the others still use
            for future in waiting:
                with suppress(Exception):
                    _result(future)

    @staticmethod
    def _read(future, read: Callable[[object], object]) -> object:
        result = _result(future)
        with JAVA:
            return read(result)


def _result(future) -> object:
    """Wait for a Java Future without keeping other Python threads from Java; raises what Java raised."""
    nap = _SHORTEST_NAP
    while True:
        with JAVA:
            if future.isDone():
                return future.get()
        time.sleep(nap)
        nap = min(nap * 1.5, _LONGEST_NAP)


def _class(name: str):
    primitive = {"int": "java.lang.Integer", "boolean": "java.lang.Boolean"}.get(name)
    return java_class(primitive).TYPE if primitive else java_class("java.lang.Class").forName(name)


def _type(result: str, parameters: Iterable[str]):
    return java_class("java.lang.invoke.MethodType").methodType(_class(result), [_class(name) for name in parameters])


def method(owner: str, name: str, result: str, *parameters: str):
    """A handle of an instance method; its first argument is the instance. To be called holding JAVA, as all below."""
    lookup = java_class("java.lang.invoke.MethodHandles").publicLookup()
    return lookup.findVirtual(_class(owner), name, _type(result, parameters))


def static_method(owner: str, name: str, result: str, *parameters: str):
    """A handle of a static method."""
    lookup = java_class("java.lang.invoke.MethodHandles").publicLookup()
    return lookup.findStatic(_class(owner), name, _type(result, parameters))


def bind(handle, position: int, *values):
    """The handle with the arguments from `position` on fixed. Numbers and truth values come boxed: see `boxed`."""
    return java_class("java.lang.invoke.MethodHandles").insertArguments(handle, position, *values)


def compose(outer, inner):
    """outer(inner(x...), y...) as a handle of (x..., y...)."""
    wanted = inner.type().changeReturnType(outer.type().parameterType(0))
    inner = inner.asType(as_java("java.lang.invoke.MethodType", wanted))
    return java_class("java.lang.invoke.MethodHandles").filterArguments(outer, 0, inner)


def boxed(value: int | bool):
    """A Java object for a number or a truth value (pyjnius mistakes bare ones among variable arguments)."""
    return java_class("java.lang.Boolean" if isinstance(value, bool) else "java.lang.Integer")(value)


def as_callable(handle):
    """A handle without arguments as a java.util.concurrent.Callable."""
    name = "java.util.concurrent.Callable"
    proxies = java_class("java.lang.invoke.MethodHandleProxies")
    return as_java(name, proxies.asInterfaceInstance(_class(name), handle))
