// Elements of matrices as tensor cores read them: bits of storage to a value.
#pragma once
#include <cmath>
#include "../cuda/narrow_floats.h"
#include "scheduler.h"

namespace emulator {

template <DataType D>
struct Element;
template <>
struct Element<DataType::kFloat16> {
  using Storage = uint16_t;
  using Value = float;
  static Value get(Storage bits) { return half_to_float(bits); }
};
template <>
struct Element<DataType::kBFloat16> {
  using Storage = uint16_t;
  using Value = float;
  static Value get(Storage bits) { return bfloat_to_float(bits); }
};
template <>
struct Element<DataType::kTensorFloat32> {  // the hardware ignores the low 13 bits of the mantissa
  using Storage = uint32_t;
  using Value = float;
  static Value get(Storage bits) { return float_of_bits(bits & 0xffffe000u); }
};
template <>
struct Element<DataType::kInt8> {
  using Storage = int8_t;
  using Value = int;
  static Value get(Storage bits) { return bits; }
};
template <>
struct Element<DataType::kUInt8> {
  using Storage = uint8_t;
  using Value = int;
  static Value get(Storage bits) { return bits; }
};
template <>
struct Element<DataType::kFloat8_e4m3> {
  using Storage = uint8_t;
  using Value = float;
  static Value get(Storage bits) { return e4m3_to_float(bits); }
};
template <>
struct Element<DataType::kFloat8_e5m2> {
  using Storage = uint8_t;
  using Value = float;
  static Value get(Storage bits) { return e5m2_to_float(bits); }
};

// Call f(Element<type>{}).
template <class F>
void with_element(DataType type, const char *operation, F f) {
  switch (type) {
    case DataType::kFloat16:
      return f(Element<DataType::kFloat16>{});
    case DataType::kBFloat16:
      return f(Element<DataType::kBFloat16>{});
    case DataType::kTensorFloat32:
      return f(Element<DataType::kTensorFloat32>{});
    case DataType::kInt8:
      return f(Element<DataType::kInt8>{});
    case DataType::kUInt8:
      return f(Element<DataType::kUInt8>{});
    case DataType::kFloat8_e4m3:
      return f(Element<DataType::kFloat8_e4m3>{});
    case DataType::kFloat8_e5m2:
      return f(Element<DataType::kFloat8_e5m2>{});
    default:
      fail("%s on data type %d is not emulated", operation, static_cast<int>(type));
  }
}

// Call f(Element<a>{}, Element<b>{}) for operands of one width and kind.
template <class F>
void with_elements(DataType a, DataType b, const char *operation, F f) {
  with_element(a, operation, [&](auto element_a) {
    with_element(b, operation, [&](auto element_b) {
      using A = decltype(element_a);
      using B = decltype(element_b);
      constexpr bool same_width = sizeof(typename A::Storage) == sizeof(typename B::Storage);
      if constexpr (same_width && std::is_same_v<typename A::Value, typename B::Value>)
        f(element_a, element_b);
      else
        fail("%s on operands of different widths", operation);
    });
  });
}

// An accumulator: `index` counts elements of 32 bits, or of 16 with half accumulators.
template <class V>
V read_accumulator(const void *registers, int index, bool half) {
  if (half) return V(half_to_float(static_cast<const uint16_t *>(registers)[index]));
  V value;
  memcpy(&value, static_cast<const uint32_t *>(registers) + index, 4);
  return value;
}
template <class V>
void write_accumulator(void *registers, int index, bool half, V value) {
  if (half)
    static_cast<uint16_t *>(registers)[index] = float_to_half(float(value));
  else
    memcpy(static_cast<uint32_t *>(registers) + index, &value, 4);
}

}  // namespace emulator
