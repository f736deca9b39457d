"""Declare a function that is compiled: `kernel` in place of numba's `njit`.

numba keeps what it compiled by the path and the time of one file, and looks at no other. Here it is kept by content
(`digest_of`), with the types of the arguments, the CPU and the versions of Python, numba and LLVM; so it outlives new
places and upgrades of other files, and is never taken for what it is not.

A kernel is compiled where it is first called, unless `BESIDE.builder` is set: then nothing is compiled in this process.
A kernel that has a Python form runs that until the builder has made its code; the answer is the same.
"""

from __future__ import annotations

import logging
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from sluicegate.plugins.compiled.beside import BESIDE, Types
from sluicegate.plugins.compiled.digest import digest_of
from sluicegate.plugins.compiled.folder import CompiledFolder, compiled_folder

log = logging.getLogger("sluicegate.compiled")


class _ReadyTime(threading.local):
    """CPU time that this thread has spent on making compiled code ready, and how deep it is in that now."""

    depth = 0
    total_s = 0.0


_ready_time = _ReadyTime()


def made_ready_s() -> float:
    """Return the seconds of CPU time that the calling thread has spent on compiling kernels and on loading their code:
    it falls on whoever calls one first, and is not that caller's work."""
    return _ready_time.total_s


@contextmanager
def _making() -> Iterator[None]:
    began, _ready_time.depth = time.thread_time(), _ready_time.depth + 1
    try:
        yield
    finally:
        _ready_time.depth -= 1
        if _ready_time.depth == 0:  # kernels that it calls are made ready within
            _ready_time.total_s += time.thread_time() - began


class Kernel(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A compiled function. `types`: those of its arguments, where they were declared."""

    def __init__(
        self, py_func: Callable[..., Any], locals: Any = None, targetoptions: Any = None, *rest: Any, **more: Any
    ) -> None:
        super().__init__(py_func, locals, targetoptions, *rest, **more)
        self.signatures_declared: tuple[str, ...] = ()
        self.python_form: Callable[..., Any] | None = None
        self.origin: tuple[str, str, tuple[Any, ...] | None] = (py_func.__module__, py_func.__qualname__, None)
        """Module, name, and the arguments of the function that makes it, if it is made by one."""
        self._asked: set[Types] = set()
        """For which a builder was asked, and nothing is there yet."""
        self._address = 0
        self._cache = KernelCache(self)

    @cached_property
    def declared(self) -> tuple[Types, ...]:
        return tuple(tuple(sigutils.normalize_signature(text)[0]) for text in self.signatures_declared)

    def compile(self, sig: Any) -> Any:
        """Compile, or load, the code for arguments of these types."""
        with _making():
            return super().compile(sig)

    def load(self, types: Types | None = None) -> bool:
        """Load what is kept for these types, or for all that were declared; False where something is not there."""
        if types is None:
            return all(self.load(one) for one in self.declared)
        with global_compiler_lock, _making():
            if types in self.overloads:
                return True
            self._compilation_chain_init_hook()
            found = self._cache.load_overload(types, self.targetctx)
            if found is None:
                return False
            self.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
            self.add_overload(found)
            return True

    def take(self, types: Types, payload: bytes) -> bool:
        """Use code that another process compiled; False where it cannot be used."""
        if (key := self._cache.key(types)) is None:
            return False
        self._cache.handed[key] = payload
        return self.load(types)

    def key(self, types: Types) -> str | None:
        """Return the name that its code for these types is kept under; None where it cannot be kept."""
        return self._cache.key(types)

    def kept(self, types: Types) -> tuple[str | None, bytes | None]:
        """Return that name, and its code as it travels."""
        return self.key(types), self._cache.payload(types)

    def build(self) -> None:
        """Load or compile it, here, for all types that were declared."""
        for types in self.declared:
            self.compile(types)

    @property
    def is_built(self) -> bool:
        return self._address != 0

    @property
    def address(self) -> int:
        """Return where its code begins, for types that were declared and are there: a C function of the same
        arguments."""
        if self._address == 0:
            found = self.overloads[self.declared[0]]
            self._address = int(found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name))
        return self._address

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Return what is to be called now; numba asks where it knows no code for these arguments."""
        builder = BESIDE.builder
        if builder is None or self.python_form is None:
            return super()._compile_for_args(*args, **kws)
        try:
            types = tuple(self.typeof_pyval(value) for value in args)
        finally:
            self._types_active_call.clear()
        if types not in self._asked:
            if self.load(types):
                return self.overloads[types].entry_point
            self._asked.add(types)
            builder.want(self, types)
        return self._run_as_python

    def _run_as_python(self, *args: Any) -> Any:
        """Compute by Python what compiled code would; integers wrap around there without a word."""
        assert self.python_form is not None
        with np.errstate(over="ignore"):
            return self.python_form(*args)


def address_of(kernel: Kernel) -> int:
    """Return where the code of a kernel begins, loaded or compiled now; see `Kernel.address`."""
    if not kernel.is_built:
        kernel.build()
    return kernel.address


def kernel(
    *signatures: str,
    python: bool | Callable[..., Any] = False,
    name: str | None = None,
    made_by: tuple[Any, ...] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a kernel that keeps no lock of the interpreter.

    `signatures`: the arguments it is called with, as numba writes them; `python`: it may run as Python, with the same
    result, or what may run in its place; `name`: what its module calls it, or, with `made_by`, the function that makes
    it of those arguments."""

    def declare(function: Callable[..., Any]) -> Any:
        made = Kernel(function, targetoptions={"nogil": True, "nopython": True, "boundscheck": None, **options})
        made.signatures_declared = signatures
        made.python_form = (function if python else None) if isinstance(python, bool) else python
        made.origin = (function.__module__, name or function.__qualname__, made_by)
        return made

    return declare


class KernelCache(_Cache):  # type: ignore[misc]  # numba has no types
    """What numba asks for compiled code, and gives it to. `handed`: code by key that came from another process."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._digest: str | None = None
        self.handed: dict[str, bytes] = {}

    @property
    def cache_path(self) -> str:
        return str(folder().path)

    def key(self, types: Any) -> str | None:
        """Return the name that code for these types is kept under; None where its content cannot be told."""
        if self._digest is None:
            try:
                self._digest = digest_of(self._kernel)
            except TypeError as error:
                log.warning("%s is compiled at each start: %s", self._kernel.__name__, error)
                self._digest = ""
        if not self._digest:
            return None
        cpu = self._kernel.targetctx.codegen().magic_tuple()
        text = repr((self._digest, str(tuple(_arguments(types))), cpu, _VERSIONS))
        return f"{self._kernel.__name__.strip('_')}-{blake2b(text.encode(), digest_size=16).hexdigest()}"

    def payload(self, types: Any) -> bytes | None:
        """Return what is kept for these types, as it travels."""
        key = self.key(types)
        return None if key is None else self.handed.get(key) or folder().read_bytes(key)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        key, payload = self.key(sig), self.payload(sig)
        if key is None or payload is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(payload))
        except Exception as error:
            folder().discard(key, f"cannot be used ({type(error).__name__}: {error})")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        key = self.key(sig)
        if key is None or data.library.has_dynamic_globals or any(not lifted.can_cache for lifted in data.lifted):
            return
        payload = dumps(data._reduce())
        if not folder().write_bytes(key, payload):
            self.handed[key] = payload

    def enable(self) -> None:
        """Do nothing: it is."""

    def disable(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing: what is of other source has another name."""


def _arguments(types: Any) -> Any:
    """Return the types of the arguments of a signature, or of a tuple of just these."""
    return getattr(types, "args", types)


@cache
def folder() -> CompiledFolder:
    return CompiledFolder(compiled_folder())


_VERSIONS = (
    sys.implementation.cache_tag,
    getattr(sys, "abiflags", ""),
    numba.__version__,
    llvmlite.__version__,
    np.__version__,
)
