// Compares runtime/layouts.h with NVIDIA's CuTe: descriptors, swizzles, register fragments. Host code only; the exit
// code is the number of layouts that differ.
#include <cstdio>
#include <cute/tensor.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include "runtime/layouts.h"
using namespace cute;

static int different = 0;

static void report(const char *name, int wrong, int count) {
  different += wrong != 0;
  printf("%s %s: %d of %d differ\n", wrong ? "FAIL" : "ok  ", name, wrong, count);
}

// Every element of a tile, slice by slice of 32 bytes along k, as one instruction reads it.
template <GMMA::Major major, class Atom, class T, int MN, int K>
void check_descriptor(const char *name) {
  alignas(1024) static T memory[MN * K];
  const auto tile = make_tensor(make_smem_ptr(memory), tile_to_shape(Atom{}, Shape<Int<MN>, Int<K>>{}));
  const auto place = [&](const T *element) {
    return size_t(reinterpret_cast<const char *>(element) - reinterpret_cast<char *>(memory));
  };
  constexpr int width = 32 / sizeof(T);
  int wrong = 0;
  for (int slice = 0; slice < K / width; slice++) {
    const auto part = local_tile(tile, Shape<Int<MN>, Int<width>>{}, make_coord(0, slice));
    // On the host CuTe leaves the start address out.
    uint64_t descriptor = SM90::GMMA::make_gmma_desc<major>(part).desc_ & ~uint64_t{0x3fff};
    descriptor |= place(raw_pointer_cast(part.data())) >> 4;
    for (int mn = 0; mn < MN; mn++)
      for (int k = 0; k < width; k++)
        wrong += emulator::operand_address(descriptor, major == GMMA::Major::MN, mn, k, sizeof(T)) !=
                 place(&tile(mn, slice * width + k));
  }
  report(name, wrong, MN * K);
}

// CuTe's fragments map (thread, value) to row + 64 column.
template <class Layout, class F>
void check_fragment(const char *name, Layout layout, F ours) {
  int wrong = 0, count = 0;
  for (int thread = 0; thread < 128; thread++)
    for (int value = 0; value < size<1>(layout); value++, count++)
      wrong += int(layout(thread, value)) != ours(thread, value);
  report(name, wrong, count);
}

int main() {
  constexpr auto k_major = GMMA::Major::K, mn_major = GMMA::Major::MN;
  check_descriptor<k_major, GMMA::Layout_K_SW128_Atom<half_t>, half_t, 128, 128>("K-major, 128 B, half");
  check_descriptor<k_major, GMMA::Layout_K_SW64_Atom<half_t>, half_t, 128, 64>("K-major, 64 B, half");
  check_descriptor<k_major, GMMA::Layout_K_SW32_Atom<half_t>, half_t, 128, 64>("K-major, 32 B, half");
  check_descriptor<k_major, GMMA::Layout_K_INTER_Atom<half_t>, half_t, 128, 64>("K-major, none, half");
  check_descriptor<k_major, GMMA::Layout_K_SW128_Atom<int8_t>, int8_t, 128, 256>("K-major, 128 B, int8");
  check_descriptor<k_major, GMMA::Layout_K_SW64_Atom<int8_t>, int8_t, 64, 128>("K-major, 64 B, int8");
  check_descriptor<k_major, GMMA::Layout_K_SW128_Atom<float>, float, 64, 64>("K-major, 128 B, float");
  check_descriptor<mn_major, GMMA::Layout_MN_SW128_Atom<half_t>, half_t, 128, 64>("MN-major, 128 B, half");
  check_descriptor<mn_major, GMMA::Layout_MN_SW64_Atom<half_t>, half_t, 128, 64>("MN-major, 64 B, half");
  check_descriptor<mn_major, GMMA::Layout_MN_SW32_Atom<half_t>, half_t, 128, 64>("MN-major, 32 B, half");
  check_descriptor<mn_major, GMMA::Layout_MN_INTER_Atom<half_t>, half_t, 128, 64>("MN-major, none, half");
  const auto c = [](int thread, int value) {
    const int row = thread / 32 * 16 + emulator::c_row(thread % 32, value % 4);
    return row + 64 * (8 * (value / 4) + emulator::c_column(thread % 32, value % 4));
  };
  check_fragment("D, 64 x 64", SM90::GMMA::CLayout_64x64{}, c);
  check_fragment("D, 64 x 80", SM90::GMMA::CLayout_64xN<80>{}, c);
  check_fragment("D, 64 x 256", SM90::GMMA::CLayout_64x256{}, c);
  const auto a = [](int elements) {
    return [elements](int thread, int value) {
      const int j = value / elements, e = value % elements;
      const int row = thread / 32 * 16 + emulator::a_row(thread % 32, j);
      return row + 64 * emulator::a_k(thread % 32, j, e, elements);
    };
  };
  check_fragment("A in registers, 64 x 8", SM90::GMMA::ALayout_64x8{}, a(1));
  check_fragment("A in registers, 64 x 16", SM90::GMMA::ALayout_64x16{}, a(2));
  check_fragment("A in registers, 64 x 32", SM90::GMMA::ALayout_64x32{}, a(4));
  return different;
}
