// Ordinary loads and stores. Kernels are compiled with -fsanitize=thread, which puts a call before each of them; the
// sanitizer's own library isn't linked, and these functions take its place.
#pragma once
#include "races.h"

namespace emulator {

// Blocks run one after another, but a device runs them in any order and at once: in one launch no block may touch what
// another has written, unless by atomics.
inline void note_global(const void *pointer, size_t bytes, bool is_write, const char *what) {
  GlobalArray *array = array_of(pointer, bytes, what);
  if (!array) return;
  touch(*array);
  const uint32_t block = 1 + block_now.x + grid_size.x * (block_now.y + grid_size.y * block_now.z);
  const size_t first = static_cast<const char *>(pointer) - array->begin;
  const auto conflict = [&](size_t i, uint32_t other, const char *earlier) {
    const std::string by = other == kSeveral ? "other blocks" : "block number " + std::to_string(other - 1);
    return std::string(what) + " of byte " + std::to_string(i) + " of " + array->name + " races with a " + earlier +
           " by " + by + " in the same launch";
  };
  for (size_t i = first; i < first + bytes; i++) {
    uint32_t &writer = array->writer[i], &reader = array->reader[i];
    if (writer && writer != block) {
      if (is_write)
        suspect(pointer, bytes, conflict(i, writer, "write"));
      else
        fail("%s", conflict(i, writer, "write").c_str());
    }
    if (is_write && reader && reader != block) fail("%s", conflict(i, reader, "read").c_str());
    if (is_write)
      writer = block;
    else
      reader = reader && reader != block ? kSeveral : block;
  }
}

inline void note_access(const void *pointer, size_t bytes, bool is_write, size_t alignment) {
  settle_suspicion();
  if (!in_kernel || threads[current].fiber.holds(pointer)) return;
  const char *what = is_write ? "a write" : "a read";
  const auto *p = static_cast<const unsigned char *>(pointer);
  if (p >= kernel_now.image_begin && p < kernel_now.image_end && byte_number(p) == kNotShared) return;  // constants
  if (reinterpret_cast<uintptr_t>(p) % alignment)
    fail("%s of %zu bytes at %p, which is misaligned", what, bytes, pointer);
  const size_t number = byte_number(p);
  if (number == kNotShared) return note_global(p, bytes, is_write, what);
  if (number < kMaxDynamic) dynamic_number(p, bytes, what);
  if (is_write)
    note_write(number, bytes, current);
  else
    note_read(number, bytes, current);
}

// An atomic is ordered with every other.
void note_atomic(const void *pointer, int bytes) {
  settle_suspicion();
  if (byte_number(pointer) == kNotShared) array_of(pointer, bytes, "an atomic");
}

void fence_proxy_async() { fence_writes(current); }

}  // namespace emulator

#define EMULATOR_HOOK(bytes)                                                                              \
  extern "C" void __tsan_read##bytes(void *p) { emulator::note_access(p, bytes, false, bytes); }          \
  extern "C" void __tsan_write##bytes(void *p) { emulator::note_access(p, bytes, true, bytes); }          \
  extern "C" void __tsan_unaligned_read##bytes(void *p) { emulator::note_access(p, bytes, false, 1); }    \
  extern "C" void __tsan_unaligned_write##bytes(void *p) { emulator::note_access(p, bytes, true, 1); }    \
  extern "C" void __tsan_volatile_read##bytes(void *p) { emulator::note_access(p, bytes, false, bytes); } \
  extern "C" void __tsan_volatile_write##bytes(void *p) { emulator::note_access(p, bytes, true, bytes); }
EMULATOR_HOOK(1)
EMULATOR_HOOK(2)
EMULATOR_HOOK(4)
EMULATOR_HOOK(8)
EMULATOR_HOOK(16)
extern "C" void __tsan_read_range(void *p, size_t bytes) { emulator::note_access(p, bytes, false, 1); }
extern "C" void __tsan_write_range(void *p, size_t bytes) { emulator::note_access(p, bytes, true, 1); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
