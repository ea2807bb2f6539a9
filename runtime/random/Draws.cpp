#include "runtime/random/Draws.h"

#include "runtime/random/Philox.h"

#include <cmath>
#include <cstring>

namespace diffrun {
namespace {

constexpr uint64_t kWord = uint64_t{1} << 32;

/// u in (0, 1]: the top 24 bits, plus one unit, so that log is finite.
float openUniform(uint32_t word) { return static_cast<float>((word >> 8) + 1) * 0x1p-24f; }

/// Natural logarithm for 2^-24 <= u <= 1. u = 2^e * (1 + f) with 1 + f in
/// [sqrt(1/2), sqrt(2)); log1p(f) by s = f / (2 + f), an odd series in s. Every
/// step is one rounded operation or one fma: the same bits everywhere.
float logPolynomial(float u) {
  uint32_t bits;
  std::memcpy(&bits, &u, sizeof(bits));
  int exponent = static_cast<int>(bits >> 23) - 127;
  bits = (bits & 0x007fffff) | 0x3f800000;
  float mantissa;
  std::memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa > 1.41421354f) {
    mantissa *= 0.5f;
    exponent += 1;
  }
  float f = mantissa - 1.0f;
  float s = f / (2.0f + f);
  float z = s * s;
  float p = std::fma(z, 0.22222222f, 0.28571429f);
  p = std::fma(z, p, 0.4f);
  p = std::fma(z, p, 0.66666667f);
  p = std::fma(z, p, 2.0f);
  return std::fma(static_cast<float>(exponent), 0.69314718f, s * p);
}

/// cos(2 pi t) and sin(2 pi t) for t in [0, 1): the nearest quarter turn is
/// removed exactly, the rest (|r| <= 1/8 turn) goes through Taylor series.
void turn(float t, float &cosine, float &sine) {
  float quarters = std::nearbyint(t * 4.0f);
  float r = std::fma(quarters, -0.25f, t) * 6.28318531f;
  float z = r * r;
  float s = std::fma(z, 2.7557319e-6f, -1.9841270e-4f);
  s = std::fma(z, s, 8.3333333e-3f);
  s = std::fma(z, s, -0.16666667f);
  s = std::fma(r * z, s, r);
  float c = std::fma(z, 2.4801587e-5f, -1.3888889e-3f);
  c = std::fma(z, c, 4.1666667e-2f);
  c = std::fma(z, c, -0.5f);
  c = std::fma(z, c, 1.0f);
  switch (static_cast<int>(quarters) & 3) {
  case 0:
    cosine = c, sine = s;
    break;
  case 1:
    cosine = -s, sine = c;
    break;
  case 2:
    cosine = -c, sine = -s;
    break;
  default:
    cosine = s, sine = -c;
    break;
  }
}

/// Two normals from two words: radius from the first, angle from the second.
void boxMuller(uint32_t first, uint32_t second, float &a, float &b) {
  float radius = std::sqrt(-2.0f * logPolynomial(openUniform(first)));
  float cosine, sine;
  turn(static_cast<float>(second >> 8) * 0x1p-24f, cosine, sine);
  a = radius * cosine;
  b = radius * sine;
}

/// Calls convert(words, four floats) for each group of four elements.
template <typename Convert>
Status draw(const DrawKey &key, int64_t samples, int64_t elements, float *out, Convert convert) {
  if (samples < 0 || elements < 0 || key.iteration >= kWord ||
      static_cast<uint64_t>(samples) > kWord ||
      key.firstSample > kWord - static_cast<uint64_t>(samples) ||
      static_cast<uint64_t>(elements) / 4 >= kWord)
    return Status::invalid("a random draw leaves its counter: iteration " +
                           std::to_string(key.iteration) + ", samples up to " +
                           std::to_string(key.firstSample + samples) + ", " +
                           std::to_string(elements) +
                           " elements a sample (each of iteration, sample and "
                           "element / 4 must stay below 2^32)");
  std::array<uint32_t, 2> words{static_cast<uint32_t>(key.seed),
                                static_cast<uint32_t>(key.seed >> 32)};
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t element = 0; element < elements; element += 4) {
      std::array<uint32_t, 4> counter{static_cast<uint32_t>(element / 4),
                                      static_cast<uint32_t>(key.firstSample + sample),
                                      static_cast<uint32_t>(key.iteration), key.stream};
      float four[4];
      convert(philox4x32(counter, words), four);
      for (int64_t i = 0; i < 4 && element + i < elements; ++i)
        out[sample * elements + element + i] = four[i];
    }
  return {};
}

} // namespace

Status drawNormal(const DrawKey &key, int64_t samples, int64_t elements, float *out) {
  return draw(key, samples, elements, out, [](const std::array<uint32_t, 4> &words, float *four) {
    boxMuller(words[0], words[1], four[0], four[1]);
    boxMuller(words[2], words[3], four[2], four[3]);
  });
}

Status drawUniform(const DrawKey &key, int64_t samples, int64_t elements, float *out) {
  return draw(key, samples, elements, out, [](const std::array<uint32_t, 4> &words, float *four) {
    for (int i = 0; i < 4; ++i)
      four[i] = static_cast<float>(words[i] >> 8) * 0x1p-24f;
  });
}

} // namespace diffrun
