"""Memory and load of the GPUs of this machine, asked of NVIDIA's management library at scrape time; none, no metrics.

Source: NVML's C interface (`nvmlInit_v2`, `nvmlDeviceGetMemoryInfo`, `nvmlDeviceGetUtilizationRates`).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterable
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

log = logging.getLogger("sluicegate.metrics")


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Load(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Gpus(Collector):
    def __init__(self, library: str = "libnvidia-ml.so.1") -> None:
        self._nvml = _opened(library)

    def __bool__(self) -> bool:
        return self._nvml is not None

    def collect(self) -> Iterable[Metric]:
        used = GaugeMetricFamily("sluicegate_gpu_memory_used_bytes", "GPU memory in use.", labels=("gpu",))
        total = GaugeMetricFamily("sluicegate_gpu_memory_total_bytes", "GPU memory there is.", labels=("gpu",))
        load = GaugeMetricFamily("sluicegate_gpu_utilization_ratio", "Share of time a kernel ran.", labels=("gpu",))
        for index, memory, share in self.read():
            used.add_metric((str(index),), memory.used)
            total.add_metric((str(index),), memory.total)
            load.add_metric((str(index),), share / 100)
        return (used, total, load) if self else ()

    def read(self) -> list[tuple[int, Any, int]]:
        """Return (index, memory, percent busy) of every GPU that answers."""
        if self._nvml is None:
            return []
        count = ctypes.c_uint()
        self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return [found for index in range(count.value) if (found := self._one(index)) is not None]

    def _one(self, index: int) -> tuple[int, Any, int] | None:
        handle, memory, load = ctypes.c_void_p(), _Memory(), _Load()
        failed = (
            self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
            or self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
            or self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(load))
        )
        return None if failed else (index, memory, load.gpu)


def _opened(library: str) -> Any:
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return None
    return nvml if nvml.nvmlInit_v2() == 0 else None
