// Shared memory as threads, TMA and the tensor cores see it, and the arrays in global memory that a kernel may touch.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>
#include "layouts.h"
#include "scheduler.h"

namespace emulator {

constexpr size_t kMaxDynamic = 232448;   // bytes a block may have on sm_90
constexpr size_t kGuard = 4096;          // behind them, to notice writes past the end
constexpr unsigned char kPoison = 0xff;  // NaN in every floating-point type

alignas(1024) inline unsigned char dynamic_memory[kMaxDynamic + kGuard];
inline size_t dynamic_bytes;
inline unsigned char *static_begin, *static_end;

// What the asynchronous proxy may rely on: written by TMA loads and by fence.proxy.async. Where it differs from the
// memory itself, an ordinary write has had no fence since.
inline std::vector<unsigned char> proxy_view;
inline std::vector<uint8_t> loads_in_flight;  // per 16 bytes
inline std::vector<uint8_t> wgmma_reads;      // per 16 bytes: a bit for each warpgroup with an unfinished wgmma

unsigned char* dynamic_shared() { return dynamic_memory; }
void fence_proxy_async() { memcpy(proxy_view.data(), dynamic_memory, dynamic_bytes); }

inline void reset_memory() {
  memset(dynamic_memory, kPoison, sizeof dynamic_memory);
  if (static_begin) memset(static_begin, kPoison, static_end - static_begin);
  proxy_view.assign(sizeof dynamic_memory, kPoison);
  loads_in_flight.assign(sizeof dynamic_memory / 16, 0);
  wgmma_reads.assign(sizeof dynamic_memory / 16, 0);
}

inline void check_guard() {
  for (size_t i = dynamic_bytes; i < sizeof dynamic_memory; i++)
    if (dynamic_memory[i] != kPoison) {
      fail("a write past the end of dynamic shared memory (byte %zu of %zu)", i, dynamic_bytes);
      return;
    }
}

// Offset of `bytes` bytes at `pointer` in dynamic shared memory, checked.
inline size_t shared_offset(const void* pointer, size_t bytes, const char* what, size_t alignment = 1) {
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(pointer) - dynamic_memory;
  if (offset < 0 || offset + bytes > dynamic_bytes)
    fail("%s: shared bytes %td to %td are outside the %zu bytes of dynamic shared memory", what, offset,
         offset + static_cast<std::ptrdiff_t>(bytes), dynamic_bytes);
  if (offset % alignment) fail("%s: shared byte %td is not aligned to %zu", what, offset, alignment);
  return offset;
}

inline std::string shared_place(const void* pointer) {
  const auto* p = static_cast<const unsigned char*>(pointer);
  if (static_begin <= p && p < static_end) return "static shared byte " + std::to_string(p - static_begin);
  return "dynamic shared byte " + std::to_string(p - dynamic_memory);
}

inline void check_fenced(size_t offset, size_t bytes, const char* what) {
  if (memcmp(&proxy_view[offset], dynamic_memory + offset, bytes))
    fail("%s reads shared byte %zu, written without a fence.proxy.async since", what, offset);
}
inline void check_arrived(size_t offset, const char* what) {
  if (loads_in_flight[offset >> 4])
    fail("%s reads shared byte %zu while a TMA load to it is in flight (no wait on its mbarrier?)", what, offset);
}

// ---- global memory
struct GlobalArray {
  std::string name;
  const char* begin;
  size_t bytes;
};
inline std::vector<GlobalArray> global_arrays;

inline void check_global(const void* pointer, size_t bytes, const char* what) {
  const auto* p = static_cast<const char*>(pointer);
  const GlobalArray* nearest = nullptr;
  for (const GlobalArray& array : global_arrays) {
    if (p >= array.begin && p + bytes <= array.begin + array.bytes) return;
    if (p + bytes > array.begin && (!nearest || array.begin > nearest->begin)) nearest = &array;
  }
  if (!nearest) fail("%s touches %p, which is in no argument", what, pointer);
  fail("%s touches bytes %td to %td of %s, which has %zu", what, p - nearest->begin,
       p - nearest->begin + static_cast<std::ptrdiff_t>(bytes), nearest->name.c_str(), nearest->bytes);
}

}  // namespace emulator
