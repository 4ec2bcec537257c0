// cp.async: copies of 4, 8 or 16 bytes by one thread. The destination is undefined until the thread has waited.
#pragma once
#include "mbarrier.h"

namespace emulator {

struct Copy {
  void *shared;
  const void *global;
  int bytes;
  bool copy;  // false: fill with zeros
};
struct CopyQueue {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};
inline CopyQueue copies[kMaxThreads];

inline void reset_cp_async() {
  for (int i = 0; i < thread_count; i++) {
    copies[i].open.clear();
    copies[i].groups.clear();
  }
}
inline void complete(const Copy &copy) {
  if (copy.copy)
    memcpy(copy.shared, copy.global, copy.bytes);
  else
    memset(copy.shared, 0, copy.bytes);
}

void cp_async(void *shared, const void *global, int bytes, bool copy) {
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("cp.async of %d bytes", bytes);
  settle_suspicion();
  note_write(dynamic_number(shared, bytes, "cp.async", bytes), bytes, current);
  if (reinterpret_cast<uintptr_t>(global) % bytes && copy) fail("cp.async: the source is not aligned to %d", bytes);
  if (copy) note_global(global, bytes, false, "cp.async");
  const Copy task{shared, global, bytes, copy};
  if (options.arrival == Arrival::kEarly) return complete(task);
  memset(shared, kPoison, bytes);
  copies[current].open.push_back(task);
}
void cp_async_commit() {
  CopyQueue &queue = copies[current];
  queue.groups.push_back(std::move(queue.open));
  queue.open.clear();
}
void cp_async_wait(int pending) {
  auto &groups = copies[current].groups;
  for (; static_cast<int>(groups.size()) > pending; groups.pop_front())
    for (const Copy &copy : groups.front()) complete(copy);
}
// cp.async.mbarrier.arrive.noinc: the arrival happens when the thread's earlier copies are done.
void cp_async_arrive(const void *barrier) {
  cp_async_commit();
  cp_async_wait(0);
  mbarrier_arrive(barrier);
}

}  // namespace emulator
