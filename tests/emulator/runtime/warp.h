// Barriers of a block and of a warp, and what the lanes of a warp do together: votes, shuffles, ldmatrix, stmatrix.
#pragma once
#include <cstring>
#include "accesses.h"

namespace emulator {

inline Rendezvous warps[kMaxThreads / 32], named_barriers[16];
inline unsigned registers_of[kMaxThreads / 128];  // setmaxnreg of each warpgroup; 0: not used

struct LaneSlot {  // what a lane brings to a collective, and what it takes away
  uint64_t in, out;
  const void *first, *second;
  void *result;
};
inline LaneSlot slots[kMaxThreads];
inline LaneSlot *warp_slots() { return slots + warp() * 32; }

inline void reset_warps() {
  for (Rendezvous &place : warps) place = {};
  for (Rendezvous &place : named_barriers) place = {};
  for (unsigned &count : registers_of) count = 0;
}

inline void barrier(Rendezvous &place, int count, const char *name, bool wait = true) {
  const auto order = [&place, wait] {
    std::vector<int> waiting = place.waiting;
    if (wait) waiting.push_back(current);
    synchronise(place.arrived, waiting);
  };
  settle_suspicion();
  meet(place, count, name, order, wait);
}
void sync_threads() { barrier(named_barriers[0], thread_count, "__syncthreads"); }
void sync_warp() { barrier(warps[warp()], warp_threads(), "__syncwarp"); }
void named_barrier(int number, int count, bool wait) {
  static const char *names[16] = {"barrier 0",  "barrier 1",  "barrier 2",  "barrier 3", "barrier 4",  "barrier 5",
                                  "barrier 6",  "barrier 7",  "barrier 8",  "barrier 9", "barrier 10", "barrier 11",
                                  "barrier 12", "barrier 13", "barrier 14", "barrier 15"};
  if (number < 0 || number > 15 || count % 32 || count <= 0 || count > thread_count)
    fail("barrier %d for %d threads is invalid in a block of %d", number, count, thread_count);
  barrier(named_barriers[number], count, names[number], wait);
}

// One thread of every `group_threads`, or of the block where that is 0. elect.sync picks lane 0; its member mask being
// the whole warp, it keeps the lanes together: a lane that ran ahead of its warp could miss phases of an mbarrier.
bool elect(int group_threads) {
  meet(warps[warp()], warp_threads(), "elect.sync", [] {});
  if (group_threads == 0) return current == 0;
  return lane() == 0 && warp() % std::max(1, (group_threads + 31) / 32) == 0;
}

void set_registers(unsigned count) { registers_of[current / 128] = count; }
inline void check_registers() {
  unsigned total = 0;
  for (int group = 0; group * 128 < thread_count; group++) {
    if (!registers_of[group]) return;
    total += registers_of[group] * 128;
  }
  if (total > 65536) fail("setmaxnreg asks for %u registers of 65536", total);
}

template <class F>
uint64_t shuffle(uint64_t value, const char *operation, F source) {
  LaneSlot *lanes = warp_slots();
  const int own = lane(), count = warp_threads();
  lanes[own].in = value;
  meet(warps[warp()], count, operation, [=] {
    for (int i = 0; i < count; i++) {
      const int from = source(i);
      lanes[i].out = lanes[from >= 0 && from < count ? from : i].in;
    }
  });
  return lanes[own].out;
}
uint64_t shuffle_xor(uint64_t value, int mask, int width) {
  return shuffle(value, "shfl.bfly", [=](int i) { return (i ^ mask) / width == i / width ? i ^ mask : i; });
}
uint64_t shuffle_up(uint64_t value, int delta, int width) {
  return shuffle(value, "shfl.up", [=](int i) { return i % width >= delta ? i - delta : i; });
}
uint64_t shuffle_down(uint64_t value, int delta, int width) {
  return shuffle(value, "shfl.down", [=](int i) { return i % width + delta < width ? i + delta : i; });
}
uint64_t shuffle_index(uint64_t value, int source, int width) {
  LaneSlot *lanes = warp_slots();
  lanes[lane()].first = reinterpret_cast<const void *>(static_cast<intptr_t>(source));
  return shuffle(value, "shfl.idx", [=](int i) {
    return i / width * width + static_cast<int>(reinterpret_cast<intptr_t>(lanes[i].first)) % width;
  });
}
unsigned active_lanes() { return warp_threads() == 32 ? ~0u : (1u << warp_threads()) - 1; }
unsigned ballot(bool predicate) {
  LaneSlot *lanes = warp_slots();
  const int own = lane(), count = warp_threads();
  lanes[own].in = predicate;
  meet(warps[warp()], count, "vote", [=] {
    uint64_t votes = 0;
    for (int i = 0; i < count; i++) votes |= lanes[i].in << i;
    for (int i = 0; i < count; i++) lanes[i].out = votes;
  });
  return static_cast<unsigned>(lanes[own].out);
}

// 8 x 8 matrices of 16 bits: row r of matrix m is at the address that lane 8m + r gives; lane L holds columns 2 (L % 4)
// and the next of row L / 4, or with `transposed` those rows of that column.
inline void move_matrices(const void *row, void *registers, int count, bool transposed, bool is_load) {
  const char *operation = is_load ? "ldmatrix" : "stmatrix";
  LaneSlot *lanes = warp_slots();
  settle_suspicion();
  lanes[lane()].first = row;
  lanes[lane()].result = registers;
  if (lane() < 8 * count) dynamic_number(row, 16, operation, 16);
  meet(warps[warp()], 32, operation, [=] {
    for (int L = 0; L < 8 * count; L++) {
      const size_t number = byte_number(lanes[L].first);
      if (is_load)
        note_collective_read(number, 16, warp() * 32 + L, operation);
      else
        note_write(number, 16, warp() * 32 + L);
      if (suspicion.address) fail("%s", suspicion.report.c_str());
    }
    for (int L = 0; L < 32; L++)
      for (int m = 0; m < count; m++)
        for (int e = 0; e < 2; e++) {
          const int r = transposed ? 2 * (L % 4) + e : L / 4, c = transposed ? L / 4 : 2 * (L % 4) + e;
          auto *memory = static_cast<uint16_t *>(const_cast<void *>(lanes[8 * m + r].first)) + c;
          auto *element = static_cast<uint16_t *>(lanes[L].result) + 2 * m + e;
          (is_load ? *element : *memory) = is_load ? *memory : *element;
        }
  });
}
void load_matrices(const void *row, void *registers, int count, bool transposed) {
  move_matrices(row, registers, count, transposed, true);
}
void store_matrices(const void *row, const void *registers, int count, bool transposed) {
  move_matrices(row, const_cast<void *>(registers), count, transposed, false);
}

}  // namespace emulator
