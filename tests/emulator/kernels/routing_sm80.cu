#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <math_constants.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void routing_0_kernel(int64_t* __restrict__ where, const float* __restrict__ x, float* __restrict__ y);
extern "C" __global__ void __launch_bounds__(128, 1) routing_0_kernel(int64_t* __restrict__ where, const float* __restrict__ x, float* __restrict__ y) {
  float max0[1];
  float x_tile[4];
  float max0_clear[1];
  float sum1[1];
  float exp_1[4];
  float sum1_clear[1];
  int64_t list2_candidates[4];
  extern __shared__ __align__(1024) int64_t list2[];
  int64_t list2_best[1];
  float sum3[1];
  float sum3_terms[1];
  float sum3_clear[1];
  max0[0] = -CUDART_INF_F;
  float broadcast_var = 0x0p+0f/*0.000000e+00*/;
  float4 condval;
  if ((((((int)blockIdx.x) * 8) + (((int)threadIdx.x) >> 4)) < 21)) {
    condval = *(float4*)(x + ((((int)blockIdx.x) * 512) + (((int)threadIdx.x) * 4)));
  } else {
    condval = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
  }
  *(float4*)(x_tile + 0) = condval;
  max0_clear[0] = -CUDART_INF_F;
  #pragma unroll
  for (int rv = 0; rv < 4; ++rv) {
    max0_clear[0] = max(max0_clear[0], x_tile[rv]);
  }
  max0_clear[0] = tl::AllReduce<tl::MaxOp, 16, 1, 0, tl::NamedBarrier<128>>::run(max0_clear[0]);
  max0[0] = max(max0[0], max0_clear[0]);
  sum1[0] = 0x0p+0f/*0.000000e+00*/;
  float4 __1;
  float4 __2;
    float4 v_ = *(float4*)(x_tile + 0);
    float4 v__1 = make_float4(max0[0], max0[0], max0[0], max0[0]);
    __2.x = (v_.x-v__1.x);
    __2.y = (v_.y-v__1.y);
    __2.z = (v_.z-v__1.z);
    __2.w = (v_.w-v__1.w);
  __1.x = expf(__2.x);
  __1.y = expf(__2.y);
  __1.z = expf(__2.z);
  __1.w = expf(__2.w);
  *(float4*)(exp_1 + 0) = __1;
  sum1_clear[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int rv_1 = 0; rv_1 < 4; ++rv_1) {
    sum1_clear[0] = (sum1_clear[0] + exp_1[rv_1]);
  }
  sum1_clear[0] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<128>>::run(sum1_clear[0]);
  sum1[0] = (sum1[0] + sum1_clear[0]);
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    float v__2 = exp_1[i] / sum1[0];
    int bits = (*(int *)(&(v__2)));
    int condval_1;
    if ((2139095040 < (bits & 2147483647))) {
      condval_1 = 2143289344;
    } else {
      int condval_2;
      if ((bits < 0)) {
        condval_2 = ((bits & 2147483647) * -1);
      } else {
        condval_2 = (bits & 2147483647);
      }
      condval_1 = condval_2;
    }
    list2_candidates[i] = ((((((int64_t)condval_1) << (int64_t)32) + (int64_t)2147483648) - ((int64_t)i)) - ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4));
  }
  for (int place = 0; place < 6; ++place) {
    list2_best[0] = (int64_t)-9223372036854775808;
    #pragma unroll
    for (int rv_2 = 0; rv_2 < 4; ++rv_2) {
      list2_best[0] = max(list2_best[0], list2_candidates[rv_2]);
    }
    list2_best[0] = tl::AllReduce<tl::MaxOp, 16, 1, 0, tl::NamedBarrier<128>>::run(list2_best[0]);
    if ((((int)threadIdx.x) % 16) == 0) {
      list2[(((((int)threadIdx.x) >> 4) * 8) + place)] = list2_best[0];
    }
    #pragma unroll
    for (int i_1 = 0; i_1 < 4; ++i_1) {
      int64_t condval_3;
      if ((list2_candidates[i_1] == list2_best[0])) {
        condval_3 = (int64_t)-9223372036854775808;
      } else {
        condval_3 = list2_candidates[i_1];
      }
      list2_candidates[i_1] = condval_3;
    }
  }
  sum3[0] = 0x0p+0f/*0.000000e+00*/;
  __syncthreads();
  float condval_4;
  if (((((int)threadIdx.x) & 7) < 6)) {
    int condval_5;
    if ((((int)(list2[(((int)threadIdx.x) & 63)] >> (int64_t)32)) < 0)) {
      condval_5 = (-2147483648 - ((int)(list2[(((int)threadIdx.x) & 63)] >> (int64_t)32)));
    } else {
      condval_5 = ((int)(list2[(((int)threadIdx.x) & 63)] >> (int64_t)32));
    }
    int _reinterpret_tmp = condval_5;
    condval_4 = (*(float *)(&(_reinterpret_tmp)));
  } else {
    condval_4 = 0x0p+0f/*0.000000e+00*/;
  }
  sum3_terms[0] = condval_4;
  sum3_clear[0] = 0x0p+0f/*0.000000e+00*/;
  sum3_clear[0] = (sum3_clear[0] + sum3_terms[0]);
  sum3_clear[0] = tl::AllReduce<tl::SumOp, 8, 1, 0, tl::NamedBarrier<128>>::run(sum3_clear[0]);
  sum3[0] = (sum3[0] + sum3_clear[0]);
  if ((((int)threadIdx.x) >> 6) == 0) {
    if ((((((int)blockIdx.x) * 8) + ((((int)threadIdx.x) & 63) >> 3)) < 21) && ((((int)threadIdx.x) & 7) < 6)) {
      int condval_6;
      if ((((int)(list2[(((int)threadIdx.x) & 63)] >> (int64_t)32)) < 0)) {
        condval_6 = (-2147483648 - ((int)(list2[(((int)threadIdx.x) & 63)] >> (int64_t)32)));
      } else {
        condval_6 = ((int)(list2[(((int)threadIdx.x) & 63)] >> (int64_t)32));
      }
      int _reinterpret_tmp_1 = condval_6;
      y[(((((int)blockIdx.x) * 48) + (((((int)threadIdx.x) & 63) >> 3) * 6)) + (((int)threadIdx.x) & 7))] = ((*(float *)(&(_reinterpret_tmp_1))) / sum3[0]);
    }
  }
  if (((int)threadIdx.x) < 64) {
    if ((((((int)blockIdx.x) * 8) + (((int)threadIdx.x) >> 3)) < 21) && ((((int)threadIdx.x) & 7) < 6)) {
      where[(((((int)blockIdx.x) * 48) + ((((int)threadIdx.x) >> 3) * 6)) + (((int)threadIdx.x) & 7))] = ((int64_t)0 - ((int64_t)(((int)list2[((int)threadIdx.x)]) ^ -2147483648)));
    }
  }
}

