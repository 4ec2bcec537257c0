// mma.sync: a 16 x 8 tile by one warp.
#pragma once
#include "elements.h"
#include "layouts.h"
#include "warp.h"

namespace emulator {

constexpr int kMaxK = 64;

template <class A, class B>
void multiply_tile(const LaneSlot *lanes, int k_extent, bool half) {
  using V = typename A::Value;
  using Storage = typename A::Storage;
  constexpr int E = 4 / sizeof(Storage);
  const int registers = k_extent / (4 * E);  // of B; A has twice as many
  V a[16][kMaxK], b[kMaxK][8];
  for (int L = 0; L < 32; L++) {
    const auto *from_a = static_cast<const Storage *>(lanes[L].first);
    const auto *from_b = static_cast<const typename B::Storage *>(lanes[L].second);
    for (int j = 0; j < 2 * registers; j++)
      for (int e = 0; e < E; e++) a[a_row(L, j)][a_k(L, j, e, E)] = A::get(from_a[j * E + e]);
    for (int j = 0; j < registers; j++)
      for (int e = 0; e < E; e++) b[b_k(L, j, e, E)][b_column(L)] = B::get(from_b[j * E + e]);
  }
  for (int L = 0; L < 32; L++)
    for (int i = 0; i < 4; i++) {
      V sum = read_accumulator<V>(lanes[L].result, i, half);
      for (int k = 0; k < k_extent; k++) sum += a[c_row(L, i)][k] * b[k][c_column(L, i)];
      write_accumulator(lanes[L].result, i, half, sum);
    }
}

void mma_sync(const Instruction &instruction, void *c, const void *a, const void *b) {
  const bool half = instruction.c == DataType::kFloat16;
  if (instruction.m != 16 || instruction.n != 8 || instruction.k > kMaxK)
    fail("mma.sync m%dn%dk%d is not emulated", instruction.m, instruction.n, instruction.k);
  if (!half && instruction.c != DataType::kFloat32 && instruction.c != DataType::kInt32)
    fail("mma.sync with accumulators of data type %d is not emulated", static_cast<int>(instruction.c));
  LaneSlot *lanes = warp_slots();
  lanes[lane()].first = a;
  lanes[lane()].second = b;
  lanes[lane()].result = c;
  meet(warps[warp()], 32, "mma.sync", [&] {
    with_elements(instruction.a, instruction.b, "mma.sync", [&](auto element_a, auto element_b) {
      multiply_tile<decltype(element_a), decltype(element_b)>(lanes, instruction.k, half);
    });
  });
}

}  // namespace emulator
