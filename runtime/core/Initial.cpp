//===- Initial.cpp - Weights drawn from a seed ----------------------------===//
//
// The same bits everywhere: integers, and + - * / sqrt in fp64 without contraction; no library function whose last digit
// differs between systems.
//
//===----------------------------------------------------------------------===//

#include "Files.h"
#include "Weights.h"

#include <cmath>
#include <cstring>

using namespace forebay;
using namespace forebay::rt;

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Natural logarithm of x in (0, 1]: exponent plus 2 artanh((m - 1) / (m + 1)) of the mantissa.
static double logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  double z = (m - 1) / (m + 1), square = z * z, sum = 0;
  for (int k = 25; k >= 1; k -= 2)
    sum = sum * square + 1.0 / k;
  return exponent * 0.69314718055994530942 + 2 * z * sum;
}

/// Inverse of the normal distribution function, Wichura's AS 241 (16 digits).
static double normalQuantile(double p) {
  double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    double r = 0.180625 - q * q;
    return q *
           (((((((2.5090809287301226727e+3 * r + 3.3430575583588128105e+4) * r + 6.7265770927008700853e+4) * r +
                4.5921953931549871457e+4) * r + 1.3731693765509461125e+4) * r + 1.9715909503065514427e+3) * r +
             1.3314166789178437745e+2) * r + 3.3871328727963666080e+0) /
           (((((((5.2264952788528545610e+3 * r + 2.8729085735721942674e+4) * r + 3.9307895800092710610e+4) * r +
                2.1213794301586595867e+4) * r + 5.3941960214247511077e+3) * r + 6.8718700749205790830e+2) * r +
             4.2313330701600911252e+1) * r + 1.0);
  }
  double r = std::sqrt(-logarithm(q < 0 ? p : 1 - p)), value;
  if (r <= 5) {
    r -= 1.6;
    value = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
                 1.27045825245236838258e+0) * r + 3.64784832476320460504e+0) * r + 5.76949722146069140550e+0) * r +
              4.63033784615654529590e+0) * r + 1.42343711074968357734e+0) /
            (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
                 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e+0) * r +
              2.05319162663775882187e+0) * r + 1.0);
  } else {
    r -= 5;
    value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r +
                 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e+0) * r +
              5.46378491116411436990e+0) * r + 6.65790464350110377720e+0) /
            (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r +
                 7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r +
              5.99832206555887937690e-1) * r + 1.0);
  }
  return q < 0 ? -value : value;
}

void forebay::rt::initialWeights(const std::string &name, const std::vector<int64_t> &shape, uint64_t seed, float *values,
                                 uint64_t count) {
  if (shape.size() < 2) {
    bool weight = name.size() >= 6 && name.compare(name.size() - 6, 6, "weight") == 0;
    for (uint64_t i = 0; i < count; ++i)
      values[i] = weight ? 1.0f : 0.0f;
    return;
  }
  uint64_t key = mix(hashBytes(name.data(), name.size()) ^ mix(seed));
  for (uint64_t i = 0; i < count; ++i) {
    // The middle of one of 2^52 equal intervals: never 0 or 1.
    double uniform = (double(mix(key + i) >> 12) + 0.5) * 0x1p-52;
    values[i] = float(0.02 * normalQuantile(uniform));
  }
}
