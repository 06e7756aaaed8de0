//===- Math.h - exp, tanh, log in plain arithmetic --------------*- C++ -*-===//
///
/// \file
/// Polynomials (Cephes' coefficients for single precision), the same bits on every instruction set: no libm, whose
/// results depend on the CPU. Largest errors over all floats (test/unit/Kernels): exp 2 ulp, tanh 3 ulp, log (double) 2 ulp.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_KERNELS_MATH_H
#define FOREBAY_KERNELS_MATH_H

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

/// e^x; overflow to inf, gradual underflow, exp(-inf) = 0, NaN stays.
FB_INLINE Floats expOf(Floats x) {
  const Floats low = splat(-104.0f), high = splat(89.0f), magic = splat(12582912.0f); // 1.5 * 2^23: rounds to an integer
  x = x < low ? low : x;
  x = x > high ? high : x;
  Floats shifted = x * splat(1.44269504088896341f) + magic;
  Words n = (Words)shifted - (Words)magic;
  Floats whole = shifted - magic;
  Floats r = (x - whole * splat(0.693359375f)) - whole * splat(-2.12194440e-4f); // the first product is exact
  Floats p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * (r * r) + r + splat(1.0f);
  // 2^n as two factors: each is a normal number, and only the second product can round (to a denormal).
  Words half = (Words)((Ints)n >> 1);
  Words bias = splatWord(127);
  return (p * (Floats)((half + bias) << 23)) * (Floats)((n - half + bias) << 23);
}
FB_INLINE float expOf(float x) { return expOf(splat(x))[0]; }

FB_INLINE Floats tanhOf(Floats x) {
  const Words signBit = splatWord(0x80000000u);
  Words sign = (Words)x & signBit;
  Floats magnitude = (Floats)((Words)x & ~signBit);
  Floats e = expOf(magnitude * splat(-2.0f));
  Floats large = (splat(1.0f) - e) / (splat(1.0f) + e);
  Floats z = x * x;
  Floats p = splat(-5.70498872745e-3f);
  p = p * z + splat(2.06390887954e-2f);
  p = p * z + splat(-5.37397155531e-2f);
  p = p * z + splat(1.33314422036e-1f);
  p = p * z + splat(-3.33332819422e-1f);
  Floats small = p * z * magnitude + magnitude;
  Floats result = magnitude < splat(0.625f) ? small : large;
  return (Floats)((Words)result | sign);
}

/// Natural logarithm of a non-negative number.
FB_INLINE double logOf(double x) {
  if (!(x > 0.0) || x > 1.7976931348623157e308)
    return x == 0.0 ? -__builtin_inf() : x; // +inf and NaN stay; sums of exponentials are not negative
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  // The mantissa in [sqrt(1/2), sqrt(2)); arguments are converted floats, hence normal doubles.
  uint64_t shifted = bits - 0x3fe6a09e667f3bcdULL;
  int64_t exponent = int64_t(shifted) >> 52;
  bits -= uint64_t(exponent) << 52;
  double mantissa;
  memcpy(&mantissa, &bits, sizeof mantissa);
  double f = mantissa - 1.0, s = f / (2.0 + f), z = s * s;
  double p = 0.0;
  for (int k = 11; k >= 1; --k)
    p = p * z + 1.0 / (2 * k + 1);
  p = p * z;
  return double(exponent) * 0.693147180559945309 + 2.0 * (s + s * p);
}

} // namespace forebay::kernels::FOREBAY_ISA
#endif
