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

extern "C" __global__ void layer_norm_kernel(const bfloat16_t* __restrict__ G, const bfloat16_t* __restrict__ X, bfloat16_t* __restrict__ Y);
extern "C" __global__ void __launch_bounds__(128, 1) layer_norm_kernel(const bfloat16_t* __restrict__ G, const bfloat16_t* __restrict__ X, bfloat16_t* __restrict__ Y) {
  float x[8];
  float first[1];
  float square[8];
  float second[1];
  {
    bfloat16_t X_local_cast[8];
    bfloat16_t broadcast_var = bfloat16_t(0x0p+0f/*0.000000e+00*/);
    uint4 condval;
    if ((((((int)threadIdx.x) & 31) < 25) && (((((int)blockIdx.x) * 2) + (((int)threadIdx.x) >> 6)) < 3))) {
      condval = *(uint4*)(X + (((((int)blockIdx.x) * 800) + ((((int)threadIdx.x) >> 5) * 200)) + ((((int)threadIdx.x) & 31) * 8)));
    } else {
      condval = make_uint4(__pack_nv_bfloat162(broadcast_var, broadcast_var), __pack_nv_bfloat162(broadcast_var, broadcast_var), __pack_nv_bfloat162(broadcast_var, broadcast_var), __pack_nv_bfloat162(broadcast_var, broadcast_var));
    }
    *(uint4*)(X_local_cast + 0) = condval;
    for (int i = 0; i < 2; ++i) {
      if ((((((int)blockIdx.x) * 2) + (((int)threadIdx.x) >> 6)) < 3) && ((((int)threadIdx.x) & 31) < 25)) {
        float4 __1;
        uint2 v_ = *(uint2*)(X_local_cast + (i * 4));
        ((float2*)(&__1))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v_))[0]);
        ((float2*)(&__1))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v_))[1]);
        *(float4*)(x + (i * 4)) = __1;
      } else {
        float broadcast_var_1 = 0x0p+0f/*0.000000e+00*/;
        *(float4*)(x + (i * 4)) = make_float4(broadcast_var_1, broadcast_var_1, broadcast_var_1, broadcast_var_1);
      }
    }
  }
  first[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int rv = 0; rv < 8; ++rv) {
    first[0] = (first[0] + x[rv]);
  }
  first[0] = tl::AllReduce<tl::SumOp, 32, 1, 0, tl::NamedBarrier<128>>::run(first[0]);
  #pragma unroll
  for (int i_1 = 0; i_1 < 2; ++i_1) {
    float broadcast_var_2 = 0x0p+0f/*0.000000e+00*/;
    float4 condval_1;
    if (((((int)threadIdx.x) & 31) < 25)) {
      float4 __2;
        float4 __3;
          float4 v__1 = *(float4*)(x + (i_1 * 4));
          float4 v__2 = make_float4((first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/));
          __3.x = (v__1.x-v__2.x);
          __3.y = (v__1.y-v__2.y);
          __3.z = (v__1.z-v__2.z);
          __3.w = (v__1.w-v__2.w);
        float4 __4;
          float4 v__3 = *(float4*)(x + (i_1 * 4));
          float4 v__4 = make_float4((first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/));
          __4.x = (v__3.x-v__4.x);
          __4.y = (v__3.y-v__4.y);
          __4.z = (v__3.z-v__4.z);
          __4.w = (v__3.w-v__4.w);
        __2.x = (__3.x*__4.x);
        __2.y = (__3.y*__4.y);
        __2.z = (__3.z*__4.z);
        __2.w = (__3.w*__4.w);
      condval_1 = __2;
    } else {
      condval_1 = make_float4(broadcast_var_2, broadcast_var_2, broadcast_var_2, broadcast_var_2);
    }
    *(float4*)(square + (i_1 * 4)) = condval_1;
  }
  second[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int rv_1 = 0; rv_1 < 8; ++rv_1) {
    second[0] = (second[0] + square[rv_1]);
  }
  second[0] = tl::AllReduce<tl::SumOp, 32, 1, 0, tl::NamedBarrier<128>>::run(second[0]);
  {
    bfloat16_t G_local_cast_2[8];
    bfloat16_t Y_local_cast_1[8];
    if ((((((int)blockIdx.x) * 2) + (((int)threadIdx.x) >> 6)) < 3) && ((((int)threadIdx.x) & 31) < 25)) {
      *(uint4*)(G_local_cast_2 + 0) = *(uint4*)(G + ((((int)threadIdx.x) & 31) * 8));
      for (int i_2 = 0; i_2 < 2; ++i_2) {
        uint2 __5;
        float4 __6;
          float4 __7;
            float4 __8;
              float4 v__5 = *(float4*)(x + (i_2 * 4));
              float4 v__6 = make_float4((first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/), (first[0] / 0x1.9p+7f/*2.000000e+02*/));
              __8.x = (v__5.x-v__6.x);
              __8.y = (v__5.y-v__6.y);
              __8.z = (v__5.z-v__6.z);
              __8.w = (v__5.w-v__6.w);
            float4 v__7 = make_float4(rsqrtf(((second[0] / 0x1.9p+7f/*2.000000e+02*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)), rsqrtf(((second[0] / 0x1.9p+7f/*2.000000e+02*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)), rsqrtf(((second[0] / 0x1.9p+7f/*2.000000e+02*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)), rsqrtf(((second[0] / 0x1.9p+7f/*2.000000e+02*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)));
            __7.x = (__8.x*v__7.x);
            __7.y = (__8.y*v__7.y);
            __7.z = (__8.z*v__7.z);
            __7.w = (__8.w*v__7.w);
          float4 __9;
          uint2 v__8 = *(uint2*)(G_local_cast_2 + (i_2 * 4));
          ((float2*)(&__9))[0] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__8))[0]);
          ((float2*)(&__9))[1] = __bfloat1622float2((reinterpret_cast<__nv_bfloat162*>(&v__8))[1]);
          __6.x = (__7.x*__9.x);
          __6.y = (__7.y*__9.y);
          __6.z = (__7.z*__9.z);
          __6.w = (__7.w*__9.w);
        (reinterpret_cast<__nv_bfloat162*>(&__5))[0] = __float22bfloat162_rn(((float2*)(&__6))[0]);
        (reinterpret_cast<__nv_bfloat162*>(&__5))[1] = __float22bfloat162_rn(((float2*)(&__6))[1]);
        *(uint2*)(Y_local_cast_1 + (i_2 * 4)) = __5;
      }
      *(uint4*)(Y + (((((int)blockIdx.x) * 800) + ((((int)threadIdx.x) >> 5) * 200)) + ((((int)threadIdx.x) & 31) * 8))) = *(uint4*)(Y_local_cast_1 + 0);
    }
  }
}

