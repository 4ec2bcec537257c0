// Put before the kernels that TVM writes: maximum and minimum as ONNX has them, where a NaN wins.
#define RF_EXTREMUM(NAME, BETTER, PTX, HALF)                                                          \
  template <typename A, typename B>                                                                   \
  __device__ __forceinline__ auto NAME(A a, B b) -> decltype(a + b) {                                 \
    return a BETTER b || a != a ? a : b;                                                              \
  }                                                                                                   \
  __device__ __forceinline__ float NAME(float a, float b) {                                           \
    float result;                                                                                     \
    asm(PTX ".NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));                                  \
    return result;                                                                                    \
  }                                                                                                   \
  __device__ __forceinline__ __half NAME(__half a, __half b) { return HALF(a, b); }                   \
  __device__ __forceinline__ __nv_bfloat16 NAME(__nv_bfloat16 a, __nv_bfloat16 b) { return HALF(a, b); }
RF_EXTREMUM(rf_max, >, "max", __hmax_nan)
RF_EXTREMUM(rf_min, <, "min", __hmin_nan)
#define max(a, b) rf_max(a, b)
#define min(a, b) rf_min(a, b)
