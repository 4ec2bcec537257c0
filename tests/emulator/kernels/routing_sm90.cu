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
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* list2_0 = ((void*)((char*)buf_dyn_shmem + 0));
  void* list2_0_merged = ((void*)((char*)buf_dyn_shmem + 512));
  float max0_0[1];
  float sum1_0[1];
  float max0_base[1];
  float max0_previous[1];
  float x_tile[2];
  float max0_0_clear[1];
  float exp_1[1];
  float sum1_0_terms[2];
  float sum1_0_clear[1];
  int64_t list2_0_candidates[2];
  int list2_0_head[1];
  int64_t list2_0_best[1];
  float sum3[1];
  float sum1[1];
  float sum3_terms[8];
  float sum3_clear[1];
  max0_0[0] = -CUDART_INF_F;
  sum1_0[0] = 0x0p+0f/*0.000000e+00*/;
  if (((int)threadIdx.x) < 64) {
    ((int64_t*)list2_0)[((int)threadIdx.x)] = (int64_t)-9223372036854775808;
  }
  float condval;
  if ((max0_0[0] == -CUDART_INF_F)) {
    condval = 0x0p+0f/*0.000000e+00*/;
  } else {
    condval = max0_0[0];
  }
  max0_base[0] = condval;
  for (int l_step = 0; l_step < 2; ++l_step) {
    max0_previous[0] = max0_0[0];
    float broadcast_var = 0x0p+0f/*0.000000e+00*/;
    float broadcast_var_1 = -CUDART_INF_F;
    float2 condval_1;
    if ((((l_step * 8) + ((((int)threadIdx.x) & 15) >> 1)) < 15)) {
      float2 condval_2;
      if ((((((int)blockIdx.x) * 8) + (((int)threadIdx.x) >> 4)) < 21)) {
        condval_2 = *(float2*)(x + ((((((int)blockIdx.x) * 480) + ((((int)threadIdx.x) >> 4) * 60)) + (l_step * 32)) + ((((int)threadIdx.x) & 15) * 2)));
      } else {
        condval_2 = make_float2(broadcast_var, broadcast_var);
      }
      condval_1 = condval_2;
    } else {
      condval_1 = make_float2(broadcast_var_1, broadcast_var_1);
    }
    *(float2*)(x_tile + 0) = condval_1;
    max0_0_clear[0] = -CUDART_INF_F;
    #pragma unroll
    for (int rv = 0; rv < 2; ++rv) {
      max0_0_clear[0] = max(max0_0_clear[0], x_tile[rv]);
    }
    max0_0_clear[0] = tl::AllReduce<tl::MaxOp, 16, 1, 0, tl::NamedBarrier<128>>::run(max0_0_clear[0]);
    max0_0[0] = max(max0_0[0], max0_0_clear[0]);
    float condval_3;
    if ((max0_0[0] == -CUDART_INF_F)) {
      condval_3 = 0x0p+0f/*0.000000e+00*/;
    } else {
      condval_3 = max0_0[0];
    }
    max0_base[0] = condval_3;
    exp_1[0] = expf((max0_previous[0] - max0_base[0]));
    sum1_0[0] = (sum1_0[0] * exp_1[0]);
    float2 __1;
    float2 __2;
      float2 v_ = *(float2*)(x_tile + 0);
      float2 v__1 = make_float2(max0_base[0], max0_base[0]);
      __2.x = (v_.x-v__1.x);
      __2.y = (v_.y-v__1.y);
    __1.x = expf(__2.x);
    __1.y = expf(__2.y);
    *(float2*)(sum1_0_terms + 0) = __1;
    sum1_0_clear[0] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_1 = 0; rv_1 < 2; ++rv_1) {
      sum1_0_clear[0] = (sum1_0_clear[0] + sum1_0_terms[rv_1]);
    }
    sum1_0_clear[0] = tl::AllReduce<tl::SumOp, 16, 1, 0, tl::NamedBarrier<128>>::run(sum1_0_clear[0]);
    sum1_0[0] = (sum1_0[0] + sum1_0_clear[0]);
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      int64_t condval_4;
      if ((((l_step * 8) + ((((int)threadIdx.x) & 15) >> 1)) < 15)) {
        float v__2 = x_tile[i];
        int bits = (*(int *)(&(v__2)));
        int condval_5;
        if ((2139095040 < (bits & 2147483647))) {
          condval_5 = 2143289344;
        } else {
          int condval_6;
          if ((bits < 0)) {
            condval_6 = ((bits & 2147483647) * -1);
          } else {
            condval_6 = (bits & 2147483647);
          }
          condval_5 = condval_6;
        }
        condval_4 = (((((((int64_t)condval_5) << (int64_t)32) + (int64_t)2147483648) - ((int64_t)i)) - ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)2)) - (((int64_t)l_step) * (int64_t)32));
      } else {
        condval_4 = (int64_t)-9223372036854775808;
      }
      list2_0_candidates[i] = condval_4;
    }
    list2_0_head[0] = 0;
    __syncthreads();
    for (int place = 0; place < 6; ++place) {
      list2_0_best[0] = (int64_t)-9223372036854775808;
      #pragma unroll
      for (int rv_2 = 0; rv_2 < 2; ++rv_2) {
        list2_0_best[0] = max(list2_0_best[0], list2_0_candidates[rv_2]);
      }
      list2_0_best[0] = tl::AllReduce<tl::MaxOp, 16, 1, 0, tl::NamedBarrier<128>>::run(list2_0_best[0]);
      list2_0_best[0] = max(list2_0_best[0], ((int64_t*)list2_0)[(((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)8) + ((int64_t)list2_0_head[(int64_t)0]))]);
      __syncthreads();
      if ((((int)threadIdx.x) % 16) == 0) {
        ((int64_t*)list2_0_merged)[(((((int)threadIdx.x) >> 4) * 8) + place)] = list2_0_best[0];
      }
      __syncthreads();
      int condval_7;
      if ((list2_0_best[0] == ((int64_t*)list2_0)[(((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)8) + ((int64_t)list2_0_head[(int64_t)0]))])) {
        condval_7 = 1;
      } else {
        condval_7 = 0;
      }
      list2_0_head[0] = (list2_0_head[0] + condval_7);
      #pragma unroll
      for (int i_1 = 0; i_1 < 2; ++i_1) {
        int64_t condval_8;
        if ((list2_0_candidates[i_1] == list2_0_best[0])) {
          condval_8 = (int64_t)-9223372036854775808;
        } else {
          condval_8 = list2_0_candidates[i_1];
        }
        list2_0_candidates[i_1] = condval_8;
      }
    }
    __syncthreads();
    if (((int)threadIdx.x) < 64) {
      ((int64_t*)list2_0)[((int)threadIdx.x)] = ((int64_t*)list2_0_merged)[((int)threadIdx.x)];
    }
  }
  sum3[0] = 0x0p+0f/*0.000000e+00*/;
  sum1[0] = (sum1_0[0] * expf((max0_base[0] - max0_0[0])));
  __syncthreads();
  #pragma unroll
  for (int i_2 = 0; i_2 < 8; ++i_2) {
    float condval_9;
    if ((i_2 < 6)) {
      int condval_10;
      if ((((int)(((int64_t*)list2_0)[(((((int)threadIdx.x) >> 4) * 8) + i_2)] >> (int64_t)32)) < 0)) {
        condval_10 = (-2147483648 - ((int)(((int64_t*)list2_0)[(((((int)threadIdx.x) >> 4) * 8) + i_2)] >> (int64_t)32)));
      } else {
        condval_10 = ((int)(((int64_t*)list2_0)[(((((int)threadIdx.x) >> 4) * 8) + i_2)] >> (int64_t)32));
      }
      int _reinterpret_tmp = condval_10;
      condval_9 = (expf(((*(float *)(&(_reinterpret_tmp))) - max0_0[0])) / sum1[0]);
    } else {
      condval_9 = 0x0p+0f/*0.000000e+00*/;
    }
    sum3_terms[i_2] = condval_9;
  }
  sum3_clear[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int rv_3 = 0; rv_3 < 8; ++rv_3) {
    sum3_clear[0] = (sum3_clear[0] + sum3_terms[rv_3]);
  }
  sum3[0] = (sum3[0] + sum3_clear[0]);
  if ((((int)threadIdx.x) % 16) == 0) {
    #pragma unroll
    for (int i_3 = 0; i_3 < 8; ++i_3) {
      if ((((((int)blockIdx.x) * 8) + (((int)threadIdx.x) >> 4)) < 21) && (i_3 < 6)) {
        int condval_11;
        if ((((int)(((int64_t*)list2_0)[(((((int)threadIdx.x) >> 4) * 8) + i_3)] >> (int64_t)32)) < 0)) {
          condval_11 = (-2147483648 - ((int)(((int64_t*)list2_0)[(((((int)threadIdx.x) >> 4) * 8) + i_3)] >> (int64_t)32)));
        } else {
          condval_11 = ((int)(((int64_t*)list2_0)[(((((int)threadIdx.x) >> 4) * 8) + i_3)] >> (int64_t)32));
        }
        int _reinterpret_tmp_1 = condval_11;
        y[(((((int)blockIdx.x) * 48) + ((((int)threadIdx.x) >> 4) * 6)) + i_3)] = ((expf(((*(float *)(&(_reinterpret_tmp_1))) - max0_0[0])) / sum1[0]) / sum3[0]);
      }
    }
    #pragma unroll
    for (int i_4 = 0; i_4 < 4; ++i_4) {
      int64_t list2_0_local_cast_1[2];
      int64_t where_local_cast[2];
      if ((((((int)blockIdx.x) * 8) + (((int)threadIdx.x) >> 4)) < 21) && (i_4 < 3)) {
        *(longlong2*)(list2_0_local_cast_1 + 0) = *(longlong2*)(((int64_t*)list2_0) + (((((int)threadIdx.x) >> 4) * 8) + (i_4 * 2)));
        int64_t broadcast_var_2 = (int64_t)0;
        int broadcast_var_3 = -2147483648;
        longlong2 __3;
          longlong2 v__3 = make_longlong2(broadcast_var_2, broadcast_var_2);
          longlong2 condval_12;
          if (((sum1[0] != sum1[0]) || (max0_0[0] != max0_0[0]))) {
            condval_12 = (make_longlong2(((((int64_t)i_4) * (int64_t)-2))+((int64_t)-1*0), ((((int64_t)i_4) * (int64_t)-2))+((int64_t)-1*1)));
          } else {
            longlong2 __4;
            int2 __5;
              int2 __6;
              longlong2 v__4 = *(longlong2*)(list2_0_local_cast_1 + 0);
              __6.x = (int)(v__4.x);
              __6.y = (int)(v__4.y);
              int2 v__5 = make_int2(broadcast_var_3, broadcast_var_3);
              __5.x = (__6.x ^ v__5.x);
              __5.y = (__6.y ^ v__5.y);
            __4.x = (int64_t)(__5.x);
            __4.y = (int64_t)(__5.y);
            condval_12 = __4;
          }
          __3.x = (v__3.x-condval_12.x);
          __3.y = (v__3.y-condval_12.y);
        *(longlong2*)(where_local_cast + 0) = __3;
        *(longlong2*)(where + (((((int)blockIdx.x) * 48) + ((((int)threadIdx.x) >> 4) * 6)) + (i_4 * 2))) = *(longlong2*)(where_local_cast + 0);
      }
    }
  }
}

