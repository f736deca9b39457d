"""Declare a compiled function: `kernel` in place of numba's `njit`.

numba caches code by the path and the time of one file, and looks at no other. Here code is cached by content
(`digest_of`), with the argument types, the CPU and the versions of Python, numba and LLVM. So it survives a move or an
upgrade of other files, and stale code is never loaded.

A kernel is compiled at its first call. Where `COMPILE_MODE.builder` is set, a kernel with a Python form is not compiled
in this process: it runs that form, with the same result, until the builder delivers its code."""

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

from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE, Types
from sluicegate.plugins.compiled.digest import digest_of
from sluicegate.plugins.compiled.folder import CompiledFolder, compiled_folder

log = logging.getLogger("sluicegate.compiled")


class _ReadyTime(threading.local):
    """CPU time that this thread has spent on compiling and loading kernels, and the nesting depth of such work now."""

    depth = 0
    total_s = 0.0


_ready_time = _ReadyTime()


def made_ready_s() -> float:
    """Return the CPU seconds that the calling thread has spent on compiling and loading kernels. The first caller of a
    kernel pays them; subtract them to measure that caller's own work."""
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
    """A compiled function."""

    def __init__(
        self, py_func: Callable[..., Any], locals: Any = None, targetoptions: Any = None, *rest: Any, **more: Any
    ) -> None:
        super().__init__(py_func, locals, targetoptions, *rest, **more)
        self.signatures_declared: tuple[str, ...] = ()
        self.python_form: Callable[..., Any] | None = None
        self.origin: tuple[str, str, tuple[Any, ...] | None] = (py_func.__module__, py_func.__qualname__, None)
        """Module, name, and, for a kernel made by a factory function, the arguments of that function."""
        self._asked: set[Types] = set()
        """Argument types requested from a builder and not delivered yet."""
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
        """Load cached code for these types (None: for all declared types). Return False where some of it is not
        cached."""
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
        """Load code that another process compiled, `payload`; return False where it cannot be used."""
        if (key := self._cache.key(types)) is None:
            return False
        self._cache.handed[key] = payload
        return self.load(types)

    def key(self, types: Types) -> str | None:
        """Return the cache key of the code for these argument types; None where the code cannot be cached."""
        return self._cache.key(types)

    def kept(self, types: Types) -> tuple[str | None, bytes | None]:
        """Return the cache key for these types and the pickled code; None for each that does not exist."""
        return self.key(types), self._cache.payload(types)

    def build(self) -> None:
        """Load or compile the code for all declared types, in this process."""
        for types in self.declared:
            self.compile(types)

    @property
    def is_built(self) -> bool:
        return self._address != 0

    @property
    def address(self) -> int:
        """Return the address of the compiled C function, for the first declared signature, whose code must be
        loaded."""
        if self._address == 0:
            found = self.overloads[self.declared[0]]
            self._address = int(found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name))
        return self._address

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Return the callable for these arguments. numba calls this where it has no code for their types."""
        builder = COMPILE_MODE.builder
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
            builder.request(self, types)
        return self._run_as_python

    def _run_as_python(self, *args: Any) -> Any:
        """Run the Python form. Integer overflow wraps silently, as in compiled code."""
        assert self.python_form is not None
        with np.errstate(over="ignore"):
            return self.python_form(*args)


def address_of(kernel: Kernel) -> int:
    """Load or compile a kernel and return the address of its C function; see `Kernel.address`."""
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
    """Declare a kernel that releases the GIL.

    `signatures`: argument types in numba's notation. `python`: True where the function itself may run as Python with
    the same result; or a function to run in its place. `name`: the kernel's name in its module; with `made_by`, the
    name of the factory function, and `made_by` are that function's arguments.

    The symbol of compiled code is made of the function's name and a counter of the process. Two functions of one
    factory that were compiled in two processes would have the same symbol, and where both are loaded the linker would
    keep one of them for both: so `made_by` is part of the name.
    """

    def declare(function: Callable[..., Any]) -> Any:
        if made_by is not None:  # of it numba makes the symbol; see the docstring
            function.__qualname__ += "".join(f"_{value}" for value in made_by)
        made = Kernel(function, targetoptions={"nogil": True, "nopython": True, "boundscheck": None, **options})
        made.signatures_declared = signatures
        made.python_form = (function if python else None) if isinstance(python, bool) else python
        made.origin = (function.__module__, name or function.__qualname__, made_by)
        return made

    return declare


class KernelCache(_Cache):  # type: ignore[misc]  # numba has no types
    """numba's cache interface over `CompiledFolder`. `handed`: code by key that is not on the disk, or came from
    another process."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._digest: str | None = None
        self.handed: dict[str, bytes] = {}

    @property
    def cache_path(self) -> str:
        return str(folder().path)

    def key(self, types: Any) -> str | None:
        """Return the cache key of the code for these types; None where the function's content cannot be digested."""
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
        """Return the pickled code cached for these types; None where there is none."""
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
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing: changed source has another key."""


def _arguments(types: Any) -> Any:
    """Return the argument types of a signature; a tuple of types is returned as it is."""
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
