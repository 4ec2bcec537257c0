// Where elements lie in shared memory and in registers: the layouts of TMA, WGMMA, mma.sync and ldmatrix.
// Source: PTX ISA 8.8, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and "Matrix Fragments for mma".
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

// Swizzling is a function of the address bits, so the pattern repeats every 256 << mode bytes: the 16-byte chunk
// index (bits 4 and up) is XORed with the index of the 128-byte row (bits 7 and up). Mode: 0 none, 1 32B, 2 64B, 3
// 128B.
inline size_t swizzle(size_t address, int mode) {
  return mode ? address ^ (((address >> 7) & ((1u << mode) - 1)) << 4) : address;
}

// The fields of a WGMMA shared-memory descriptor, in bytes.
struct Descriptor {
  size_t start, leading, stride;
  int swizzle_mode;

  explicit Descriptor(uint64_t bits)
      : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4) {
    const int layout = static_cast<int>(bits >> 62);  // 0 none, 1 128B, 2 64B, 3 32B
    swizzle_mode = layout ? 4 - layout : 0;
  }
};

// Shared byte address of element (mn, k) of an operand whose elements have `width` bytes. With T = 16 / width elements
// a chunk and W chunks a swizzle row:
//   K-major : rows 16 W apart, groups of 8 rows `stride` apart; without swizzle the chunks along k are `leading` apart.
//   MN-major: mn runs along the swizzle row, groups of W chunks `leading` apart, rows of k 16 W apart, groups of 8 rows
//             `stride` apart; without swizzle `leading` and `stride` exchange their parts.
inline size_t operand_address(uint64_t descriptor, bool mn_major, int mn, int k, int width) {
  const Descriptor d(descriptor);
  const int W = 1 << d.swizzle_mode, T = 16 / width;
  size_t offset;
  if (!mn_major) {
    const size_t along_k = d.swizzle_mode ? k * width : (k / T) * d.leading + (k % T) * width;
    offset = (mn % 8) * 16 * W + (mn / 8) * d.stride + along_k;
  } else if (d.swizzle_mode) {
    const size_t along_mn = (mn % T) * width + (mn / T % W) * 16 + (mn / T / W) * d.leading;
    offset = along_mn + (k % 8) * 16 * W + (k / 8) * d.stride;
  } else {
    offset = (mn % T) * width + (mn / T) * d.stride + (k % 8) * 16 + (k / 8) * d.leading;
  }
  return swizzle(d.start + offset, d.swizzle_mode);
}

// Register fragments of one warp, E elements in a 32-bit register:
//   A (16 x 8E): register j, element e is row lane/4 + 8 (j & 1), k = 4E (j >> 1) + E (lane % 4) + e
//   B (8E x 8) : register j, element e is column lane/4,          k = 4E j + E (lane % 4) + e
//   C (16 x 8) : register i            is row lane/4 + 8 (i >> 1), column 2 (lane % 4) + (i & 1)
// WGMMA repeats A and C for each warp of the group; its register 4j + i holds columns 8j to 8j + 7.
inline int a_row(int lane, int j) { return lane / 4 + 8 * (j & 1); }
inline int a_k(int lane, int j, int e, int E) { return 4 * E * (j >> 1) + E * (lane % 4) + e; }
inline int b_column(int lane) { return lane / 4; }
inline int b_k(int lane, int j, int e, int E) { return 4 * E * j + E * (lane % 4) + e; }
inline int c_row(int lane, int i) { return lane / 4 + 8 * (i >> 1); }
inline int c_column(int lane, int i) { return 2 * (lane % 4) + (i & 1); }

}  // namespace emulator
