"""Functions that generated C++ uses: single precision, without branches, so that loops over them vectorise.

Methods: exponential, logarithm, sine and arctangent after Cephes (https://www.netlib.org/cephes/), tanh and erf by the
rational functions of Eigen (https://gitlab.com/libeigen/eigen, MathFunctionsImpl.h). Errors are a few units in the last
place (of pow: some 1e-5 of the result), except for sin and cos beyond 1e8.
"""

PRELUDE = r"""#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__)
// errno and floating-point traps are not observed here; without them square roots and rounding vectorise. Functions of
// <cmath> would not be inlined after this, hence the builtins.
#pragma GCC optimize("no-math-errno", "no-trapping-math")
#endif

namespace {

inline float k_float(int32_t bits) { float f; std::memcpy(&f, &bits, 4); return f; }
inline int32_t k_bits(float f) { int32_t bits; std::memcpy(&bits, &f, 4); return bits; }
inline float k_abs(float x) { return __builtin_fabsf(x); }
inline float k_max(float a, float b) { return a < b ? b : a; }
inline float k_min(float a, float b) { return b < a ? b : a; }
inline float k_sqrt(float x) { return __builtin_sqrtf(x); }
inline float k_floor(float x) { return __builtin_floorf(x); }
inline float k_ceil(float x) { return __builtin_ceilf(x); }
inline float k_trunc(float x) { return __builtin_truncf(x); }
inline float k_round(float x) { return __builtin_rintf(x); }
inline float k_copysign(float a, float b) { return __builtin_copysignf(a, b); }

// exp(r) - 1 on |r| <= ln(2) / 2, and n with x = n ln(2) + r.
inline float k_reduced(float x, int32_t& n) {
  const float magic = 12582912.0f;  // adding it rounds to an integer, which its low bits then hold
  const float shifted = x * 1.44269504088896341f + magic;
  n = k_bits(shifted) - 0x4B400000;
  const float k = shifted - magic;
  float r = x - k * 0.693359375f;
  r = r + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * r * r + r;
}
inline float k_exp(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  int32_t n;
  const float p = k_reduced(x, n) + 1.0f;
  const int32_t half = n >> 1;
  return p * k_float((half + 127) << 23) * k_float((n - half + 127) << 23);
}
inline float k_exp2(float x) {
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  const float magic = 12582912.0f;
  const float shifted = x + magic;
  const int32_t n = k_bits(shifted) - 0x4B400000, half = n >> 1;
  int32_t none;
  const float p = k_reduced((x - (shifted - magic)) * 0.69314718055994531f, none) + 1.0f;
  return p * k_float((half + 127) << 23) * k_float((n - half + 127) << 23);
}
inline float k_expm1(float x) {
  x = x < -60.0f ? -60.0f : x;
  x = x > 89.0f ? 89.0f : x;
  int32_t n;
  const float p = k_reduced(x, n);
  const float half = k_float((n + 126) << 23);  // half of 2^n: 2^128 is no float
  return 2.0f * (half * p + (half - 0.5f));
}
inline float k_log(float x) {
  const float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
  const int32_t bits = k_bits(scaled) - 0x3F3504F3;  // 1 / sqrt(2)
  const int32_t exponent = bits >> 23;
  const float k = float(exponent) - (x < 1.17549435e-38f ? 23.0f : 0.0f);
  const float f = k_float((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float square = f * f;
  float out = f * square * p + k * -2.12194440e-4f - 0.5f * square;
  out = f + out + k * 0.693359375f;
  out = x == 0.0f ? -INFINITY : out;
  out = x == INFINITY ? INFINITY : out;
  return (x >= 0.0f) ? out : NAN;
}
inline float k_log1p(float x) {
  const float u = 1.0f + x;
  const float d = u - 1.0f;
  const float l = k_log(u);
  float out = l * (x / d);
  out = u == INFINITY ? l : out;
  out = u == 0.0f ? l : out;
  return d == 0.0f ? x : out;
}
inline float k_tanh(float x) {
  float c = x < -7.90531110763549805f ? -7.90531110763549805f : x;
  c = c > 7.90531110763549805f ? 7.90531110763549805f : c;
  const float s = c * c;
  float p = -2.76076847742355e-16f;
  p = p * s + 2.00018790482477e-13f;
  p = p * s - 8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * s + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  return k_abs(x) < 0.0004f ? x : c * p / q;
}
inline float k_erf(float x) {
  float c = x < -4.0f ? -4.0f : x;
  c = c > 4.0f ? 4.0f : c;
  const float s = c * c;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s - 2.10102402082508e-06f;
  p = p * s - 5.69250639462346e-05f;
  p = p * s - 7.34990630326855e-04f;
  p = p * s - 2.95459980854025e-03f;
  p = p * s - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s - 2.13374055278905e-04f;
  q = q * s - 1.68282697438203e-03f;
  q = q * s - 7.37332916720468e-03f;
  q = q * s - 1.42647390514189e-02f;
  return c * p / q;
}
inline float k_sigmoid(float x) { return 1.0f / (1.0f + k_exp(-x)); }
inline float k_softplus(float x, float beta, float threshold) {
  const float scaled = x * beta, soft = k_log1p(k_exp(scaled)) / beta;
  return scaled > threshold ? x : soft;
}
inline float k_mish_gate(float x) {  // tanh(log(1 + exp(x)))
  const float e = k_exp(x > 20.0f ? 20.0f : x);
  const float n = e * (e + 2.0f);
  return n / (n + 2.0f);
}
// x less its nearest multiple of pi / 2, and that multiple modulo 4.
inline float k_quadrant(float x, int32_t& quadrant) {
  const double magic = 6755399441055744.0;
  const double k = (double(x) * 0.63661977236758134308 + magic) - magic;
  quadrant = int32_t(k) & 3;
  return float(double(x) - k * 1.57079632679489661923);
}
inline float k_sine(float r) {
  const float s = r * r;
  float p = -1.9515295891e-4f;
  p = p * s + 8.3321608736e-3f;
  p = p * s - 1.6666654611e-1f;
  return p * s * r + r;
}
inline float k_cosine(float r) {
  const float s = r * r;
  float p = 2.443315711809948e-5f;
  p = p * s - 1.388731625493765e-3f;
  p = p * s + 4.166664568298827e-2f;
  return p * s * s - 0.5f * s + 1.0f;
}
inline float k_sin(float x) {
  int32_t q;
  const float r = k_quadrant(x, q);
  const float out = (q & 1) ? k_cosine(r) : k_sine(r);
  return (q & 2) ? -out : out;
}
inline float k_cos(float x) {
  int32_t q;
  const float r = k_quadrant(x, q);
  const float out = (q & 1) ? k_sine(r) : k_cosine(r);
  return q == 1 || q == 2 ? -out : out;
}
inline float k_tan(float x) { return k_sin(x) / k_cos(x); }
inline float k_sinh(float x) {
  const float t = k_expm1(k_abs(x));
  return __builtin_copysignf(t == INFINITY ? t : 0.5f * (t + t / (t + 1.0f)), x);
}
inline float k_cosh(float x) {
  const float e = k_exp(k_abs(x));
  return 0.5f * (e + 1.0f / e);
}
inline float k_asin(float x) { return __builtin_asinf(x); }
inline float k_acos(float x) { return __builtin_acosf(x); }
inline float k_atan(float x) {
  const float a = k_abs(x);
  float z = a > 1.0f ? 1.0f / a : a;
  const float start = z > 0.41421356f ? 0.78539816339744831f : 0.0f;
  z = z > 0.41421356f ? (z - 1.0f) / (z + 1.0f) : z;
  const float s = z * z;
  float p = 8.05374449538e-2f;
  p = p * s - 1.38776856032e-1f;
  p = p * s + 1.99777106478e-1f;
  p = p * s - 3.33329491539e-1f;
  const float out = start + (p * s * z + z);
  return k_copysign(a > 1.0f ? 1.57079632679489662f - out : out, x);
}
inline float k_atan2(float y, float x) {
  const float a = k_abs(y), b = k_abs(x);
  const float high = k_max(a, b), low = k_min(a, b);
  float out = k_atan(high == 0.0f ? 0.0f : (low == high ? 1.0f : low / high));
  out = a > b ? 1.57079632679489662f - out : out;
  out = k_copysign(1.0f, x) < 0.0f ? 3.14159265358979324f - out : out;
  return k_copysign(out, y);
}
inline float k_asinh(float x) {
  const float a = k_abs(x);
  const float near = k_log1p(a + a * a / (1.0f + k_sqrt(a * a + 1.0f)));
  const float far = k_log(a) + 0.69314718055994531f;
  return k_copysign(a > 1e9f ? far : near, x);
}
inline float k_acosh(float x) { return __builtin_acoshf(x); }
inline float k_atanh(float x) { return 0.5f * k_log1p(2.0f * x / (1.0f - x)); }
inline float k_erfc(float x) { return __builtin_erfcf(x); }
inline float k_lgamma(float x) { return __builtin_lgammaf(x); }
inline float k_pow(float a, float b) {
  const float size = k_exp(b * k_log(k_abs(a)));
  const float half = 0.5f * b;
  const float of_negative = k_floor(b) != b ? NAN : (k_floor(half) != half ? -size : size);
  const float out = a < 0.0f ? of_negative : size;
  return b == 0.0f ? 1.0f : out;
}
inline float k_hypot(float a, float b) {
  return float(__builtin_sqrt(double(a) * a + double(b) * b));
}
inline float k_fmod(float a, float b) { return __builtin_fmodf(a, b); }
inline float k_remainder(float a, float b) {
  const float r = __builtin_fmodf(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

}  // namespace
"""
