// Who is ordered after whom: vector clocks (C. Flanagan, S. Freund: FastTrack, PLDI 2009). Barriers, mbarriers and warp
// barriers order; shuffles, votes and mma.sync don't.
#pragma once
#include <unordered_map>
#include "scheduler.h"

namespace emulator {

// Beside the threads, each mbarrier is an agent: what TMA writes is done in its name, and its clock counts the phases.
constexpr int kMaxAgents = 64;
using Clock = std::vector<uint32_t>;
struct Epoch {  // a moment of one thread or agent; time 0 is before everything
  uint32_t time = 0;
  uint16_t owner = 0;
};

inline std::vector<Clock> clocks;  // of each thread
inline std::unordered_map<const void *, int> agents;

inline void reset_clocks() {
  agents.clear();
  clocks.assign(thread_count, Clock(thread_count + kMaxAgents, 0));
  for (int i = 0; i < thread_count; i++) clocks[i][i] = 1;
}
inline void join(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); i++) clock[i] = std::max(clock[i], other[i]);
}
inline bool is_before(Epoch epoch, int thread) { return epoch.time <= clocks[thread][epoch.owner]; }
inline Epoch now(int thread) { return {clocks[thread][thread], uint16_t(thread)}; }

// What follows in this thread isn't ordered before those who acquire what it released so far.
inline void advance(int thread) { clocks[thread][thread]++; }

// A barrier: everything before it, in threads that arrive, is before everything after it, in threads that wait.
inline void synchronise(const std::vector<int> &arrived, const std::vector<int> &waiting) {
  Clock joined(thread_count + kMaxAgents, 0);
  for (int thread : arrived) join(joined, clocks[thread]);
  for (int thread : waiting) {
    const uint32_t own = joined[thread];
    clocks[thread] = joined;
    clocks[thread][thread] = own;
  }
  for (int thread : arrived) advance(thread);
}

inline int agent_of(const void *barrier) {
  const auto [found, is_new] = agents.try_emplace(barrier, thread_count + int(agents.size()));
  if (is_new && agents.size() > kMaxAgents) fail("more than %d mbarriers are not emulated", kMaxAgents);
  return found->second;
}
inline std::string name_of(uint16_t owner) {
  return owner < thread_count ? "thread " + std::to_string(owner) : "a TMA load";
}

}  // namespace emulator
