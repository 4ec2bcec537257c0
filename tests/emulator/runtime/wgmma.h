// WGMMA: a warpgroup multiplies 64 x N tiles asynchronously. From issue to wait its accumulators read as NaN, and its
// operands, in shared memory or in registers, must stay as they were at issue.
#pragma once
#include <array>
#include "elements.h"
#include "layouts.h"
#include "warp.h"

namespace emulator {

constexpr uint32_t kBusy = 0x7fc0dead;  // what an accumulator holds meanwhile
constexpr int kMaxN = 256;

struct Accumulators {  // of a chain of wgmmas in one thread
  uint32_t *registers;
  int count, unfinished;
  std::vector<uint32_t> values;  // the true ones
};
struct SharedOperand {
  uint64_t descriptor;
  bool mn_major;
  int rows, k, width;
  std::vector<unsigned char> bytes;  // as read at issue, row by row
  std::vector<size_t> chunks;        // of 16 bytes, that it lies in
};
struct RegisterOperand {
  const uint32_t *registers;
  std::array<uint32_t, 4> values;
};
struct Wgmma {
  std::vector<SharedOperand> shared;
  std::vector<RegisterOperand> registers;
  std::array<uint32_t *, 128> accumulators;
};
struct Warpgroup {
  Rendezvous place;
  std::vector<Wgmma> open;
  std::deque<std::vector<Wgmma>> groups;
};
struct WgmmaArguments {
  uint64_t a, b;
  const uint32_t *a_registers;
  uint32_t *accumulators;
  int accumulate;
};
inline Warpgroup warpgroups[kMaxThreads / 128];
inline std::vector<Accumulators> accumulators_of[kMaxThreads];
inline WgmmaArguments wgmma_arguments[kMaxThreads];
inline bool fenced[kMaxThreads];  // wgmma.fence since the last wait

inline void reset_wgmma() {
  for (Warpgroup &group : warpgroups) group = {};
  for (auto &chains : accumulators_of) chains.clear();
  std::fill(std::begin(fenced), std::end(fenced), false);
}
inline void check_wgmma_done() {
  if (!accumulators_of[current].empty()) fail("the thread ends with a wgmma that was not waited for");
}

inline std::vector<unsigned char> read_operand(const SharedOperand &operand) {
  std::vector<unsigned char> bytes(size_t(operand.rows) * operand.k * operand.width);
  unsigned char *to = bytes.data();
  for (int row = 0; row < operand.rows; row++)
    for (int k = 0; k < operand.k; k++, to += operand.width) {
      const size_t at = operand_address(operand.descriptor, operand.mn_major, row, k, operand.width);
      memcpy(to, dynamic_memory + at, operand.width);
    }
  return bytes;
}

// The chunks of shared memory that an operand lies in, each once.
inline std::vector<size_t> chunks_of(const SharedOperand &operand) {
  static std::vector<uint32_t> seen(kMaxDynamic / kChunk);
  static uint32_t visit;
  ++visit;
  std::vector<size_t> chunks;
  if (operand.descriptor & 0xc000) fail("a wgmma descriptor's start address overflows its 14 bits");
  for (int row = 0; row < operand.rows; row++)
    for (int k = 0; k < operand.k; k++) {
      const size_t at = operand_address(operand.descriptor, operand.mn_major, row, k, operand.width);
      if (at + operand.width > dynamic_bytes)
        fail("wgmma reads dynamic shared byte %zu, of which there are %zu", at, dynamic_bytes);
      if (seen[at / kChunk] != visit) chunks.push_back(at / kChunk);
      seen[at / kChunk] = visit;
    }
  return chunks;
}

// Until it retires, a wgmma may read at any time.
inline void mark_reads(const SharedOperand &operand, int group, bool finished) {
  for (size_t chunk : operand.chunks)
    for (int w = 4 * group; w < 4 * group + 4; w++)
      collective_reads[chunk][w] = finished ? now(32 * w).time : kUnfinished;
}

inline SharedOperand issue_operand(uint64_t descriptor, bool mn_major, int rows, int k, int width, int group) {
  SharedOperand operand{descriptor, mn_major, rows, k, width, {}, {}};
  operand.chunks = chunks_of(operand);
  for (size_t chunk : operand.chunks) {
    for (int w = 4 * group; w < 4 * group + 4; w++) check_written(kChunk * chunk, kChunk, 32 * w, "wgmma's read");
    check_fenced(kChunk * chunk, kChunk, "wgmma's read");
  }
  operand.bytes = read_operand(operand);
  mark_reads(operand, group, false);
  return operand;
}

inline Accumulators &chain_of(int thread, uint32_t *registers, int count) {
  for (Accumulators &chain : accumulators_of[thread]) {
    if (chain.registers == registers && chain.count == count) {
      for (int i = 0; i < count; i++)
        if (registers[i] != kBusy) fail("accumulator %d of thread %d written while its wgmma is in flight", i, thread);
      return chain;
    }
    if (registers < chain.registers + chain.count && chain.registers < registers + count)
      fail("unfinished wgmmas have overlapping accumulators");
  }
  if (!fenced[thread]) fail("wgmma on new accumulators without wgmma.fence in thread %d", thread);
  accumulators_of[thread].push_back({registers, count, 0, std::vector<uint32_t>(registers, registers + count)});
  std::fill(registers, registers + count, kBusy);
  return accumulators_of[thread].back();
}

// The matrices of one instruction, as numbers.
template <class V>
struct Tiles {
  V a[64][32], b[32][kMaxN], d[64][kMaxN];
};

template <class A, class V>
void take_a(Tiles<V> &tiles, Wgmma &task, const WarpgroupInstruction &op, int group, bool from_registers) {
  using Storage = typename A::Storage;
  constexpr int E = 4 / sizeof(Storage), K = 32 / sizeof(Storage);
  const WgmmaArguments *arguments = wgmma_arguments + group * 128;
  if (!from_registers) {
    task.shared.push_back(issue_operand(arguments[0].a, op.a_mn_major, 64, K, sizeof(Storage), group));
    const auto *from = reinterpret_cast<const Storage *>(task.shared.back().bytes.data());
    for (int row = 0; row < 64; row++)
      for (int k = 0; k < K; k++) tiles.a[row][k] = A::get(*from++);
    return;
  }
  for (int t = 0; t < 128; t++) {
    RegisterOperand operand{arguments[t].a_registers, {}};
    memcpy(operand.values.data(), operand.registers, 16);
    const auto *from = reinterpret_cast<const Storage *>(operand.values.data());
    for (int j = 0; j < 4; j++)
      for (int e = 0; e < E; e++)
        tiles.a[t / 32 * 16 + a_row(t % 32, j)][a_k(t % 32, j, e, E)] = A::get(from[j * E + e]);
    task.registers.push_back(operand);
  }
}

template <class B, class V>
void take_b(Tiles<V> &tiles, Wgmma &task, const WarpgroupInstruction &op, int group) {
  using Storage = typename B::Storage;
  constexpr int K = 32 / sizeof(Storage);
  task.shared.push_back(issue_operand(wgmma_arguments[group * 128].b, op.b_mn_major, op.n, K, sizeof(Storage), group));
  const auto *from = reinterpret_cast<const Storage *>(task.shared.back().bytes.data());
  for (int n = 0; n < op.n; n++)
    for (int k = 0; k < K; k++) tiles.b[k][n] = B::get(*from++);
}

// D = ±A B + (accumulate ? D : 0), where D is spread over the accumulators of the group's threads.
template <class V>
void multiply(Tiles<V> &tiles, Wgmma &task, const WarpgroupInstruction &op, int group) {
  const bool half = op.c == DataType::kFloat16;
  const int first = group * 128, registers = half ? op.n / 4 : op.n / 2;
  const WgmmaArguments *arguments = wgmma_arguments + first;
  const auto each_element = [&](auto f) {
    for (int t = 0; t < 128; t++) {
      Accumulators &chain = chain_of(first + t, arguments[t].accumulators, registers);
      for (int i = 0; i < op.n / 2; i++)
        f(chain.values.data(), i, tiles.d[t / 32 * 16 + c_row(t % 32, i % 4)][i / 4 * 8 + c_column(t % 32, i % 4)]);
    }
  };
  each_element([&](const uint32_t *values, int i, V &element) {
    element = arguments[0].accumulate ? read_accumulator<V>(values, i, half) : V(0);
  });
  const V sign = V(op.sign_a * op.sign_b);
  for (int row = 0; row < 64; row++)
    for (int k = 0; k < op.k; k++) {
      const V factor = tiles.a[row][k] * sign;
      for (int n = 0; n < op.n; n++) tiles.d[row][n] += factor * tiles.b[k][n];
    }
  each_element([&](uint32_t *values, int i, const V &element) { write_accumulator(values, i, half, element); });
  for (int t = 0; t < 128; t++) {
    task.accumulators[t] = arguments[t].accumulators;
    chain_of(first + t, arguments[t].accumulators, registers).unfinished++;
  }
}

void wgmma(const WarpgroupInstruction &op, uint64_t a, const uint32_t *a_registers, uint64_t b, uint32_t *accumulators,
           int accumulate) {
  const int group = current / 128;
  const bool from_registers = a_registers != nullptr;
  if (op.n % 8 || op.n > kMaxN) fail("wgmma with n = %d", op.n);
  settle_suspicion();
  wgmma_arguments[current] = {a, b, a_registers, accumulators, accumulate};
  meet(warpgroups[group].place, 128, from_registers ? "wgmma from registers" : "wgmma", [&op, group, from_registers] {
    const WgmmaArguments *all = wgmma_arguments + group * 128;
    for (int t = 1; t < 128; t++)
      if (all[t].b != all[0].b || all[t].accumulate != all[0].accumulate || (!from_registers && all[t].a != all[0].a))
        fail("the threads of warpgroup %d give different wgmma descriptors", group);
    with_elements(op.a, op.b, "wgmma", [&](auto element_a, auto element_b) {
      using A = decltype(element_a);
      if (op.k != 32 / int(sizeof(typename A::Storage))) fail("wgmma with k = %d", op.k);
      static Tiles<typename A::Value> tiles;
      Wgmma task;
      take_a<A>(tiles, task, op, group, from_registers);
      take_b<decltype(element_b)>(tiles, task, op, group);
      multiply(tiles, task, op, group);
      warpgroups[group].open.push_back(std::move(task));
    });
  });
}

inline void retire(int group, const Wgmma &task) {
  for (const SharedOperand &operand : task.shared) {
    if (read_operand(operand) != operand.bytes)
      fail("a shared operand of warpgroup %d's wgmma changed before its wait", group);
    mark_reads(operand, group, true);
  }
  for (const RegisterOperand &operand : task.registers)
    if (memcmp(operand.registers, operand.values.data(), 16))
      fail("A's registers of warpgroup %d's wgmma changed before its wait", group);
  for (int t = 0; t < 128; t++) {
    auto &chains = accumulators_of[group * 128 + t];
    const auto chain = std::find_if(chains.begin(), chains.end(),
                                    [&](const Accumulators &one) { return one.registers == task.accumulators[t]; });
    if (--chain->unfinished) continue;
    for (int i = 0; i < chain->count; i++)
      if (chain->registers[i] != kBusy)
        fail("accumulator %d of thread %d written before its wgmma's wait", i, group * 128 + t);
    std::copy(chain->values.begin(), chain->values.end(), chain->registers);
    chains.erase(chain);
  }
}

uint64_t wgmma_descriptor(const void *shared, int layout, int leading, int stride) {
  const uint64_t start = dynamic_number(shared, 16, "a wgmma descriptor", 16) >> 4;
  return (start & 0x3fff) | uint64_t(leading & 0x3fff) << 16 | uint64_t(stride & 0x3fff) << 32 | uint64_t(layout) << 62;
}
void wgmma_fence() { fenced[current] = true; }
void wgmma_commit() {
  const int group = current / 128;
  meet(warpgroups[group].place, 128, "wgmma.commit_group", [group] {
    warpgroups[group].groups.push_back(std::move(warpgroups[group].open));
    warpgroups[group].open.clear();
  });
}
void wgmma_wait(int pending) {
  const int group = current / 128;
  fenced[current] = false;
  meet(warpgroups[group].place, 128, "wgmma.wait_group", [group, pending] {
    Warpgroup &own = warpgroups[group];
    for (; static_cast<int>(own.groups.size()) > pending; own.groups.pop_front())
      for (const Wgmma &task : own.groups.front()) retire(group, task);
    const auto mark = [group](const std::vector<Wgmma> &tasks) {
      for (const Wgmma &task : tasks)
        for (const SharedOperand &operand : task.shared) mark_reads(operand, group, false);
    };
    for (const auto &tasks : own.groups) mark(tasks);
    mark(own.open);
  });
}

}  // namespace emulator
