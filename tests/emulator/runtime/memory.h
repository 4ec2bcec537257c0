// Where memory is: the shared memory of a block, and the arrays in global memory that kernels were given.
#pragma once
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>
#include "scheduler.h"

namespace emulator {

constexpr size_t kMaxDynamic = 232448;   // bytes a block may have on sm_90
constexpr unsigned char kPoison = 0xff;  // NaN in every floating-point type

alignas(1024) inline unsigned char dynamic_memory[kMaxDynamic];
inline size_t dynamic_bytes;

unsigned char *dynamic_shared() { return dynamic_memory; }

inline size_t static_bytes() { return kernel_now.static_end - kernel_now.static_begin; }
inline void poison_shared() {
  memset(dynamic_memory, kPoison, sizeof dynamic_memory);
  if (static_bytes()) memset(kernel_now.static_begin, kPoison, static_bytes());
}

// Bytes of shared memory have numbers: those of dynamic memory first, then those of static memory.
constexpr size_t kNotShared = ~size_t{0};
inline size_t byte_number(const void *pointer) {
  const auto *p = static_cast<const unsigned char *>(pointer);
  if (p >= dynamic_memory && p < dynamic_memory + kMaxDynamic) return p - dynamic_memory;
  if (p >= kernel_now.static_begin && p < kernel_now.static_end) return kMaxDynamic + (p - kernel_now.static_begin);
  return kNotShared;
}
inline unsigned char *byte_address(size_t number) {
  return number < kMaxDynamic ? dynamic_memory + number : kernel_now.static_begin + (number - kMaxDynamic);
}
inline std::string place_of_byte(size_t number) {
  if (number < kMaxDynamic) return "dynamic shared byte " + std::to_string(number);
  return "static shared byte " + std::to_string(number - kMaxDynamic);
}
inline std::string place_of(const void *shared) { return place_of_byte(byte_number(shared)); }

// The number of the first of `bytes` bytes that must lie in dynamic shared memory.
inline size_t dynamic_number(const void *pointer, size_t bytes, const char *what, size_t alignment = 1) {
  const std::ptrdiff_t offset = static_cast<const unsigned char *>(pointer) - dynamic_memory;
  if (offset < 0 || offset + bytes > dynamic_bytes)
    fail("%s of dynamic shared bytes %td to %td, of which there are %zu", what, offset,
         offset + static_cast<std::ptrdiff_t>(bytes), dynamic_bytes);
  if (offset % alignment) fail("%s of dynamic shared byte %td, which is not aligned to %zu", what, offset, alignment);
  return offset;
}

// ---- global memory
constexpr uint32_t kSeveral = ~uint32_t{0};
struct GlobalArray {
  std::string name;
  char *begin;
  size_t bytes;
  std::vector<uint32_t> writer, reader;  // of each byte in this launch: a block's number from 1 on, or kSeveral
  bool touched = false;                  // in this launch; otherwise the two are out of date
};
inline std::map<const char *, GlobalArray> global_arrays;  // by where they begin

inline void touch(GlobalArray &array) {
  if (array.touched) return;
  array.touched = true;
  array.writer.assign(array.bytes, 0);
  array.reader.assign(array.bytes, 0);
}

// The array that `bytes` bytes lie in; an error names the nearest one.
inline GlobalArray *array_of(const void *pointer, size_t bytes, const char *what) {
  const auto *p = static_cast<const char *>(pointer);
  const auto distance = [p](const GlobalArray &array) {
    return p < array.begin ? array.begin - p : std::max<std::ptrdiff_t>(p - (array.begin + array.bytes), 0);
  };
  const auto after = global_arrays.upper_bound(p);
  GlobalArray *nearest = after == global_arrays.end() ? nullptr : &after->second;
  if (after != global_arrays.begin()) {
    GlobalArray &array = std::prev(after)->second;
    if (p + bytes <= array.begin + array.bytes) return &array;
    if (!nearest || distance(array) <= distance(*nearest)) nearest = &array;
  }
  if (!nearest) {
    fail("%s of address %p, which is in no argument", what, pointer);
  } else {
    const std::ptrdiff_t at = p - nearest->begin;
    fail("%s of bytes %td to %td of %s, which has %zu", what, at, at + static_cast<std::ptrdiff_t>(bytes),
         nearest->name.c_str(), nearest->bytes);
  }
  return nullptr;
}

}  // namespace emulator
