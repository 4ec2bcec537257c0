// Everything a generated kernel includes, and its way into the runtime.
#pragma once
#include "asynchronous.h"
#include "reductions.h"
#include "tensor_cores.h"

extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_emulator_shared[],
    __stop_emulator_shared[];

inline int run_kernel(void (*body)(void**), void** arguments, const int* grid, const int* block, size_t shared_bytes) {
  return emulator::launch({body, __start_emulator_shared, __stop_emulator_shared}, arguments, grid, block,
                          shared_bytes);
}
#define EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))
