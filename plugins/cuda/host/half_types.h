// bfloat16 and IEEE half for the CPU build: storage types with round-to-nearest-even conversion.
#pragma once

#include <cstdint>
#include <cstring>

namespace forkcast {

struct bf16 {
    std::uint16_t bits;
};
struct f16 {
    std::uint16_t bits;
};

namespace host {

inline std::uint32_t float_bits(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

inline float bits_float(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

inline float widen(bf16 x) { return bits_float(static_cast<std::uint32_t>(x.bits) << 16); }

inline float widen(f16 x) {
    const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
    const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
    const std::uint32_t mantissa = x.bits & 0x3ffu;
    if (exponent == 0x1fu) return bits_float(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return bits_float(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
}

inline bf16 narrow_bf16(float x) {
    const std::uint32_t bits = float_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline f16 narrow_f16(float x) {
    const std::uint32_t bits = float_bits(x);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (magnitude < 0x38800000u) {  // subnormal half: adding 0.5 aligns the last bit kept, rounding to even
        const float aligned = bits_float(magnitude) + 0.5f;
        return {static_cast<std::uint16_t>(sign | (float_bits(aligned) - 0x3f000000u))};
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace host
}  // namespace forkcast
