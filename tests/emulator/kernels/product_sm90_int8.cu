#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/instruction/wgmma.h>
#include <tl_templates/cuda/intrin.h>
#include <tl_templates/cuda/barrier.h>
#include <tl_templates/cuda/copy_sm90.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void product_kernel(__grid_constant__ const CUtensorMap A_desc, __grid_constant__ const CUtensorMap B_desc, int* __restrict__ C);
extern "C" __global__ void __launch_bounds__(256, 1) product_kernel(__grid_constant__ const CUtensorMap A_desc, __grid_constant__ const CUtensorMap B_desc, int* __restrict__ C) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* As = ((void*)((char*)buf_dyn_shmem + 0));
  void* Bs = ((void*)((char*)buf_dyn_shmem + 24576));
  __shared__ __align__(16) uint64_t mbarrier_mem[6];
  auto mbarrier = reinterpret_cast<Barrier*>(mbarrier_mem);
  int Cf[128];
  if (tl::tl_shuffle_elect<0>()) {
    tl::prefetch_tma_descriptor(A_desc);
    tl::prefetch_tma_descriptor(B_desc);
  }
  if (tl::tl_shuffle_elect<0>()) {
    mbarrier[0].init(1);
    mbarrier[1].init(1);
    mbarrier[2].init(1);
    mbarrier[3].init(128);
    mbarrier[4].init(128);
    mbarrier[5].init(128);
  }
  tl::fence_barrier_init();
  __syncthreads();
  if (((int)threadIdx.x) < 128) {
    tl::warpgroup_reg_dealloc<24>();
    for (int step = 0; step < 4; ++step) {
      mbarrier[((step % 3) + 3)].wait(((step / 3) ^ 1));
      if (tl::tl_shuffle_elect<128>()) {
        mbarrier[(step % 3)].expect_transaction(8192);
        tl::tma_load(A_desc, mbarrier[(step % 3)], (&(((signed char*)As)[((step % 3) * 8192)])), (step * 64), 0);
        mbarrier[(step % 3)].arrive_and_expect_tx(8192);
        tl::tma_load(B_desc, mbarrier[(step % 3)], (&(((signed char*)Bs)[((step % 3) * 8192)])), (step * 64), 0);
      }
    }
  } else {
    tl::warpgroup_reg_alloc<240>();
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      int broadcast_var = 0;
      *(int4*)(Cf + (i * 4)) = make_int4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
    }
    for (int step_1 = 0; step_1 < 4; ++step_1) {
      mbarrier[(step_1 % 3)].wait((step_1 / 3));
      {
        tl::GmmaDescriptor desc_a;
        tl::GmmaDescriptor desc_b;
        tl::initialize_wgmma_descriptor<2, 1, 32>(desc_a, (&(((signed char*)As)[0])));
        tl::increase_descriptor_offset<int>(desc_a, ((step_1 % 3) * 8192));
        tl::initialize_wgmma_descriptor<2, 1, 32>(desc_b, (&(((signed char*)Bs)[0])));
        tl::increase_descriptor_offset<int>(desc_b, ((step_1 % 3) * 8192));
        tl::warpgroup_fence_operand(reinterpret_cast<uint32_t*>(Cf + 0), 128);
        tl::warpgroup_arrive();
        #pragma unroll
        for (int i_1 = 0; i_1 < 2; ++i_1) {
          #pragma unroll
          for (int ki = 0; ki < 2; ++ki) {
            tl::wgmma_ss<tl::DataType::kInt8, tl::DataType::kInt8, tl::DataType::kInt32, 64, 128, 32, false, false, 1, 1>(uint64_t(desc_a + (((i_1 * 4096) + (ki * 32)) >> 4)), uint64_t(desc_b + ((ki * 32) >> 4)), ((uint32_t*)(Cf + (i_1 * 64))), 1);
          }
        }
        tl::warpgroup_commit_batch();
        tl::warpgroup_wait<0>();
        tl::warpgroup_fence_operand(reinterpret_cast<uint32_t*>(Cf + 0), 128);
      }
      mbarrier[((step_1 % 3) + 3)].arrive();
    }
    #pragma unroll
    for (int i_2 = 0; i_2 < 64; ++i_2) {
      *(int2*)(C + ((((((((i_2 >> 5) * 8192) + ((((int)threadIdx.x) >> 5) * 2048)) + ((i_2 & 1) * 1024)) + (((((int)threadIdx.x) & 31) >> 2) * 128)) + (((i_2 & 31) >> 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) - 8192)) = *(int2*)(Cf + (i_2 * 2));
    }
  }
}

