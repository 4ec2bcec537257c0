// TileLang's reductions, scans, packed pairs and atomics.
#pragma once
#include "warp.h"

namespace tl {
template <class T>
T fast_max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T fast_min(T a, T b) {
  return b < a ? b : a;
}
inline float fast_max(float a, float b) { return fmaxf(a, b); }
inline float fast_min(float a, float b) { return fminf(a, b); }
inline float fast_rcp(float x) { return 1.f / x; }

// ---- pairs in one register, which generated code holds as uint1
template <class T>
T from_uint1(uint1 bits) {
  T pair;
  memcpy(&pair, &bits, 4);
  return pair;
}
template <class T>
uint1 to_uint1(T pair) {
  uint1 bits;
  memcpy(&bits, &pair, 4);
  return bits;
}
inline uint1 pack_half2(half_t a, half_t b) { return pack_elements<uint1>(a, b); }
template <class T, class F>
T map_pair(T a, T b, F f) {
  using V = decltype(a.x);
  return {V(f(a.x, b.x)), V(f(a.y, b.y))};
}
template <class T>
T add2(T a, T b) {
  return map_pair(a, b, [](auto x, auto y) { return x + y; });
}
template <class T>
T sub2(T a, T b) {
  return map_pair(a, b, [](auto x, auto y) { return x - y; });
}
template <class T>
T mul2(T a, T b) {
  return map_pair(a, b, [](auto x, auto y) { return x * y; });
}
template <class T>
T max2(T a, T b) {
  return map_pair(a, b, [](auto x, auto y) { return fmaxf(x, y); });
}
template <class T>
T min2(T a, T b) {
  return map_pair(a, b, [](auto x, auto y) { return fminf(x, y); });
}
template <class T>
T max2_nan(T a, T b) {
  return map_pair(a, b, max_or_nan);
}
template <class T>
T min2_nan(T a, T b) {
  return map_pair(a, b, min_or_nan);
}
template <class T>
T abs2(T a) {
  return map_pair(a, a, [](auto x, auto) { return fabsf(x); });
}
template <class T>
T fma2(T a, T b, T c) {
  using V = decltype(a.x);
  return {V(fmaf(a.x, b.x, c.x)), V(fmaf(a.y, b.y, c.y))};
}
template <class T>
T clamp(T x, T low, T high) {
  const float value = x;
  return std::isnan(value) ? x : T(fminf(fmaxf(value, float(low)), float(high)));
}
template <int power = 1, class T>
T pow_of_int(T x) {
  T product = x;
  for (int i = 1; i < power; i++) product *= x;
  return product;
}
template <class Vector, class Unit>
Vector broadcast(Unit unit) {
  Vector vector;
  for (size_t i = 0; i < sizeof(Vector) / sizeof(Unit); i++)
    memcpy(reinterpret_cast<Unit *>(&vector) + i, &unit, sizeof unit);
  return vector;
}
template <class Vector, class First, class... Rest>
Vector make_vec(First first, Rest... rest) {
  return pack_elements<Vector>(first, First(rest)...);
}

// ---- combiners
struct SumOp {
  template <class T>
  T operator()(T a, T b) {
    return T(a + b);
  }
};
struct MaxOp {
  template <class T>
  T operator()(T a, T b) {
    return fast_max(a, b);
  }
};
struct MinOp {
  template <class T>
  T operator()(T a, T b) {
    return fast_min(a, b);
  }
};
struct MaxOpNan {
  template <class T>
  T operator()(T a, T b) {
    return T(max_or_nan(a, b));
  }
};
struct MinOpNan {
  template <class T>
  T operator()(T a, T b) {
    return T(min_or_nan(a, b));
  }
};
struct BitAndOp {
  template <class T>
  T operator()(T a, T b) {
    return a & b;
  }
};
struct BitOrOp {
  template <class T>
  T operator()(T a, T b) {
    return a | b;
  }
};
struct BitXorOp {
  template <class T>
  T operator()(T a, T b) {
    return a ^ b;
  }
};
#define EMULATOR_PAIR_COMBINER(Name, function)                                                                    \
  struct Name##_fp16x2 {                                                                                          \
    uint1 operator()(uint1 a, uint1 b) { return to_uint1(function(from_uint1<half2>(a), from_uint1<half2>(b))); } \
  };                                                                                                              \
  struct Name##_bf16x2 {                                                                                          \
    uint1 operator()(uint1 a, uint1 b) {                                                                          \
      return to_uint1(function(from_uint1<__nv_bfloat162>(a), from_uint1<__nv_bfloat162>(b)));                    \
    }                                                                                                             \
  };                                                                                                              \
  struct Name##_f32x2 {                                                                                           \
    float2 operator()(float2 a, float2 b) { return function(a, b); }                                              \
  };
EMULATOR_PAIR_COMBINER(SumOp, add2)
EMULATOR_PAIR_COMBINER(MaxOp, max2)
EMULATOR_PAIR_COMBINER(MinOp, min2)
EMULATOR_PAIR_COMBINER(MaxOpNan, max2_nan)
EMULATOR_PAIR_COMBINER(MinOpNan, min2_nan)

struct SyncThreadsBarrier {
  template <int phase = 0>
  static void sync() {
    __syncthreads();
  }
};
template <int threads>
struct NamedBarrier {
  template <int phase = 1>
  static void sync() {
    emulator::named_barrier(phase, threads, true);
  }
};

// A butterfly over the threads whose numbers differ in the bits from `scale` to below `threads`: through shared memory
// between warps, by shuffles within one.
template <class Combiner, int threads, int scale, int first_thread = 0, class BarrierKind = SyncThreadsBarrier,
          int batch = 1, int stride = 0>
struct AllReduce {
  static_assert(threads % scale == 0 && (scale & (scale - 1)) == 0 && (threads / scale & (threads / scale - 1)) == 0);

  template <class T>
  static T run(T x, T *buffer = nullptr) {
    reduce<1>(&x, buffer);
    return x;
  }
  template <class T>
  static void run_batch(T *x, T *buffer = nullptr) {
    reduce<batch>(x, buffer);
  }

 private:
  template <int count, class T>
  static void reduce(T *x, T *buffer) {
    const int thread = emulator::thread_number() - first_thread;
    for (int distance = threads / 2; distance >= scale; distance /= 2) {
      if (distance >= 32) {
        BarrierKind::template sync<1>();
        for (int i = 0; i < count; i++) buffer[thread + i * stride] = x[i];
        BarrierKind::template sync<2>();
        for (int i = 0; i < count; i++) x[i] = Combiner()(x[i], buffer[(thread ^ distance) + i * stride]);
      } else {
        for (int i = 0; i < count; i++) x[i] = Combiner()(x[i], __shfl_xor_sync(~0u, x[i], distance));
      }
    }
  }
};
template <class T, class Combiner>
T warp_reduce(T value, Combiner combine) {
  for (int distance = 16; distance; distance /= 2) value = combine(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}
template <class T>
T warp_reduce_sum(T value) {
  return warp_reduce(value, SumOp());
}
template <class T>
T warp_reduce_max(T value) {
  return warp_reduce(value, MaxOp());
}
template <class T>
T warp_reduce_min(T value) {
  return warp_reduce(value, MinOp());
}

// An inclusive scan of the rows (axis 1) or columns (axis 0) of an H x W matrix. One thread does it, between barriers:
// the same sums up to their order.
template <int threads, int axis = 0, bool reverse = false>
struct CumSum2D {
  template <class T, int segment = 32>
  static void run(const T *from, T *to, int height, int width, int from_stride, int to_stride) {
    __syncthreads();
    const int lines = axis ? height : width, length = axis ? width : height;
    for (int line = 0; emulator::thread_number() == 0 && line < lines; line++) {
      T sum = T(0);
      for (int k = 0; k < length; k++) {
        const int at = reverse ? length - 1 - k : k, row = axis ? line : at, column = axis ? at : line;
        sum = T(sum + from[row * from_stride + column]);
        to[row * to_stride + column] = sum;
      }
    }
    __syncthreads();
  }
};
}  // namespace tl

// Atomics: a fiber is never interrupted, so reading, changing and writing is one step. They don't race with each other,
// so they are kept from the checks of ordinary accesses.
#define EMULATOR_ATOMIC(name, change)                                             \
  template <class T, class V>                                                     \
  __attribute__((no_sanitize("thread"))) T name(T *address, V operand, int = 0) { \
    emulator::note_atomic(address, sizeof(T));                                    \
    const T old = *address, value = T(operand);                                   \
    *address = change;                                                            \
    return old;                                                                   \
  }
EMULATOR_ATOMIC(atomicAdd, T(old + value))
EMULATOR_ATOMIC(AtomicAddRet, T(old + value))
EMULATOR_ATOMIC(AtomicAdd, T(old + value))
EMULATOR_ATOMIC(AtomicMax, old > value ? old : value)
EMULATOR_ATOMIC(AtomicMin, old < value ? old : value)
template <class T, class V>
void AtomicAddx2(T *address, V value, int = 0) {
  atomicAdd(address, value.x);
  atomicAdd(address + 1, value.y);
}
template <class T, class V>
void AtomicAddx4(T *address, V value, int = 0) {
  atomicAdd(address, value.x);
  atomicAdd(address + 1, value.y);
  atomicAdd(address + 2, value.z);
  atomicAdd(address + 3, value.w);
}
