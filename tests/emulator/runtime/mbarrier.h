// mbarrier: phases that end when all arrivals are in and all announced bytes have come.
#pragma once
#include <unordered_map>
#include "accesses.h"

namespace emulator {

struct MBarrier {
  int count, pending, agent;
  Clock arriving, completed;  // what this phase's arrivals release; what those who waited for the last phase acquire
  long bytes = 0;             // announced and not yet come
  unsigned phase = 0;
  std::vector<int> waiting;
};
inline std::unordered_map<const void *, MBarrier> mbarriers;

inline MBarrier &mbarrier_at(const void *place) {
  const auto found = mbarriers.find(place);
  if (found == mbarriers.end()) fail("mbarrier at %s used before its init", place_of(place).c_str());
  return found->second;
}

inline void settle(MBarrier &barrier) {
  if (barrier.pending || barrier.bytes) return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  barrier.completed = barrier.arriving;
  barrier.completed[barrier.agent] = barrier.phase;
  wake(barrier.waiting);
}

// Announce bytes (positive), or count those that came (negative).
inline void count_bytes(const void *place, long bytes) {
  MBarrier &barrier = mbarrier_at(place);
  ++progress;
  barrier.bytes += bytes;
  constexpr long limit = (1 << 20) - 1;
  if (barrier.bytes > limit || barrier.bytes < -limit)
    fail("mbarrier at %s: tx-count %ld is out of range", place_of(place).c_str(), barrier.bytes);
  if (bytes < 0) settle(barrier);
}

// try_wait.parity(p) holds once the phase of parity p has ended: a fresh barrier passes parity 1 at once.
inline bool has_passed(const void *place, int parity) {
  return (mbarrier_at(place).phase & 1) != static_cast<unsigned>(parity & 1);
}

void mbarrier_init(const void *place, unsigned count) {
  const Clock nothing(thread_count + kMaxAgents, 0);
  mbarriers[place] = {static_cast<int>(count), static_cast<int>(count), agent_of(place), nothing, nothing};
}
void mbarrier_arrive(const void *place) {
  MBarrier &barrier = mbarrier_at(place);
  ++progress;
  if (barrier.pending < 1)
    fail("mbarrier at %s: more arrivals than its count %d in phase %u", place_of(place).c_str(), barrier.count,
         barrier.phase);
  --barrier.pending;
  join(barrier.arriving, clocks[current]);
  advance(current);
  settle(barrier);
}
void mbarrier_expect(const void *place, unsigned bytes) { count_bytes(place, bytes); }
void mbarrier_wait(const void *place, int parity) {
  if (parity != 0 && parity != 1) fail("mbarrier at %s: parity %d is not 0 or 1", place_of(place).c_str(), parity);
  while (!has_passed(place, parity)) wait_in(mbarrier_at(place).waiting, "mbarrier wait", nullptr, place, parity);
  join(clocks[current], mbarrier_at(place).completed);
}
bool mbarrier_try_wait(const void *place, int parity) {
  const bool passed = has_passed(place, parity);
  if (passed)
    join(clocks[current], mbarrier_at(place).completed);
  else
    spin("loop on mbarrier try_wait");
  return passed;
}

inline void check_mbarriers() {
  for (const auto &[place, barrier] : mbarriers) {
    if (barrier.bytes)
      fail("mbarrier at %s: the block ends with tx-count %ld", place_of(place).c_str(), barrier.bytes);
    else if (barrier.pending != barrier.count)
      fail("mbarrier at %s: the block ends inside phase %u (%d of %d arrivals pending)", place_of(place).c_str(),
           barrier.phase, barrier.pending, barrier.count);
  }
}

}  // namespace emulator
