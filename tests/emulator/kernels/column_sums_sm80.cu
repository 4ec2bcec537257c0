#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/atomic.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void column_sums_kernel(const float* __restrict__ X, float* __restrict__ Y);
extern "C" __global__ void __launch_bounds__(128, 1) column_sums_kernel(const float* __restrict__ X, float* __restrict__ Y) {
  float x[16];
  float part[4];
  extern __shared__ __align__(1024) float workspace[];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    float broadcast_var = 0x0p+0f/*0.000000e+00*/;
    float4 condval;
    if (((((((int)blockIdx.x) * 16) + (i * 4)) + (((int)threadIdx.x) >> 5)) < 35)) {
      condval = *(float4*)(X + (((((int)blockIdx.x) * 2048) + (i * 512)) + (((int)threadIdx.x) * 4)));
    } else {
      condval = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
    }
    *(float4*)(x + (i * 4)) = condval;
  }
  #pragma unroll
  for (int i_1 = 0; i_1 < 4; ++i_1) {
    part[i_1] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv = 0; rv < 4; ++rv) {
      part[i_1] = (part[i_1] + x[((rv * 4) + i_1)]);
    }
    __syncthreads();
    part[i_1] = tl::AllReduce<tl::SumOp, 128, 16, 0, tl::NamedBarrier<128>>::run(part[i_1], (&(workspace[0])));
  }
  if ((((int)threadIdx.x) >> 4) == 0) {
    #pragma unroll
    for (int i_2 = 0; i_2 < 4; ++i_2) {
      AtomicAdd((&(Y[(((((int)threadIdx.x) & 15) * 4) + i_2)])), part[i_2]);
    }
  }
}

