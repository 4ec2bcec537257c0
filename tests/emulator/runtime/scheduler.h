// Who runs next, who waits for whom, and how an error ends a run.
#pragma once
#include <execinfo.h>
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <vector>
#include "fibers.h"
#include "interface.h"

namespace emulator {

constexpr int kMaxThreads = 1024;

enum class Arrival { kEarly, kLate, kRandom, kNewest };  // at issue; when nothing can run (oldest, any, newest first)
enum class Order { kRoundRobin, kRandom, kLowest, kHighest };

struct Options {
  Arrival arrival = Arrival::kLate;
  Order order = Order::kRoundRobin;
  bool reversed_blocks = false;
  unsigned seed = 0;
};

struct Rendezvous {
  std::vector<int> arrived, waiting;  // those that arrive without waiting are in the first alone
  int expected = 0;
  const char *operation = "";
};

struct Thread {
  Fiber fiber;
  bool done = true;
  const char *waits_for = nullptr;         // for the report of a deadlock
  const Rendezvous *rendezvous = nullptr;  // where it waits for other threads
  const void *barrier = nullptr;           // where it waits for an mbarrier
  int parity = 0;
};

inline Options options;
inline std::vector<unsigned> chosen_blocks;  // the next launch's: numbers, x fastest; none for all
inline Thread threads[kMaxThreads];
inline int current, thread_count, alive;
inline bool in_kernel;
inline Dimensions block_now, block_size, grid_size;
inline std::deque<int> ready, spinning;
inline uint64_t progress;  // grows with everything that may let a spinning thread go on
inline std::string error;
inline size_t error_offset;  // of the place in the kernel's object; 0: not known
inline Kernel kernel_now;

inline unsigned random_state;
inline unsigned random_number() {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

inline void suspend() { threads[current].fiber.suspend(); }

// The innermost return address that lies in the kernel's object.
inline size_t kernel_offset() {
  void *addresses[32];
  const int depth = backtrace(addresses, 32);
  for (int i = 0; i < depth; i++) {
    const auto *address = static_cast<const unsigned char *>(addresses[i]);
    if (address > kernel_now.image_begin && address < kernel_now.image_end) return address - 1 - kernel_now.image_begin;
  }
  return 0;
}

// Keep the first error. A kernel's thread is never resumed after it; the scheduler sees the error and ends the block.
void fail(const char *format, ...) {
  if (error.empty()) {
    char text[2048];
    const int n = in_kernel ? snprintf(text, 128, "block (%u, %u, %u), thread %d: ", block_now.x, block_now.y,
                                       block_now.z, current)
                            : snprintf(text, 128, "block (%u, %u, %u): ", block_now.x, block_now.y, block_now.z);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + n, sizeof text - n, format, arguments);
    va_end(arguments);
    error = text;
    error_offset = in_kernel ? kernel_offset() : 0;
  }
  while (in_kernel) suspend();
}

// Suspend the current thread until somebody wakes `list`.
inline void wait_in(std::vector<int> &list, const char *why, const Rendezvous *rendezvous,
                    const void *barrier = nullptr, int parity = 0) {
  Thread &thread = threads[current];
  thread.waits_for = why;
  thread.rendezvous = rendezvous;
  thread.barrier = barrier;
  thread.parity = parity;
  list.push_back(current);
  suspend();
}

inline void wake(std::vector<int> &list) {
  ++progress;
  for (int thread : list) ready.push_back(thread);
  list.clear();
}

// Let others run; come back once something has happened.
inline void spin(const char *why) {
  Thread &thread = threads[current];
  thread.waits_for = why;
  thread.rendezvous = nullptr;
  thread.barrier = nullptr;
  spinning.push_back(current);
  suspend();
}

// `expected` threads call meet(); the last to arrive runs `together` for all of them, before any goes on.
template <class F>
void meet(Rendezvous &place, int expected, const char *operation, F together, bool wait = true) {
  if (place.arrived.empty()) {
    place.operation = operation;
    place.expected = expected;
  } else if (place.expected != expected) {
    fail("%s for %d threads meets one for %d", operation, expected, place.expected);
  } else if (place.operation != operation && std::string(place.operation) != operation) {
    fail("%s meets threads that are in %s", operation, place.operation);
  }
  place.arrived.push_back(current);
  if (static_cast<int>(place.arrived.size()) == expected) {
    together();
    place.arrived.clear();
    wake(place.waiting);
  } else if (wait) {
    wait_in(place.waiting, operation, &place);
  }
}

inline int take_ready() {
  size_t k = 0;
  switch (options.order) {
    case Order::kRoundRobin:
      break;
    case Order::kRandom:
      k = random_number() % ready.size();
      break;
    case Order::kLowest:
      k = std::min_element(ready.begin(), ready.end()) - ready.begin();
      break;
    case Order::kHighest:
      k = std::max_element(ready.begin(), ready.end()) - ready.begin();
      break;
  }
  const int thread = ready[k];
  if (k) std::swap(ready[k], ready.front());
  ready.pop_front();
  return thread;
}

inline void run_thread(int thread) {
  current = thread;
  in_kernel = true;
  threads[thread].fiber.resume();
  in_kernel = false;
}

// ---- what kernels ask about themselves
int thread_number() { return current; }
Dimensions thread_index() {
  const unsigned n = current;
  if (n < block_size.x) return {n, 0, 0};
  return {n % block_size.x, n / block_size.x % block_size.y, n / block_size.x / block_size.y};
}
Dimensions block_index() { return block_now; }
Dimensions block_extent() { return block_size; }
Dimensions grid_extent() { return grid_size; }
inline int warp_threads() { return std::min(32, thread_count - warp() * 32); }

}  // namespace emulator
