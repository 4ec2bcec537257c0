#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void routing_0_kernel(int64_t* __restrict__ where, const half_t* __restrict__ x, half_t* __restrict__ y);
extern "C" __global__ void __launch_bounds__(128, 1) routing_0_kernel(int64_t* __restrict__ where, const half_t* __restrict__ x, half_t* __restrict__ y) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* workspace = ((void*)((char*)buf_dyn_shmem + 0));
  void* list0 = ((void*)((char*)buf_dyn_shmem + 1024));
  int64_t list0_candidates[2];
  int64_t list0_best[2];
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    int64_t condval;
    if (((((int)threadIdx.x) & 63) < 40)) {
      half_t condval_1;
      if (((((((int)blockIdx.x) * 4) + (i * 2)) + (((int)threadIdx.x) >> 6)) < 21)) {
        condval_1 = x[((((((int)blockIdx.x) * 160) + (i * 80)) + ((((int)threadIdx.x) >> 6) * 40)) + (((int)threadIdx.x) & 63))];
      } else {
        condval_1 = half_t(0x0p+0f/*0.000000e+00*/);
      }
      float v_ = (float)condval_1;
      int bits = (*(int *)(&(v_)));
      int condval_2;
      if ((2139095040 < (bits & 2147483647))) {
        condval_2 = 2143289344;
      } else {
        int condval_3;
        if ((bits < 0)) {
          condval_3 = ((bits & 2147483647) * -1);
        } else {
          condval_3 = (bits & 2147483647);
        }
        condval_2 = condval_3;
      }
      condval = (((((int64_t)condval_2) << (int64_t)32) + (int64_t)2147483648) - (((int64_t)((int)threadIdx.x)) & (int64_t)63));
    } else {
      condval = (int64_t)-9223372036854775808;
    }
    list0_candidates[i] = condval;
  }
  for (int place = 0; place < 5; ++place) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 2; ++i_1) {
      list0_best[i_1] = (int64_t)-9223372036854775808;
      list0_best[i_1] = max(list0_best[i_1], list0_candidates[i_1]);
      __syncthreads();
      list0_best[i_1] = tl::AllReduce<tl::MaxOp, 64, 1, 0, tl::NamedBarrier<128>>::run(list0_best[i_1], (&(((int64_t*)workspace)[0])));
    }
    __syncthreads();
    if ((((int)threadIdx.x) % 64) == 0) {
      #pragma unroll
      for (int i_2 = 0; i_2 < 2; ++i_2) {
        ((int64_t*)list0)[(((i_2 * 16) + ((((int)threadIdx.x) >> 6) * 8)) + place)] = list0_best[i_2];
      }
    }
    #pragma unroll
    for (int i_3 = 0; i_3 < 2; ++i_3) {
      int64_t condval_4;
      if ((list0_candidates[i_3] == list0_best[i_3])) {
        condval_4 = (int64_t)-9223372036854775808;
      } else {
        condval_4 = list0_candidates[i_3];
      }
      list0_candidates[i_3] = condval_4;
    }
  }
  __syncthreads();
  if (((int)threadIdx.x) < 32) {
    if ((((((int)blockIdx.x) * 4) + (((int)threadIdx.x) >> 3)) < 21) && ((((int)threadIdx.x) & 7) < 5)) {
      int number = ((int)(((int64_t*)list0)[((int)threadIdx.x)] >> (int64_t)32));
      int condval_5;
      if ((number < 0)) {
        condval_5 = (-2147483648 - number);
      } else {
        condval_5 = number;
      }
      int _reinterpret_tmp = condval_5;
      y[(((((int)blockIdx.x) * 20) + ((((int)threadIdx.x) >> 3) * 5)) + (((int)threadIdx.x) & 7))] = ((half_t)(*(float *)(&(_reinterpret_tmp))));
      where[(((((int)blockIdx.x) * 20) + ((((int)threadIdx.x) >> 3) * 5)) + (((int)threadIdx.x) & 7))] = ((int64_t)0 - ((int64_t)(((int)((int64_t*)list0)[((int)threadIdx.x)]) ^ -2147483648)));
    }
  }
}

