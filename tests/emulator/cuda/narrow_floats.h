// 16-bit and 8-bit floating point: storage, conversion, and arithmetic done in float32 and rounded to nearest even, as
// the hardware's single operations are.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

inline float half_to_float(uint16_t bits) {
  _Float16 value;
  memcpy(&value, &bits, 2);
  return float(value);
}
inline uint16_t float_to_half(float value) {
  const _Float16 half = _Float16(value);
  uint16_t bits;
  memcpy(&bits, &half, 2);
  return bits;
}
inline float bfloat_to_float(uint16_t bits) { return float_of_bits(uint32_t(bits) << 16); }
inline uint16_t float_to_bfloat(float value) {
  const uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);  // keep a NaN one
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// e4m3 (finite: its largest exponent holds numbers, and one NaN) and e5m2 (IEEE); both conversions saturate, as
// __NV_SATFINITE asks.
inline float e4m3_to_float(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if ((bits & 127) == 127) return NAN;
  const float magnitude = exponent ? std::ldexp(8.f + mantissa, exponent - 10) : std::ldexp(float(mantissa), -9);
  return bits & 128 ? -magnitude : magnitude;
}
inline float e5m2_to_float(uint8_t bits) { return half_to_float(uint16_t(bits << 8)); }
template <int mantissa_bits, int bias>
uint8_t float_to_eight_bits(float value, float largest, uint8_t nan) {
  const uint8_t sign = std::signbit(value) ? 128 : 0;
  if (std::isnan(value)) return sign | nan;
  const float magnitude = std::min(std::fabs(value), largest);
  int exponent = 1 - bias;
  if (magnitude > 0) exponent = std::max(std::ilogb(magnitude), exponent);
  int mantissa = int(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  constexpr int one = 1 << mantissa_bits;
  if (mantissa == 2 * one) {
    mantissa = one;
    ++exponent;
  }
  return sign | uint8_t(mantissa < one ? mantissa : (exponent + bias) * one + mantissa - one);
}
inline uint8_t float_to_e4m3(float value) { return float_to_eight_bits<3, 7>(value, 448.f, 0x7f); }
inline uint8_t float_to_e5m2(float value) { return float_to_eight_bits<2, 15>(value, 57344.f, 0x7f); }

template <class Bits, float (*to_float)(Bits), Bits (*from_float)(float)>
struct NarrowFloat {
  Bits bits;

  NarrowFloat() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  explicit NarrowFloat(T value) : bits(from_float(float(value))) {}
  template <class B, float (*t)(B), B (*f)(float), class = std::enable_if_t<t != to_float>>
  explicit NarrowFloat(NarrowFloat<B, t, f> other) : bits(from_float(float(other))) {}
  static NarrowFloat bitcast(Bits bits) {
    NarrowFloat value;
    value.bits = bits;
    return value;
  }

  operator float() const { return to_float(bits); }
  NarrowFloat to_half() const { return *this; }
  NarrowFloat to_nv_bfloat16() const { return *this; }
  NarrowFloat &operator=(float value) {
    bits = from_float(value);
    return *this;
  }

  friend NarrowFloat operator+(NarrowFloat a, NarrowFloat b) { return NarrowFloat(float(a) + float(b)); }
  friend NarrowFloat operator-(NarrowFloat a, NarrowFloat b) { return NarrowFloat(float(a) - float(b)); }
  friend NarrowFloat operator*(NarrowFloat a, NarrowFloat b) { return NarrowFloat(float(a) * float(b)); }
  friend NarrowFloat operator/(NarrowFloat a, NarrowFloat b) { return NarrowFloat(float(a) / float(b)); }
  friend NarrowFloat operator-(NarrowFloat a) { return bitcast(Bits(a.bits ^ (1u << (8 * sizeof(Bits) - 1)))); }
  NarrowFloat &operator+=(NarrowFloat b) { return *this = *this + b; }
  NarrowFloat &operator-=(NarrowFloat b) { return *this = *this - b; }
  NarrowFloat &operator*=(NarrowFloat b) { return *this = *this * b; }
  NarrowFloat &operator/=(NarrowFloat b) { return *this = *this / b; }
  friend bool operator<(NarrowFloat a, NarrowFloat b) { return float(a) < float(b); }
  friend bool operator>(NarrowFloat a, NarrowFloat b) { return float(a) > float(b); }
};
using half_t = NarrowFloat<uint16_t, half_to_float, float_to_half>;
using bfloat16_t = NarrowFloat<uint16_t, bfloat_to_float, float_to_bfloat>;
using fp8_e4_t = NarrowFloat<uint8_t, e4m3_to_float, float_to_e4m3>;
using fp8_e5_t = NarrowFloat<uint8_t, e5m2_to_float, float_to_e5m2>;
