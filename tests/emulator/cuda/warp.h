// Barriers, votes, shuffles, ldmatrix and stmatrix.
#pragma once
#include "arithmetic.h"

inline void __syncthreads() { emulator::sync_threads(); }
inline void __syncwarp(unsigned = ~0u) { emulator::sync_warp(); }
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
uint64_t to_word(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T from_word(uint64_t word) {
  T value;
  memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  return from_word<T>(emulator::shuffle_xor(to_word(value), mask, width));
}
template <class T>
T __shfl_up_sync(unsigned, T value, int delta, int width = 32) {
  return from_word<T>(emulator::shuffle_up(to_word(value), delta, width));
}
template <class T>
T __shfl_down_sync(unsigned, T value, int delta, int width = 32) {
  return from_word<T>(emulator::shuffle_down(to_word(value), delta, width));
}
template <class T>
T __shfl_sync(unsigned, T value, int source, int width = 32) {
  return from_word<T>(emulator::shuffle_index(to_word(value), source, width));
}
inline unsigned __ballot_sync(unsigned, bool predicate) { return emulator::ballot(predicate); }
inline unsigned __activemask() { return emulator::active_lanes(); }
inline int __any_sync(unsigned, bool predicate) { return emulator::ballot(predicate) != 0; }
inline int __all_sync(unsigned, bool predicate) { return emulator::ballot(!predicate) == 0; }

namespace tl {
template <class T>
T shfl_xor_sync(unsigned mask, T value, int lane) {
  return __shfl_xor_sync(mask, value, lane);
}
template <class T>
T shfl_sync(unsigned mask, T value, int lane) {
  return __shfl_sync(mask, value, lane);
}
template <class T>
T shfl_up_sync(unsigned mask, T value, int delta) {
  return __shfl_up_sync(mask, value, delta);
}
template <class T>
T shfl_down_sync(unsigned mask, T value, int delta) {
  return __shfl_down_sync(mask, value, delta);
}
inline int get_lane_idx(int = 32) { return emulator::lane(); }
inline int get_warp_idx(int = 32) { return emulator::warp(); }
inline int get_warp_idx_sync(int = 32) { return emulator::warp(); }
inline int get_warp_group_idx(int = 32, int = 4) { return emulator::thread_number() / 128; }
template <int threads>
bool tl_shuffle_elect() {
  return emulator::elect(threads);
}

inline void __sync_thread_partial(int barrier = 0, int threads = 0) { emulator::named_barrier(barrier, threads, true); }
inline void __named_barrier_arrive(int barrier, int threads) { emulator::named_barrier(barrier, threads, false); }
template <unsigned count>
void set_registers() {
  static_assert(count % 8 == 0 && count >= 24 && count <= 256);
  emulator::set_registers(count);
}
template <unsigned count>
void warpgroup_reg_alloc() {
  set_registers<count>();
}
template <unsigned count>
void warpgroup_reg_dealloc() {
  set_registers<count>();
}

#define EMULATOR_LDMATRIX(name, count, transposed)                    \
  inline void ptx_ldmatrix_##name(const void *row, void *registers) { \
    emulator::load_matrices(row, registers, count, transposed);       \
  }
EMULATOR_LDMATRIX(x1, 1, false)
EMULATOR_LDMATRIX(x2, 2, false)
EMULATOR_LDMATRIX(x4, 4, false)
EMULATOR_LDMATRIX(x1_trans, 1, true)
EMULATOR_LDMATRIX(x2_trans, 2, true)
EMULATOR_LDMATRIX(x4_trans, 4, true)
template <bool transposed, class... Registers>
void stmatrix(const void *row, Registers... registers) {
  const int values[] = {int(registers)...};
  emulator::store_matrices(row, values, sizeof...(registers), transposed);
}
#define EMULATOR_STMATRIX(name, transposed)    \
  template <class... R>                        \
  void name(const void *row, R... registers) { \
    stmatrix<transposed>(row, registers...);   \
  }
EMULATOR_STMATRIX(ptx_stmatrix_m8n8_x1, false)
EMULATOR_STMATRIX(ptx_stmatrix_m8n8_x2, false)
EMULATOR_STMATRIX(ptx_stmatrix_m8n8_x4, false)
EMULATOR_STMATRIX(ptx_stmatrix_m8n8_x1_trans, true)
EMULATOR_STMATRIX(ptx_stmatrix_m8n8_x2_trans, true)
EMULATOR_STMATRIX(ptx_stmatrix_m8n8_x4_trans, true)
EMULATOR_STMATRIX(ptx_stmatrix_x1, false)
EMULATOR_STMATRIX(ptx_stmatrix_x2, false)
EMULATOR_STMATRIX(ptx_stmatrix_x4, false)
EMULATOR_STMATRIX(ptx_stmatrix_x1_trans, true)
EMULATOR_STMATRIX(ptx_stmatrix_x2_trans, true)
EMULATOR_STMATRIX(ptx_stmatrix_x4_trans, true)
}  // namespace tl
