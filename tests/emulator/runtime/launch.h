// Running a grid: blocks one after another, the threads of a block as fibers.
#pragma once
#include "cp_async.h"
#include "mma.h"
#include "tma.h"
#include "wgmma.h"

namespace emulator {

inline void **arguments_now;

inline std::string thread_ranges(const std::vector<int> &numbers) {
  std::string text;
  for (size_t i = 0, j; i < numbers.size() && text.size() < 400; i = j + 1) {
    for (j = i; j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1; j++) {
    }
    text += " " + std::to_string(numbers[i]) + (j > i ? "-" + std::to_string(numbers[j]) : "");
  }
  return text;
}

// One line for each thing that threads wait for.
inline std::string describe_waits() {
  std::map<std::string, std::vector<int>> waits;
  for (int i = 0; i < thread_count; i++) {
    const Thread &thread = threads[i];
    if (thread.done) continue;
    char text[200];
    if (thread.barrier) {
      const MBarrier &barrier = mbarriers[thread.barrier];
      snprintf(text, sizeof text, "mbarrier at %s, parity %d (phase %u, %d of %d arrivals pending, tx-count %ld)",
               place_of(thread.barrier).c_str(), thread.parity, barrier.phase, barrier.pending, barrier.count,
               barrier.bytes);
    } else if (thread.rendezvous) {
      snprintf(text, sizeof text, "%s (%d of %d arrived)", thread.waits_for, int(thread.rendezvous->arrived.size()),
               thread.rendezvous->expected);
    } else {
      snprintf(text, sizeof text, "%s", thread.waits_for ? thread.waits_for : "nothing");
    }
    waits[text].push_back(i);
  }
  std::string lines;
  for (const auto &[reason, numbers] : waits) lines += "\n  threads" + thread_ranges(numbers) + " wait for " + reason;
  return lines;
}

inline void thread_main() {
  kernel_now.body(arguments_now);
  check_stores_done();
  check_wgmma_done();
  threads[current].done = true;
  --alive;
  ++progress;
  for (;;) suspend();
}

inline void start_block() {
  ready.clear();
  spinning.clear();
  mbarriers.clear();
  poison_shared();
  reset_clocks();
  reset_races();
  reset_tma();
  reset_cp_async();
  reset_warps();
  reset_wgmma();
  alive = thread_count;
  for (int i = 0; i < thread_count; i++) {
    threads[i].done = false;
    threads[i].waits_for = nullptr;
    threads[i].fiber.prepare(thread_main);
    ready.push_back(i);
  }
}

inline void run_block() {
  start_block();
  uint64_t seen = ~uint64_t{0};
  while (error.empty() && (alive || !loads.empty())) {
    if (options.arrival == Arrival::kRandom && !loads.empty() && random_number() % 64 == 0) arrive_next();
    if (!ready.empty()) {
      run_thread(take_ready());
      settle_suspicion();
    } else if (!loads.empty()) {
      arrive_next();
    } else if (!spinning.empty() && progress != seen) {
      seen = progress;
      ready.swap(spinning);
    } else {
      fail("deadlock, %d threads alive:%s", alive, describe_waits().c_str());
    }
  }
  if (!error.empty()) return;
  check_mbarriers();
  check_registers();
}

// Returns 0, or 1 with the reason in `error`.
int launch(const Kernel &kernel, void **arguments, const int *grid, const int *block, size_t bytes) {
  error.clear();
  error_offset = 0;
  kernel_now = kernel;
  arguments_now = arguments;
  dynamic_bytes = bytes;
  random_state = options.seed * 2654435761u + 1;
  thread_count = block[0] * block[1] * block[2];
  block_size = {unsigned(block[0]), unsigned(block[1]), unsigned(block[2])};
  grid_size = {unsigned(grid[0]), unsigned(grid[1]), unsigned(grid[2])};
  block_now = {0, 0, 0};
  for (auto &[begin, array] : global_arrays) array.touched = false;
  if (thread_count < 1 || thread_count > kMaxThreads) fail("%d threads in a block", thread_count);
  if (bytes > kMaxDynamic) fail("%zu bytes of dynamic shared memory; %zu is the most", bytes, kMaxDynamic);
  const unsigned all = grid_size.x * grid_size.y * grid_size.z;
  const unsigned blocks = chosen_blocks.empty() ? all : chosen_blocks.size();
  for (unsigned i = 0; i < blocks && error.empty(); i++) {
    const unsigned k = options.reversed_blocks ? blocks - 1 - i : i;
    const unsigned n = chosen_blocks.empty() ? k : chosen_blocks[k];
    if (n >= all) return fail("block number %u of %u", n, all), 1;
    block_now = {n % grid_size.x, n / grid_size.x % grid_size.y, n / grid_size.x / grid_size.y};
    run_block();
  }
  return !error.empty();
}

}  // namespace emulator
