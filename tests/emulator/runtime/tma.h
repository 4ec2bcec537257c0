// TMA: loads that arrive at any time after their issue, stores that read shared memory until they are waited for.
#pragma once
#include "../cuda/narrow_floats.h"
#include "layouts.h"
#include "mbarrier.h"
#include "tensor_map.h"

namespace emulator {

struct Transfer {
  bool tensor;  // a box of a tensor map, or else a range of bytes
  CUtensorMap map;
  int coordinates[5];
  char *global;
  size_t shared, bytes;
};
struct Load : Transfer {
  const void *barrier;
  Clock issued;  // what was before its issue is before its arrival
};
struct StoreTask : Transfer {
  bool add;
  std::vector<char> image;  // the bytes as they were at issue
};
struct StoreQueue {
  std::vector<StoreTask> open;
  std::deque<std::vector<StoreTask>> groups;
};
inline std::deque<Load> loads;  // issued and not yet arrived
inline StoreQueue stores[kMaxThreads];

inline void reset_tma() {
  loads.clear();
  for (int i = 0; i < thread_count; i++) {
    stores[i].open.clear();
    stores[i].groups.clear();
  }
}

inline size_t swizzled(const Transfer &transfer, size_t i) {
  return swizzle(transfer.shared + i, transfer.tensor ? transfer.map.swizzle : 0);
}

inline void arrive(const Load &load) {
  std::vector<char> image(load.bytes, 0);  // elements outside the tensor read as zero, and count as bytes
  if (load.tensor)
    visit_rows(load.map, load.coordinates, [&](size_t row, const char *address, size_t first, size_t last) {
      note_global(address + first, last - first, false, "a TMA load");
      memcpy(&image[row + first], address + first, last - first);
    });
  else
    memcpy(image.data(), load.global, load.bytes);
  for (size_t i = 0; i < load.bytes; i += kChunk) {
    const size_t at = swizzled(load, i), n = std::min(kChunk, load.bytes - i);
    memcpy(dynamic_memory + at, &image[i], n);
  }
  join(mbarrier_at(load.barrier).arriving, load.issued);
  count_bytes(load.barrier, -static_cast<long>(load.bytes));
}

inline void arrive_next() {
  size_t k = 0;
  if (options.arrival == Arrival::kRandom) k = random_number() % loads.size();
  if (options.arrival == Arrival::kNewest) k = loads.size() - 1;
  const Load load = loads[k];
  loads.erase(loads.begin() + k);
  arrive(load);
}

inline void issue(Load load) {
  ++progress;
  const MBarrier &barrier = mbarrier_at(load.barrier);
  load.issued = clocks[current];
  note_asynchronous_write(load.shared, load.bytes, current, {barrier.phase + 1, uint16_t(barrier.agent)});
  memset(dynamic_memory + load.shared, kPoison, load.bytes);
  if (options.arrival == Arrival::kEarly)
    arrive(load);
  else
    loads.push_back(load);
}

inline std::vector<char> read_source(const StoreTask &store) {
  std::vector<char> image(store.bytes);
  for (size_t i = 0; i < store.bytes; i += kChunk)
    memcpy(&image[i], dynamic_memory + swizzled(store, i), std::min(kChunk, store.bytes - i));
  return image;
}

inline void issue(StoreTask store) {
  ++progress;
  check_written(store.shared, store.bytes, current, "a TMA store");
  check_fenced(store.shared, store.bytes, "a TMA store");
  store.image = read_source(store);
  stores[current].open.push_back(std::move(store));
}

template <class T>
void add_elements(char *to, const char *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T sum, term;
    memcpy(&sum, to + i, sizeof sum);
    memcpy(&term, from + i, sizeof term);
    sum = T(sum + term);
    memcpy(to + i, &sum, sizeof sum);
  }
}
inline void put(const StoreTask &store, char *to, const char *from, size_t bytes) {
  if (!store.add) return void(memcpy(to, from, bytes));
  switch (store.tensor ? store.map.data_type : kFloat32) {
    case kFloat32:
      return add_elements<float>(to, from, bytes);
    case kFloat16:
      return add_elements<half_t>(to, from, bytes);
    case kBFloat16:
      return add_elements<bfloat16_t>(to, from, bytes);
    case kInt32:
      return add_elements<int>(to, from, bytes);
    default:
      fail("a TMA reduction of data type %d is not emulated", store.map.data_type);
  }
}
inline void complete(const StoreTask &store) {
  if (read_source(store) != store.image) fail("shared memory changed between a TMA store and its wait");
  note_collective_read(store.shared, store.bytes, current, "a TMA store");
  if (!store.tensor) return put(store, store.global, store.image.data(), store.bytes);
  visit_rows(store.map, store.coordinates, [&](size_t row, char *address, size_t first, size_t last) {
    if (!store.add) note_global(address + first, last - first, true, "a TMA store");
    put(store, address + first, &store.image[row + first], last - first);
  });
}

inline Transfer box_transfer(const CUtensorMap &map, const void *shared, int rank, const int *at, const char *what) {
  if (map.rank != rank) fail("%s: %d coordinates for a tensor map of rank %d", what, rank, map.rank);
  Transfer transfer{true, map, {}, nullptr, 0, box_bytes(map)};
  std::copy(at, at + rank, transfer.coordinates);
  transfer.shared = dynamic_number(shared, transfer.bytes, what, 128);
  return transfer;
}
inline Transfer range_transfer(const void *global, const void *shared, unsigned bytes, const char *what) {
  if (bytes % 16 || reinterpret_cast<uintptr_t>(global) % 16)
    fail("%s: %u bytes or the global address are not a multiple of 16", what, bytes);
  char *address = const_cast<char *>(static_cast<const char *>(global));
  return {false, {}, {}, address, dynamic_number(shared, bytes, what, 16), bytes};
}

void tma_load(const CUtensorMap &map, const void *barrier, const void *shared, int rank, const int *coordinates) {
  issue(Load{box_transfer(map, shared, rank, coordinates, "a TMA load"), barrier, {}});
}
void tma_store(const CUtensorMap &map, const void *shared, int rank, const int *coordinates, bool add) {
  issue(StoreTask{box_transfer(map, shared, rank, coordinates, "a TMA store"), add, {}});
}
void bulk_load(const void *shared, const void *global, const void *barrier, unsigned bytes) {
  note_global(global, bytes, false, "a bulk load");
  issue(Load{range_transfer(global, shared, bytes, "a bulk load"), barrier, {}});
}
void bulk_store(void *global, const void *shared, unsigned bytes, bool add) {
  if (add)
    note_atomic(global, int(bytes));
  else
    note_global(global, bytes, true, "a bulk store");
  issue(StoreTask{range_transfer(global, shared, bytes, "a bulk store"), add, {}});
}
void store_commit() {
  StoreQueue &queue = stores[current];
  queue.groups.push_back(std::move(queue.open));
  queue.open.clear();
}
void store_wait(int pending) {
  auto &groups = stores[current].groups;
  for (; static_cast<int>(groups.size()) > pending; groups.pop_front())
    for (const StoreTask &store : groups.front()) complete(store);
}
inline void check_stores_done() {
  if (!stores[current].open.empty() || !stores[current].groups.empty())
    fail("the thread ends with a TMA store that was not committed and waited for");
}

}  // namespace emulator
