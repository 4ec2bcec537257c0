// mbarrier, TMA and cp.async under TileLang's names.
#pragma once
#include "warp.h"

namespace tl {
inline void mbarrier_init(uint64_t &barrier, unsigned count) { emulator::mbarrier_init(&barrier, count); }
inline void mbarrier_wait(uint64_t &barrier, int parity) { emulator::mbarrier_wait(&barrier, parity); }
inline unsigned mbarrier_try_wait(uint64_t &barrier, int parity) {
  return emulator::mbarrier_try_wait(&barrier, parity);
}
inline void mbarrier_arrive(uint64_t &barrier) { emulator::mbarrier_arrive(&barrier); }
inline void mbarrier_expect_tx(uint64_t &barrier, unsigned bytes) { emulator::mbarrier_expect(&barrier, bytes); }
inline void mbarrier_arrive_expect_tx(uint64_t &barrier, unsigned bytes) {
  emulator::mbarrier_expect(&barrier, bytes);
  emulator::mbarrier_arrive(&barrier);
}
inline void fence_proxy_async() { emulator::fence_proxy_async(); }
inline void fence_barrier_init() {}
}  // namespace tl

struct Barrier {
  uint64_t storage;

  void init(unsigned count) { tl::mbarrier_init(storage, count); }
  void wait(unsigned parity) { tl::mbarrier_wait(storage, int(parity)); }
  bool try_wait(unsigned parity) { return tl::mbarrier_try_wait(storage, int(parity)); }
  bool test_wait(unsigned parity, unsigned predicate = 1) { return predicate && try_wait(parity); }
  void arrive() { tl::mbarrier_arrive(storage); }
  void arrive(unsigned, unsigned = 1) { emulator::fail("an mbarrier of another block of the cluster is not emulated"); }
  void expect_transaction(unsigned bytes) { tl::mbarrier_expect_tx(storage, bytes); }
  void arrive_and_expect_tx(unsigned bytes) { tl::mbarrier_arrive_expect_tx(storage, bytes); }
};

namespace tl {
enum class CacheHintSm90 : uint64_t { EVICT_NORMAL, EVICT_FIRST, EVICT_LAST };
using Hint = CacheHintSm90;

inline void prefetch_tma_descriptor(const CUtensorMap &) {}
template <Hint hint = Hint::EVICT_NORMAL, class B, class... C>
void tma_load(const CUtensorMap &map, B &barrier, const void *shared, C... coordinates) {
  const int at[] = {int(coordinates)...};
  emulator::tma_load(map, &barrier, shared, sizeof...(C), at);
}
template <class B>
void tma_load(void *shared, const void *global, B &barrier, uint32_t bytes) {
  emulator::bulk_load(shared, global, &barrier, bytes);
}
template <Hint hint = Hint::EVICT_NORMAL, class... C>
void tma_store(const CUtensorMap &map, const void *shared, C... coordinates) {
  const int at[] = {int(coordinates)...};
  emulator::tma_store(map, shared, sizeof...(C), at, false);
}
template <Hint hint = Hint::EVICT_NORMAL>
void tma_store(void *global, const void *shared, uint32_t bytes) {
  emulator::bulk_store(global, shared, bytes, false);
}
template <class... C>
void tma_store_add(const CUtensorMap &map, const void *shared, C... coordinates) {
  const int at[] = {int(coordinates)...};
  emulator::tma_store(map, shared, sizeof...(C), at, true);
}
inline void tma_store_add(float *shared, float *global, int bytes) {
  emulator::bulk_store(global, shared, bytes, true);
}
inline void tma_store_arrive() { emulator::store_commit(); }
template <int pending, bool read = true>
void tma_store_wait() {
  emulator::store_wait(pending);
}

template <int bytes>
void cp_async_gs(const void *shared, const void *global) {
  emulator::cp_async(const_cast<void *>(shared), global, bytes, true);
}
template <int bytes>
void cp_async_gs_conditional(const void *shared, const void *global, bool predicate) {
  emulator::cp_async(const_cast<void *>(shared), global, bytes, predicate);
}
inline void cp_async_commit() { emulator::cp_async_commit(); }
template <int pending>
void cp_async_wait() {
  if (pending == 0) emulator::cp_async_commit();  // cp.async.wait_all waits for copies that were not committed, too
  emulator::cp_async_wait(pending);
}
template <class B>
void mbarrier_cp_async_arrive_noinc(B &barrier) {
  emulator::cp_async_arrive(&barrier);
}

template <class T>
T read_global(const void *address, bool predicate) {
  T value{};
  if (predicate) memcpy(&value, address, sizeof value);
  return value;
}
template <class T>
void write_global(void *address, const T &value, bool predicate) {
  if (predicate) memcpy(address, &value, sizeof value);
}
inline uint32_t load_global_32(const void *address) { return read_global<uint32_t>(address, true); }
inline uint2 load_global_64(const void *address) { return read_global<uint2>(address, true); }
inline uint4 load_global_128(const void *address) { return read_global<uint4>(address, true); }
inline uint32_t load_global_32_conditional(const void *address, bool p) { return read_global<uint32_t>(address, p); }
inline uint2 load_global_64_conditional(const void *address, bool p) { return read_global<uint2>(address, p); }
inline uint4 load_global_128_conditional(const void *address, bool p) { return read_global<uint4>(address, p); }
inline void store_global_32(void *address, uint32_t value) { write_global(address, value, true); }
inline void store_global_64(void *address, uint2 value) { write_global(address, value, true); }
inline void store_global_128(void *address, uint4 value) { write_global(address, value, true); }
inline void store_global_32_conditional(void *address, uint32_t value, bool p) { write_global(address, value, p); }
inline void store_global_64_conditional(void *address, uint2 value, bool p) { write_global(address, value, p); }
inline void store_global_128_conditional(void *address, uint4 value, bool p) { write_global(address, value, p); }
}  // namespace tl
