// What kernels call: the boundary between the CUDA spellings (../cuda) and the runtime, which is compiled once.
// Everything whose result depends on other threads or on asynchronous hardware is behind it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tl {
enum class DataType : int {  // the order is TileLang's
  kInt4,
  kUInt4,
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kFloat8_e4m3,
  kFloat8_e5m2,
  kFloat16,
  kBFloat16,
  kFloat16x2,
  kFloat32,
  kTensorFloat32,
  kFloat64
};
}

// The arguments of cuTensorMapEncodeTiled, in an encoding of our own. Extents are innermost first; strides in bytes.
struct alignas(64) CUtensorMap {
  int data_type, rank, swizzle;
  char *base;
  int64_t extent[5], stride[5];
  int box[5];
};

namespace emulator {
using tl::DataType;
struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

// ---- the thread that runs now
Dimensions thread_index();
Dimensions block_index();
Dimensions block_extent();
Dimensions grid_extent();
int thread_number();  // linear, within the block
inline int lane() { return thread_number() & 31; }
inline int warp() { return thread_number() >> 5; }
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));  // never returns to a kernel

// ---- barriers and registers
void sync_threads();
void sync_warp();
void named_barrier(int number, int threads, bool wait);
bool elect(int group_threads);
void set_registers(unsigned count);

// ---- memory
unsigned char *dynamic_shared();
void fence_proxy_async();
void note_atomic(const void *address, int bytes);
void cp_async(void *shared, const void *global, int bytes, bool copy);
void cp_async_commit();
void cp_async_wait(int pending);
void cp_async_arrive(const void *barrier);

// ---- mbarrier
void mbarrier_init(const void *barrier, unsigned count);
void mbarrier_arrive(const void *barrier);
void mbarrier_expect(const void *barrier, unsigned bytes);
void mbarrier_wait(const void *barrier, int parity);
bool mbarrier_try_wait(const void *barrier, int parity);

// ---- TMA; an array of coordinates is innermost first
void tma_load(const CUtensorMap &map, const void *barrier, const void *shared, int rank, const int *coordinates);
void tma_store(const CUtensorMap &map, const void *shared, int rank, const int *coordinates, bool add);
void bulk_load(const void *shared, const void *global, const void *barrier, unsigned bytes);
void bulk_store(void *global, const void *shared, unsigned bytes, bool add);
void store_commit();
void store_wait(int pending);

// ---- warp collectives
uint64_t shuffle_xor(uint64_t value, int mask, int width);
uint64_t shuffle_up(uint64_t value, int delta, int width);
uint64_t shuffle_down(uint64_t value, int delta, int width);
uint64_t shuffle_index(uint64_t value, int source, int width);
unsigned ballot(bool predicate);
unsigned active_lanes();  // those that there are: a collective operation that lacks one of them never ends
void load_matrices(const void *row, void *registers, int count, bool transposed);
void store_matrices(const void *row, const void *registers, int count, bool transposed);

// ---- tensor cores
struct Instruction {
  DataType a, b, c;
  int m, n, k;
};
void mma_sync(const Instruction &instruction, void *c, const void *a, const void *b);
struct WarpgroupInstruction {
  DataType a, b, c;
  int n, k;
  bool a_mn_major, b_mn_major;
  int sign_a, sign_b;
};
// `a_registers` is null where A is in shared memory; `accumulate` 0 clears the accumulators first.
void wgmma(const WarpgroupInstruction &instruction, uint64_t a_descriptor, const uint32_t *a_registers,
           uint64_t b_descriptor, uint32_t *accumulators, int accumulate);
uint64_t wgmma_descriptor(const void *shared, int layout, int leading, int stride);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(int pending);

// ---- launching: what the kernel's own object tells about itself
struct Kernel {
  void (*body)(void **arguments);
  unsigned char *static_begin, *static_end;      // statically allocated shared memory
  const unsigned char *image_begin, *image_end;  // the whole object
};
int launch(const Kernel &kernel, void **arguments, const int *grid, const int *block, size_t dynamic_bytes);
}  // namespace emulator
