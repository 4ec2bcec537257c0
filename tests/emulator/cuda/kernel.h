// Everything a generated kernel includes, and its way into the runtime.
#pragma once
#include "asynchronous.h"
#include "reductions.h"
#include "tensor_cores.h"

extern "C" {  // placed by the linker
extern unsigned char __start_emulator_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_emulator_shared[] __attribute__((weak, visibility("hidden")));
extern const unsigned char __ehdr_start[] __attribute__((visibility("hidden")));
extern const unsigned char _end[] __attribute__((visibility("hidden")));
}

inline int run_kernel(void (*body)(void **), void **arguments, const int *grid, const int *block, size_t shared_bytes) {
  const emulator::Kernel kernel{body, __start_emulator_shared, __stop_emulator_shared, __ehdr_start, _end};
  return emulator::launch(kernel, arguments, grid, block, shared_bytes);
}
#define EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))
