// The CPU build itself: barriers are real, mistakes are caught, half types round as IEEE says.
#include "../kernels/tensor_core.cuh"
#include "buffers.h"
#include "harness.h"

namespace forkcast::test {
namespace {

struct Count {
    int* out;
};

void reverse_through_shared(Count p) {
    FORKCAST_DYNAMIC_SHARED(memory);
    int* shared = reinterpret_cast<int*>(memory);
    const int i = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
    shared[i] = i + static_cast<int>(blockIdx.x) * 1000;
    __syncthreads();
    p.out[static_cast<int>(blockIdx.x) * n + i] = shared[n - 1 - i];
}

void missing_barrier(Count p) {
    FORKCAST_DYNAMIC_SHARED(memory);
    int* shared = reinterpret_cast<int*>(memory);
    const int i = static_cast<int>(threadIdx.x);
    shared[i] = i;
    p.out[i] = shared[(i + 1) % 64];
}

void divergent_barrier(Count) {
    if (threadIdx.x != 5) __syncthreads();
}

void divergent_shuffle(Count) {
    if (threadIdx.x != 5) __shfl_xor_sync(kFullWarp, 1.0f, 1);
}

void forgotten_copy(Count) {
    FORKCAST_DYNAMIC_SHARED(memory);
    static const float source[4] = {};
    async_copy_16(memory, source, true);
}

void warp_words(Count p) {
    const int i = static_cast<int>(threadIdx.x);
    const float sum = lane_sum<32>(static_cast<float>(i)), high = lane_max<8>(static_cast<float>(i));
    const unsigned odd = __ballot_sync(kFullWarp, i & 1);
    __syncwarp();
    p.out[i] = static_cast<int>(sum) == (i < 32 ? 496 : 1520) && static_cast<int>(high) == i / 8 * 8 + 7 &&
               odd == 0xaaaaaaaau && __syncthreads_or(i == 40) == 1 && __syncthreads_or(0) == 0;
}

template <class K>
std::string error_of(K kernel) {
    try {
        host::Grid::instance().run({1}, 64, 256, [&] { kernel(Count{nullptr}); });
    } catch (const std::logic_error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

void add_emulator_cases(Suite& suite) {
    suite.add("emulator barrier and shared memory", [](Report& report) {
        std::vector<int> out(3 * 512);
        host::Grid::instance().run({3}, 512, 512 * sizeof(int), [&] { reverse_through_shared({out.data()}); });
        for (int i = 0; i < 3 * 512; ++i)
            report.check(out[static_cast<std::size_t>(i)] == i / 512 * 1000 + 511 - i % 512, "wrong value");
    });
    suite.add("emulator thread order shows a missing barrier", [](Report& report) {
        std::vector<int> forward(64), reverse(64);
        host::Grid& grid = host::Grid::instance();
        grid.run({1}, 64, 256, [&] { missing_barrier({forward.data()}); });
        grid.set_order(host::Order::kReverse);
        grid.run({1}, 64, 256, [&] { missing_barrier({reverse.data()}); });
        grid.set_order(host::Order::kForward);
        report.check(forward != reverse, "not seen");
    });
    suite.add("emulator divergent barrier is refused", [](Report& report) {
        report.check(error_of(divergent_barrier).find("__syncthreads") != std::string::npos, "not refused");
    });
    suite.add("emulator divergent warp collective is refused", [](Report& report) {
        report.check(error_of(divergent_shuffle).find("warp collective") != std::string::npos, "not refused");
    });
    suite.add("emulator copy that is never waited for is refused", [](Report& report) {
        report.check(error_of(forgotten_copy).find("copies under way") != std::string::npos, "not refused");
    });
    suite.add("emulator warp collectives", [](Report& report) {
        std::vector<int> out(64, 0);
        host::Grid::instance().run({1}, 64, 0, [&] { warp_words({out.data()}); });
        for (const int ok : out) report.check(ok == 1, "a collective gave a wrong value");
    });
    suite.add("half types round to nearest even", [](Report& report) {
        const auto f16_bits = [](float x) { return host::narrow_f16(x).bits; };
        const auto bf16_bits = [](float x) { return host::narrow_bf16(x).bits; };
        report.check(f16_bits(1.0f) == 0x3c00 && f16_bits(-2.0f) == 0xc000 && f16_bits(65504.0f) == 0x7bff, "f16");
        report.check(f16_bits(65520.0f) == 0x7c00 && f16_bits(65519.0f) == 0x7bff, "f16 overflow");
        report.check(f16_bits(0x1p-24f) == 1 && f16_bits(0x1p-25f) == 0 && f16_bits(0x1.8p-25f) == 1, "f16 subnormal");
        report.check(f16_bits(1.0f + 0x1p-11f) == 0x3c00 && f16_bits(1.0f + 0x3p-11f) == 0x3c02, "f16 ties");
        report.check(bf16_bits(1.0f) == 0x3f80 && bf16_bits(1.0f + 0x1p-8f) == 0x3f80, "bf16");
        report.check(bf16_bits(1.0f + 0x3p-8f) == 0x3f82 && bf16_bits(INFINITY) == 0x7f80, "bf16 ties");
        for (unsigned bits = 0; bits < 0x10000; ++bits) {  // widening and narrowing is the identity but for NaN
            const f16 h{static_cast<std::uint16_t>(bits)};
            const bf16 b{static_cast<std::uint16_t>(bits)};
            report.check(std::isnan(host::widen(h)) || f16_bits(host::widen(h)) == bits, "f16 round trip");
            report.check(std::isnan(host::widen(b)) || bf16_bits(host::widen(b)) == bits, "bf16 round trip");
        }
    });
}

}  // namespace forkcast::test
