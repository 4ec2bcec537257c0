"""What orders two accesses, and what doesn't: one small kernel each, all in one source."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator import emulator
from tests.emulator.library import needs_compiler

pytestmark = needs_compiler

SOURCE = """
extern "C" __global__ void exchange(float* X, float* Y) {
  __shared__ float s[64];
  s[threadIdx.x] = X[threadIdx.x];
  __syncthreads();
  Y[threadIdx.x] = s[threadIdx.x ^ 32];
}
extern "C" __global__ void exchange_unordered(float* X, float* Y) {
  __shared__ float s[64];
  s[threadIdx.x] = X[threadIdx.x];
  Y[threadIdx.x] = s[threadIdx.x ^ 32];
}
extern "C" __global__ void exchange_in_warp(float* X, float* Y) {
  __shared__ float s[64];
  s[threadIdx.x] = X[threadIdx.x];
  __syncwarp();
  Y[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void exchange_after_shuffle(float* X, float* Y) {
  __shared__ float s[64];
  s[threadIdx.x] = __shfl_xor_sync(~0u, X[threadIdx.x], 1);
  Y[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void overwrite_while_read(float* X, float* Y) {
  __shared__ float s[64];
  s[threadIdx.x] = X[threadIdx.x];
  __syncthreads();
  Y[threadIdx.x] = s[threadIdx.x ^ 32];
  s[threadIdx.x] = 0.f;
}
extern "C" __global__ void same_value_twice(float* X, float* Y) {
  __shared__ float s[32];
  s[threadIdx.x % 32] = X[threadIdx.x % 32];
  __syncthreads();
  Y[threadIdx.x] = s[threadIdx.x % 32];
}
extern "C" __global__ void two_values(float* X, float* Y) {
  __shared__ float s[32];
  s[threadIdx.x % 32] = X[threadIdx.x];
  __syncthreads();
  Y[threadIdx.x] = s[threadIdx.x % 32];
}
extern "C" __global__ void half_a_barrier(float* X, float* Y) {
  if (threadIdx.x < 32) __syncthreads();
  Y[threadIdx.x] = X[threadIdx.x];
}
extern "C" __global__ void named_barrier(float* X, float* Y) {
  __shared__ float s[64];
  s[threadIdx.x] = X[threadIdx.x];
  if (threadIdx.x < 32) tl::__named_barrier_arrive(1, 64);
  else { tl::__sync_thread_partial(1, 64); Y[threadIdx.x] = s[threadIdx.x - 32]; }
}
extern "C" __global__ void arrival_orders_one_way(float* X, float* Y) {
  __shared__ float s[64];
  s[threadIdx.x] = X[threadIdx.x];
  if (threadIdx.x < 32) { tl::__named_barrier_arrive(1, 64); Y[threadIdx.x] = s[threadIdx.x + 32]; }
  else tl::__sync_thread_partial(1, 64);
}
extern "C" __global__ void before_the_array(float* X, float* Y) { Y[threadIdx.x] = X[(int)threadIdx.x - 1]; }
extern "C" __global__ void misaligned(float* X, float* Y) {
  if (threadIdx.x == 0) *(float4*)Y = *(float4*)(X + 1);
}
extern "C" __global__ void blocks_share(float* X, float* Y) {
  if (blockIdx.x == 1) Y[threadIdx.x] = X[threadIdx.x];
  else if (Y[threadIdx.x] > 0.f) Y[threadIdx.x] = 0.f;
}
extern "C" __global__ void blocks_add(float* X, float* Y) { AtomicAdd(&Y[threadIdx.x], X[threadIdx.x]); }
"""

RIGHT = {"exchange": 1, "exchange_in_warp": 1, "same_value_twice": 1, "named_barrier": 1, "blocks_add": 2}
RACE = "a (read|write) of static shared byte .* races with an earlier (read|write) by thread"
WRONG = {
    "exchange_unordered": RACE,
    "exchange_after_shuffle": RACE,
    "overwrite_while_read": RACE,
    "two_values": RACE,
    "arrival_orders_one_way": RACE,
    "half_a_barrier": r"deadlock, 32 threads alive:\n  threads 0-31 wait for __syncthreads \(32 of 64 arrived\)",
    "before_the_array": "a read of bytes -4 to 0 of X, which has 256",
    "misaligned": "a read of 16 bytes at .* misaligned",
    "blocks_share": "of byte .* of Y races with a (read|write) by block number [01] in the same launch",
}


def run(kernel: str, blocks: int, schedule: emulator.Schedule) -> np.ndarray:
    """One launch of 64 threads a block."""
    arrays = {"X": np.arange(1, 65, dtype=np.float32), "Y": np.zeros(64, np.float32)}
    arguments = tuple(emulator.Argument(name, "float32", (64,), "input") for name in arrays)
    emulator.run(SOURCE, [emulator.Launch(kernel, (blocks, 1, 1), (64, 1, 1), 0, arguments)], arrays, schedule)
    return arrays["Y"]


@pytest.mark.parametrize("kernel", RIGHT)
def test_ordered_accesses_raise_no_alarm(kernel: str) -> None:
    for schedule in emulator.SCHEDULES:
        assert run(kernel, RIGHT[kernel], schedule).any()


@pytest.mark.parametrize("kernel", WRONG)
def test_an_error_is_found_under_any_schedule(kernel: str) -> None:
    for schedule in emulator.SCHEDULES:
        with pytest.raises(emulator.EmulationError, match=WRONG[kernel]):
            run(kernel, 2 if kernel == "blocks_share" else 1, schedule)


def test_an_error_names_its_line() -> None:
    with pytest.raises(emulator.EmulationError, match=r"\n  line \d+: (s|Y)\[threadIdx.x\] = .*;$"):
        run("exchange_unordered", 1, emulator.SCHEDULES[0])
