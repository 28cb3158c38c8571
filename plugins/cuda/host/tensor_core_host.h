// Tensor core words for the CPU build, with the fragment layouts of the PTX manual: ldmatrix, mma.m16n8k16, cp.async.
//
// Layout of a lane, with g = lane / 4 and t = lane % 4 (each 32-bit register holds two neighbouring 16-bit elements):
//   A 16x16: registers (row g, columns 2t..), (g+8, 2t..), (g, 2t+8..), (g+8, 2t+8..)
//   B 16x8:  registers (rows 2t.., column g), (rows 2t+8.., column g)
//   C 16x8:  (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
#pragma once

#include "cuda_host.h"

namespace forkcast {
namespace host {

template <class T>
float half_of(std::uint32_t pair, int which) {
    return widen(T{static_cast<std::uint16_t>(which == 0 ? pair : pair >> 16)});
}

struct Fragments {
    std::uint32_t a[4], b[2];
};

}  // namespace host

/// c += A B over the 32 lanes of a warp. The product is made once, by the last lane to arrive.
template <class T>
void mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    using host::Fragments;
    const auto product = [](const Fragments* all, unsigned char* result) {
        float left[16][16], right[16][8], out[16][8] = {};
        for (int lane = 0; lane < host::kWarpSize; ++lane) {
            const int g = lane / 4, t = lane % 4;
            for (int e = 0; e < 2; ++e) {
                for (int i = 0; i < 4; ++i)
                    left[g + i % 2 * 8][2 * t + e + i / 2 * 8] = host::half_of<T>(all[lane].a[i], e);
                for (int i = 0; i < 2; ++i) right[2 * t + e + i * 8][g] = host::half_of<T>(all[lane].b[i], e);
            }
        }
        for (int m = 0; m < 16; ++m)
            for (int k = 0; k < 16; ++k)
                for (int n = 0; n < 8; ++n) out[m][n] += left[m][k] * right[k][n];
        std::memcpy(result, out, sizeof out);
    };
    Fragments mine;
    std::copy_n(a, 4, mine.a);
    std::copy_n(b, 2, mine.b);
    const Fragments* all = host::Grid::instance().exchange(mine, product);
    const auto* out = reinterpret_cast<const float*>(reinterpret_cast<const unsigned char*>(all) +
                                                     host::kWarpSize * host::kSlotBytes);
    const int g = host::lane() / 4, t = host::lane() % 4;
    for (int i = 0; i < 4; ++i) c[i] += out[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
}

/// Four 8x8 matrices of 16-bit elements; lane 8i + r gives the address of row r of matrix i.
inline void load_matrices(std::uint32_t (&out)[4], const void* row) {
    const void* const* rows = host::Grid::instance().exchange(row);
    for (int i = 0; i < 4; ++i)
        std::memcpy(&out[i], static_cast<const std::uint16_t*>(rows[8 * i + host::lane() / 4]) + host::lane() % 4 * 2, 4);
}

/// The same, each matrix transposed.
inline void load_matrices_transposed(std::uint32_t (&out)[4], const void* row) {
    const void* const* rows = host::Grid::instance().exchange(row);
    for (int i = 0; i < 4; ++i) {
        const int first = 8 * i + host::lane() % 4 * 2, column = host::lane() / 4;
        const std::uint32_t low = static_cast<const std::uint16_t*>(rows[first])[column];
        const std::uint32_t high = static_cast<const std::uint16_t*>(rows[first + 1])[column];
        out[i] = low | high << 16;
    }
}

/// 16 bytes from global to shared memory, zeros if not `valid`; made by async_wait, so that a missing one shows.
inline void async_copy_16(void* shared, const void* global, bool valid) {
    host::Grid::instance().start_copy(shared, global, 16, valid);
}

inline void async_wait() { host::Grid::instance().finish_copies(); }

/// Two floats rounded to T in one register, the first in the low half.
template <class T>
std::uint32_t pack_pair(float low, float high) {
    T a, b;
    store_float(&a, low);
    store_float(&b, high);
    return static_cast<std::uint32_t>(a.bits) | static_cast<std::uint32_t>(b.bits) << 16;
}

}  // namespace forkcast
