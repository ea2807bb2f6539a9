"""The draws of docs/random.md, computed in exact rational arithmetic.

    tests/oracle/draws.py          prints the table of tests/unit/random/GoldenDraws.inc

Independent of the C++ code: no floating point is used at all. A number is a Fraction;
f32() rounds one to the nearest single-precision number, ties to even, which is what
every operation of the specification does once.
"""
import struct
from fractions import Fraction
from math import isqrt

MASK = 0xffffffff


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al. 2011)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def exponent_of(x: Fraction) -> int:
    """e with 2^e <= |x| < 2^(e + 1)."""
    e = abs(x.numerator).bit_length() - x.denominator.bit_length()
    return e if abs(x) >= Fraction(2) ** e else e - 1


def f32(x: Fraction) -> Fraction:
    """The nearest single-precision number, ties to even (no overflow here)."""
    if x == 0:
        return x
    unit = Fraction(2) ** (max(exponent_of(x), -126) - 23)
    return round(x / unit) * unit  # round() of a Fraction takes ties to even


def fma(a, b, c):
    return f32(a * b + c)


def sqrt32(x: Fraction) -> Fraction:
    """The correctly rounded square root: from below and above by integers."""
    if x == 0:
        return x
    shift = 200
    low = Fraction(isqrt((x.numerator << (2 * shift)) // x.denominator), 1 << shift)
    high = low + Fraction(1, 1 << shift)
    assert f32(low) == f32(high)
    return f32(low)


def c(text: str) -> Fraction:
    """A constant of the specification, as f32 holds it."""
    return f32(Fraction(text))


def log(u: Fraction) -> Fraction:
    e = exponent_of(u)
    mantissa = u / Fraction(2) ** e
    if mantissa > c("1.41421354"):
        mantissa, e = mantissa / 2, e + 1
    f = f32(mantissa - 1)
    s = f32(f / f32(2 + f))
    z = f32(s * s)
    p = fma(z, c("0.22222222"), c("0.28571429"))
    p = fma(z, p, c("0.4"))
    p = fma(z, p, c("0.66666667"))
    p = fma(z, p, Fraction(2))
    return fma(Fraction(e), c("0.69314718"), f32(s * p))


def turn(t: Fraction) -> tuple:
    """cos and sin of 2 pi t."""
    quarters = round(t * 4)
    r = f32(fma(Fraction(quarters), Fraction(-1, 4), t) * c("6.28318531"))
    z = f32(r * r)
    s = fma(z, c("2.7557319e-6"), c("-1.9841270e-4"))
    s = fma(z, s, c("8.3333333e-3"))
    s = fma(z, s, c("-0.16666667"))
    sine = fma(f32(r * z), s, r)
    k = fma(z, c("2.4801587e-5"), c("-1.3888889e-3"))
    k = fma(z, k, c("4.1666667e-2"))
    k = fma(z, k, Fraction(-1, 2))
    cosine = fma(z, k, Fraction(1))
    return [(cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine)][quarters % 4]


def words_of(seed, stream, iteration, sample, element):
    return philox((element // 4, sample, iteration, stream), (seed & MASK, seed >> 32))


def normal(seed, stream, iteration, sample, element) -> Fraction:
    pair = element % 4 // 2
    first, second = words_of(seed, stream, iteration, sample, element)[2 * pair:2 * pair + 2]
    u, t = Fraction((first >> 8) + 1, 1 << 24), Fraction(second >> 8, 1 << 24)
    radius = sqrt32(f32(-2 * log(u)))
    return f32(radius * turn(t)[element % 2])


def uniform(seed, stream, iteration, sample, element) -> Fraction:
    return Fraction(words_of(seed, stream, iteration, sample, element)[element % 4] >> 8, 1 << 24)


KEYS = [(0, 0, 0, 0, 0), (0, 0, 0, 0, 1), (1, 2, 3, 4, 5), (42, 3, 9, 5, 7),
        (0xfedcba9876543210, 0xffffffff, 0xffffffff, 0xffffffff, 2),
        (1 << 32, 1, 0, 0, 3), (7, 64, 1199, 63, 1023), (5, 1 << 24, 0, 0, (1 << 20) + 6)]


def bits(x: Fraction) -> int:
    return struct.unpack("<I", struct.pack("<f", float(x)))[0]


if __name__ == "__main__":
    print("// Made by tests/oracle/draws.py: seed, stream, iteration, sample, element,")
    print("// bits of the normal and of the uniform draw.")
    # The keys above, then a run of elements: many quadrants and exponents.
    for key in KEYS + [(11, 1, 2, 3, e) for e in range(56)]:
        numbers = ", ".join(f"{k:#x}" for k in key)
        print(f"{{{numbers}, {bits(normal(*key)):#010x}, {bits(uniform(*key)):#010x}}},")
