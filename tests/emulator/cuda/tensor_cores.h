// mma.sync and WGMMA under TileLang's names.
#pragma once
#include "warp.h"

namespace tl {
template <DataType A, DataType B, DataType C, int M, int N, int K, bool a_transposed, bool b_transposed, class... Rest>
void mma_sync(void *c, const void *a, const void *b) {
  emulator::mma_sync({A, B, C, M, N, K}, c, a, b);
}

union GmmaDescriptor {
  uint64_t desc_ = 0;
  uint32_t reg32_[2];
  operator uint64_t() const { return desc_; }
  template <class T>
  GmmaDescriptor operator+(const T &offset) const {
    GmmaDescriptor sum;
    sum.desc_ = desc_;
    sum.reg32_[0] += uint32_t(offset);
    return sum;
  }
};
template <int layout, int leading, int stride, class T>
void initialize_wgmma_descriptor(GmmaDescriptor &descriptor, T *shared) {
  descriptor.desc_ = emulator::wgmma_descriptor(shared, layout, leading, stride);
}
template <class T>
void increase_descriptor_offset(GmmaDescriptor &descriptor, T bytes) {
  descriptor.reg32_[0] += uint32_t(bytes >> 4);
}

template <DataType A, DataType B, DataType C, int M, int N, int K, bool a_mn, bool b_mn, int sign_a, int sign_b>
void wgmma_ss(uint64_t a, uint64_t b, uint32_t *accumulators, int accumulate) {
  static_assert(M == 64);
  emulator::wgmma({A, B, C, N, K, a_mn, b_mn, sign_a, sign_b}, a, nullptr, b, accumulators, accumulate);
}
template <DataType A, DataType B, DataType C, int M, int N, int K, bool a_mn, bool b_mn, int sign_a, int sign_b>
void wgmma_rs(const uint32_t *a, uint64_t b, uint32_t *accumulators, int accumulate) {
  static_assert(M == 64 && !a_mn);
  emulator::wgmma({A, B, C, N, K, false, b_mn, sign_a, sign_b}, 0, a, b, accumulators, accumulate);
}
inline void warpgroup_arrive() { emulator::wgmma_fence(); }
inline void warpgroup_commit_batch() { emulator::wgmma_commit(); }
template <int pending>
void warpgroup_wait() {
  emulator::wgmma_wait(pending);
}
template <int pending>
void wait_wgmma() {
  emulator::wgmma_wait(pending);
}
inline void warpgroup_fence_operand(uint32_t *, int) {}
inline void warpgroup_fence_operand(float *, int) {}
}  // namespace tl
