// Tensors of the tests: one allocation of exactly the right size, readable by the kernels and by the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "../kernels/kernels.h"
#include "../kernels/numeric.cuh"
#include "random_tree.h"

namespace forkcast::test {

/// Managed memory on a GPU, an exact heap block otherwise (so that an address sanitizer sees a row too many).
template <class T>
class Buffer {
public:
    explicit Buffer(std::size_t size) : size_(size) {
#if defined(__CUDACC__)
        if (size > 0 && cudaMallocManaged(&data_, size * sizeof(T)) != cudaSuccess)
            throw std::runtime_error("cudaMallocManaged failed");
#else
        if (size > 0) data_ = static_cast<T*>(::operator new(size * sizeof(T), std::align_val_t(64)));
#endif
    }
    template <class U>
    explicit Buffer(const std::vector<U>& values) : Buffer(values.size()) {
        for (std::size_t i = 0; i < size_; ++i) assign(i, values[i]);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() {
#if defined(__CUDACC__)
        cudaFree(data_);
#else
        ::operator delete(data_, std::align_val_t(64));
#endif
    }

    T* data() { return data_; }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return data_[i]; }
    /// All bytes 0xff: NaN in every floating type.
    void poison() {
        if (size_ > 0) std::memset(static_cast<void*>(data_), 0xff, size_ * sizeof(T));
    }
    std::vector<unsigned char> bytes() const {
        const auto* raw = reinterpret_cast<const unsigned char*>(data_);
        return {raw, raw + size_ * sizeof(T)};
    }

private:
    template <class U>
    void assign(std::size_t i, U value) {
        if constexpr (std::is_integral_v<T>)
            data_[i] = static_cast<T>(value);
        else
            store_float(&data_[i], static_cast<float>(value));
    }

    T* data_ = nullptr;
    std::size_t size_;
};

/// The values a buffer really holds after rounding to its type.
template <class T>
std::vector<double> values_of(Buffer<T>& buffer) {
    std::vector<double> out(buffer.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(to_float(buffer[i]));
    return out;
}

inline std::vector<double> normal_values(std::size_t count, double scale, Random& random) {
    std::vector<double> out(count);
    for (double& x : out) x = scale * random.normal();
    return out;
}

template <class T>
struct TypeInfo;
template <>
struct TypeInfo<float> {
    static constexpr ElementType type = ElementType::kFloat32;
    static constexpr const char* name = "f32";
    static constexpr double rounding = 0x1p-24;
};
template <>
struct TypeInfo<f16> {
    static constexpr ElementType type = ElementType::kFloat16;
    static constexpr const char* name = "f16";
    static constexpr double rounding = 0x1p-11;
};
template <>
struct TypeInfo<bf16> {
    static constexpr ElementType type = ElementType::kBFloat16;
    static constexpr const char* name = "bf16";
    static constexpr double rounding = 0x1p-8;
};

/// Error against the reference in units of its bound: |x - ref| <= absolute + rounding(T) |ref|.
class ErrorMeter {
public:
    template <class T>
    void compare(Buffer<T>& got, const std::vector<double>& want, double absolute) {
        compare(got, want, std::vector<double>(want.size(), absolute));
    }
    /// The same with an absolute bound for each element.
    template <class T>
    void compare(Buffer<T>& got, const std::vector<double>& want, const std::vector<double>& absolute) {
        const std::vector<double> values = values_of(got);
        for (std::size_t i = 0; i < want.size(); ++i) {
            const double error = std::fabs(values[i] - want[i]);
            const double bound = absolute[i] + TypeInfo<T>::rounding * std::fabs(want[i]);
            const double ratio = error / bound;
            if (!(error <= worst_)) worst_ = std::isnan(error) ? INFINITY : error;
            if (!(ratio <= ratio_)) ratio_ = std::isnan(ratio) ? INFINITY : ratio;
        }
        ++compared_;
    }
    double ratio() const { return ratio_; }
    std::string text(int trees) const {
        char line[160];
        std::snprintf(line, sizeof line, "%d trees, largest error %.2e, %.0f %% of its bound", trees, worst_,
                      100.0 * ratio_);
        return line;
    }

private:
    double worst_ = 0.0, ratio_ = 0.0;
    int compared_ = 0;
};

/// Waits for the device; the CPU build has nothing to wait for.
inline void synchronize() {
#if defined(__CUDACC__)
    if (cudaDeviceSynchronize() != cudaSuccess) throw std::runtime_error("the kernel failed on the device");
#endif
}

/// Runs `launch` (which returns a Status) and, for every fourth tree of the CPU build, once more with the threads in
/// reverse order: `result` must be the same bit for bit, or a barrier is missing.
template <class Launch, class Result>
void run_checked(int index, Launch launch, Result result) {
    const Status status = launch();
    if (status != Status::kOk) throw std::runtime_error(std::string("launch: ") + status_name(status));
    synchronize();
#if !defined(__CUDACC__)
    if (index % 4 != 0) return;
    const auto first = result();
    host::Grid::instance().set_order(host::Order::kReverse);
    const Status again = launch();
    host::Grid::instance().set_order(host::Order::kForward);
    if (again != Status::kOk || result() != first) throw std::runtime_error("the result depends on the thread order");
#else
    (void)index, (void)result;
#endif
}

/// Calls f with a null pointer of each element type.
template <class F>
void for_each_type(F f) {
    f(static_cast<float*>(nullptr));
    f(static_cast<f16*>(nullptr));
    f(static_cast<bf16*>(nullptr));
}

}  // namespace forkcast::test
