// CUDA as a language: its keywords, built-in variables and vector types.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include "../runtime/interface.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __restrict__ __restrict
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
// Static shared memory goes to a section of its own, which the runtime poisons for each block.
#define __shared__ static __attribute__((section("emulator_shared")))
#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_extent())
#define gridDim (emulator::grid_extent())

#define EMULATOR_VECTORS(Element, Name, align2, align4)                                \
  struct Name##1 { Element x; };                                                       \
  struct alignas(align2) Name##2 { Element x, y; };                                    \
  struct Name##3 { Element x, y, z; };                                                 \
  struct alignas(align4) Name##4 { Element x, y, z, w; };                              \
  inline Name##1 make_##Name##1(Element x) { return {x}; }                             \
  inline Name##2 make_##Name##2(Element x, Element y) { return {x, y}; }               \
  inline Name##3 make_##Name##3(Element x, Element y, Element z) { return {x, y, z}; } \
  inline Name##4 make_##Name##4(Element x, Element y, Element z, Element w) { return {x, y, z, w}; }
EMULATOR_VECTORS(float, float, 8, 16)
EMULATOR_VECTORS(double, double, 16, 16)
EMULATOR_VECTORS(int, int, 8, 16)
EMULATOR_VECTORS(unsigned, uint, 8, 16)
EMULATOR_VECTORS(short, short, 4, 8)
EMULATOR_VECTORS(unsigned short, ushort, 4, 8)
EMULATOR_VECTORS(signed char, char, 2, 4)
EMULATOR_VECTORS(unsigned char, uchar, 2, 4)
EMULATOR_VECTORS(long long, longlong, 16, 16)
EMULATOR_VECTORS(unsigned long long, ulonglong, 16, 16)
using int4_t = int4;

// After the system's headers, which declare types of these names.
#define uint unsigned int
#define uchar unsigned char
#define ushort unsigned short

// Several elements in one register or vector, lowest first.
template <class Vector, class... Elements>
Vector pack_elements(Elements... elements) {
  static_assert(sizeof(Vector) == (sizeof(Elements) + ...));
  Vector vector;
  char *to = reinterpret_cast<char *>(&vector);
  ((memcpy(to, &elements, sizeof elements), to += sizeof elements), ...);
  return vector;
}
using int8 = signed char;
using uint8 = unsigned char;
inline int make_int(int8 a, int8 b, int8 c, int8 d) { return pack_elements<int>(a, b, c, d); }
inline unsigned make_uint(uint8 a, uint8 b, uint8 c, uint8 d) { return pack_elements<unsigned>(a, b, c, d); }
template <class... E>
std::enable_if_t<sizeof...(E) == 8, int2> make_int2(E... elements) {
  return pack_elements<int2>(int8(elements)...);
}
template <class... E>
std::enable_if_t<sizeof...(E) == 8, uint2> make_uint2(E... elements) {
  return pack_elements<uint2>(uint8(elements)...);
}
template <class... E>
std::enable_if_t<sizeof...(E) == 8, int4> make_int4(E... elements) {
  return pack_elements<int4>(short(elements)...);
}
template <class... E>
std::enable_if_t<sizeof...(E) == 16, int4> make_int4(E... elements) {
  return pack_elements<int4>(int8(elements)...);
}
template <class... E>
std::enable_if_t<sizeof...(E) == 16, uint4> make_uint4(E... elements) {
  return pack_elements<uint4>(uint8(elements)...);
}
template <class... E>
std::enable_if_t<sizeof...(E) == 8, uint4> make_uint4(E... elements) {
  return pack_elements<uint4>(static_cast<unsigned short>(elements)...);
}
