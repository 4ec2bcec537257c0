// Scalar functions of CUDA and of TileLang's templates. The fast ones are computed to full accuracy: an error of a few
// ulp is not what the emulator looks for.
#pragma once
#include "language.h"
#include "narrow_floats.h"

#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_INF (double(INFINITY))
#define CUDART_NAN (double(NAN))

namespace cutlass {
using ::bfloat16_t;
using ::half_t;
}  // namespace cutlass
using half = half_t;
using tfloat32_t = float;  // tensor cores alone tell them apart
using __half = half_t;
using __nv_bfloat16 = bfloat16_t;
struct half2 {
  half_t x, y;
};
using __half2 = half2;
struct __nv_bfloat162 {
  bfloat16_t x, y;
};

// max and min of floats are fmaxf and fminf on the device: a NaN loses.
using std::max;
using std::min;
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
using std::isfinite;
using std::isinf;
using std::isnan;

// Macros, since the C library declares some of these names.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __fsqrt_rn(x) sqrtf(x)
inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
inline float __frcp_rn(float x) { return 1.f / x; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.f), 1.f); }
inline int __float_as_int(float x) { return int(bits_of_float(x)); }
inline unsigned __float_as_uint(float x) { return bits_of_float(x); }
inline float __int_as_float(int x) { return float_of_bits(unsigned(x)); }
inline float __uint_as_float(unsigned x) { return float_of_bits(x); }
inline int __float2int_rn(float x) { return int(nearbyintf(x)); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += int(int8_t(a >> 8 * i)) * int(int8_t(b >> 8 * i));
  return c;
}
template <class T>
T __ldg(const T *address) {
  return *address;
}
#define __assertfail(message, file, line, function, size) emulator::fail("assertion failed: %s", message)
#define __trap() emulator::fail("trap")

// ---- 16-bit floats
#define EMULATOR_UNARY(name, function)                                \
  inline half_t name(half_t x) { return half_t(function(float(x))); } \
  inline bfloat16_t name(bfloat16_t x) { return bfloat16_t(function(float(x))); }
inline float reciprocal(float x) { return 1.f / x; }
EMULATOR_UNARY(hexp, expf)
EMULATOR_UNARY(hexp2, exp2f)
EMULATOR_UNARY(hlog, logf)
EMULATOR_UNARY(hlog2, log2f)
EMULATOR_UNARY(hsqrt, sqrtf)
EMULATOR_UNARY(hrsqrt, rsqrtf)
EMULATOR_UNARY(hrcp, reciprocal)
EMULATOR_UNARY(htanh, tanhf)
EMULATOR_UNARY(herf, erff)
EMULATOR_UNARY(hsin, sinf)
EMULATOR_UNARY(hcos, cosf)
EMULATOR_UNARY(hfloor, floorf)
EMULATOR_UNARY(hceil, ceilf)
EMULATOR_UNARY(hrint, rintf)
EMULATOR_UNARY(hnearbyint, nearbyintf)
EMULATOR_UNARY(htrunc, truncf)
EMULATOR_UNARY(__habs, fabsf)
inline float max_or_nan(float a, float b) { return std::isnan(a) || a > b ? a : b; }
inline float min_or_nan(float a, float b) { return std::isnan(a) || a < b ? a : b; }
#define EMULATOR_BINARY(name, expression)              \
  inline half_t name(half_t a, half_t b) {             \
    const float x = a, y = b;                          \
    return half_t(expression);                         \
  }                                                    \
  inline bfloat16_t name(bfloat16_t a, bfloat16_t b) { \
    const float x = a, y = b;                          \
    return bfloat16_t(expression);                     \
  }
EMULATOR_BINARY(__hmax, fmaxf(x, y))
EMULATOR_BINARY(__hmin, fminf(x, y))
EMULATOR_BINARY(__hmax_nan, max_or_nan(x, y))
EMULATOR_BINARY(__hmin_nan, min_or_nan(x, y))
EMULATOR_BINARY(__hadd, x + y)
EMULATOR_BINARY(__hsub, x - y)
EMULATOR_BINARY(__hmul, x *y)
EMULATOR_BINARY(__hadd_rn, x + y)
EMULATOR_BINARY(__hsub_rn, x - y)
EMULATOR_BINARY(__hmul_rn, x *y)
EMULATOR_BINARY(__hdiv, x / y)
EMULATOR_BINARY(hpow, powf(x, y))
template <class H>
H __hfma(H a, H b, H c) {
  return H(fmaf(float(a), float(b), float(c)));
}
template <class H>
bool __hisnan(H x) {
  return std::isnan(float(x));
}

inline half2 __float22half2_rn(float2 v) { return {half_t(v.x), half_t(v.y)}; }
inline half2 __floats2half2_rn(float x, float y) { return {half_t(x), half_t(y)}; }
inline float2 __half22float2(half2 v) { return {float(v.x), float(v.y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {bfloat16_t(v.x), bfloat16_t(v.y)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {bfloat16_t(x), bfloat16_t(y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
inline float __half2float(half_t v) { return v; }
inline half_t __float2half(float v) { return half_t(v); }
inline half_t __float2half_rn(float v) { return half_t(v); }
inline float __bfloat162float(bfloat16_t v) { return v; }
inline bfloat16_t __float2bfloat16(float v) { return bfloat16_t(v); }
inline bfloat16_t __float2bfloat16_rn(float v) { return bfloat16_t(v); }
template <class H>
unsigned __pack_half2(H a, H b) {
  return pack_elements<unsigned>(a, b);
}
template <class H>
unsigned __pack_nv_bfloat162(H a, H b) {
  return pack_elements<unsigned>(a, b);
}

// ---- 8-bit floats
#define EMULATOR_EIGHT_BIT_VECTORS(Name) \
  struct alignas(2) Name##_2_t {         \
    Name##_t x, y;                       \
  };                                     \
  struct alignas(4) Name##_4_t {         \
    Name##_t x, y, z, w;                 \
  };                                     \
  struct alignas(8) Name##_8_t {         \
    Name##_4_t x, y;                     \
  };                                     \
  struct alignas(16) Name##_16_t {       \
    Name##_8_t x, y;                     \
  };                                     \
  struct alignas(32) Name##_32_t {       \
    Name##_16_t x, y;                    \
  };
EMULATOR_EIGHT_BIT_VECTORS(fp8_e4)
EMULATOR_EIGHT_BIT_VECTORS(fp8_e5)
using __nv_fp8_storage_t = uint8_t;
using __nv_fp8x2_storage_t = uint16_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
inline uint8_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? float_to_e4m3(v) : float_to_e5m2(v);
}
inline uint16_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t how, __nv_fp8_interpretation_t kind) {
  return uint16_t(__nv_cvt_float_to_fp8(v.x, how, kind) | __nv_cvt_float_to_fp8(v.y, how, kind) << 8);
}
inline float eight_bits_to_float(uint8_t bits, __nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? e4m3_to_float(bits) : e5m2_to_float(bits);
}
inline float2 __tl_cvt_fp8x2_to_float2(uint16_t bits, __nv_fp8_interpretation_t kind) {
  return {eight_bits_to_float(uint8_t(bits), kind), eight_bits_to_float(uint8_t(bits >> 8), kind)};
}
inline half2 __tl_cvt_fp8x2_to_half2(uint16_t bits, __nv_fp8_interpretation_t kind) {
  return __float22half2_rn(__tl_cvt_fp8x2_to_float2(bits, kind));
}
inline uint16_t __tl_cvt_half2_to_fp8x2(half2 v, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float2_to_fp8x2(__half22float2(v), __NV_SATFINITE, kind);
}
inline uint16_t __tl_cvt_bfloat162_to_fp8x2(__nv_bfloat162 v, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(v), __NV_SATFINITE, kind);
}
inline __nv_bfloat162 __tl_cvt_e4m3x2_to_bfloat162(uint16_t bits) {
  return __float22bfloat162_rn(__tl_cvt_fp8x2_to_float2(bits, __NV_E4M3));
}
inline half_t __tl_cvt_fp8_to_half(uint8_t bits, __nv_fp8_interpretation_t kind) {
  return half_t(eight_bits_to_float(bits, kind));
}
inline uint8_t __tl_cvt_half_to_fp8(half_t v, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, kind);
}
inline bfloat16_t __tl_cvt_fp8_to_bfloat16(uint8_t bits, __nv_fp8_interpretation_t kind) {
  return bfloat16_t(eight_bits_to_float(bits, kind));
}
inline uint8_t __tl_cvt_bfloat16_to_fp8(bfloat16_t v, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, kind);
}
