"""Functions that generated CUDA uses."""

_PLAIN = """
    exp:expf exp2:exp2f expm1:expm1f log:logf log1p:log1pf sin:sinf cos:cosf tan:tanf asin:asinf acos:acosf atan:atanf
    sinh:sinhf cosh:coshf asinh:asinhf acosh:acoshf atanh:atanhf tanh:tanhf erf:erff erfc:erfcf lgamma:lgammaf
    sqrt:sqrtf
    floor:floorf ceil:ceilf trunc:truncf round:rintf abs:fabsf
"""
_TWO = "atan2:atan2f pow:powf hypot:hypotf fmod:fmodf copysign:copysignf"

PRELUDE = (
    """#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

"""
    + "\n".join(
        f"__device__ __forceinline__ float k_{ours}(float x) {{ return {theirs}(x); }}"
        for ours, theirs in (pair.split(":") for pair in _PLAIN.split())
    )
    + "\n"
    + "\n".join(
        f"__device__ __forceinline__ float k_{ours}(float a, float b) {{ return {theirs}(a, b); }}"
        for ours, theirs in (pair.split(":") for pair in _TWO.split())
    )
    + r"""
__device__ __forceinline__ float k_max(float a, float b) { return a < b ? b : a; }
__device__ __forceinline__ float k_min(float a, float b) { return b < a ? b : a; }
__device__ __forceinline__ float k_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float k_softplus(float x, float beta, float threshold) {
  return x * beta > threshold ? x : log1pf(expf(x * beta)) / beta;
}
__device__ __forceinline__ float k_mish_gate(float x) {  // tanh(log(1 + exp(x)))
  const float e = expf(fminf(x, 20.0f));
  const float n = e * (e + 2.0f);
  return n / (n + 2.0f);
}
__device__ __forceinline__ float k_remainder(float a, float b) {
  const float r = fmodf(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

struct Sum { __device__ static float of(float a, float b) { return a + b; } };
struct Product { __device__ static float of(float a, float b) { return a * b; } };
struct Max { __device__ static float of(float a, float b) { return a < b ? b : a; } };
struct Min { __device__ static float of(float a, float b) { return b < a ? b : a; } };

// Combine one value of each thread that works on a row: THREADS of them, neighbours in x. All get the result.
template <typename Op, int THREADS>
__device__ __forceinline__ float reduce_row(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, step));
  if constexpr (THREADS > 32) {
    __shared__ float parts[THREADS / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
#pragma unroll
    for (int k = 1; k < THREADS / 32; ++k) x = Op::of(x, parts[k]);
  }
  return x;
}

// The same for THREADS threads that stand below each other in y, in a block 32 wide.
template <typename Op, int THREADS>
__device__ __forceinline__ float reduce_column(float x) {
  if constexpr (THREADS > 1) {
    __shared__ float parts[THREADS][32];
    __syncthreads();
    parts[threadIdx.y][threadIdx.x] = x;
    __syncthreads();
    x = parts[0][threadIdx.x];
#pragma unroll
    for (int k = 1; k < THREADS; ++k) x = Op::of(x, parts[k][threadIdx.x]);
  }
  return x;
}
"""
)
