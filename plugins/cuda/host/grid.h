// Runs a CUDA grid on the CPU: block after block, every thread of a block as a fiber, with real barriers.
//
// What is emulated: __syncthreads, __syncthreads_or, __syncwarp and the warp collectives of `cuda_host.h`, dynamic
// shared memory of exactly the requested size. What is checked: a barrier that not every thread reaches, and a warp
// collective that not every lane reaches, and a thread that ends with asynchronous copies under way, end the launch with
// an error instead of undefined behaviour. Asynchronous copies are made when they are waited for, not before. Shared memory
// is filled with NaN before each block. `set_order` turns the order of the threads round, so a missing barrier shows
// as a result that depends on the order.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "fibers.h"

namespace forkcast::host {

constexpr int kWarpSize = 32;
constexpr int kMaxThreads = 1024;
constexpr std::size_t kSlotBytes = 32;  // what a lane can hand to its warp at once
constexpr std::size_t kResultBytes = 512;

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/// Order in which the threads between two barriers are run.
enum class Order { kForward, kReverse };

/// What a fiber waits for.
enum class Wait { kNothing, kBlock, kWarp, kDone };

class Grid {
public:
    static Grid& instance() {
        static Grid grid;
        return grid;
    }

    void set_order(Order order) { order_ = order; }

    /// Runs `body` once per thread of the grid. Throws std::logic_error on a divergent barrier.
    void run(Dim3 grid, int threads, std::size_t shared_bytes, std::function<void()> body) {
        if (threads < 1 || threads > kMaxThreads || threads % kWarpSize != 0)
            throw std::logic_error("cuda host build: a block must have 32..1024 threads, a multiple of 32");
        grid_dim = grid;
        block_dim = Dim3(static_cast<unsigned>(threads));
        body_ = std::move(body);
        prepare(threads);
        for (unsigned z = 0; z < grid.z; ++z)
            for (unsigned y = 0; y < grid.y; ++y)
                for (unsigned x = 0; x < grid.x; ++x) {
                    block_index = Dim3(x, y, z);
                    shared_.reset(shared_bytes > 0 ? new unsigned char[shared_bytes] : nullptr);
                    if (shared_bytes > 0) std::memset(shared_.get(), 0xff, shared_bytes);
                    run_block();
                }
        shared_.reset();
    }

    unsigned char* dynamic_shared() { return shared_.get(); }

    /// Block barrier; returns whether `flag` was true on any thread.
    bool sync_block(bool flag) {
        any_[generation_ & 1] = any_[generation_ & 1] || flag;
        const std::uint64_t mine = generation_;
        if (++arrived_ == threads_) {
            arrived_ = 0;
            ++generation_;
            any_[generation_ & 1] = false;
            progressed_ = true;
        } else {
            wait(Wait::kBlock, mine);
        }
        return any_[mine & 1];
    }

    /// Warp barrier that also publishes up to kSlotBytes per lane; returns the values of the 32 lanes.
    template <class T>
    const T* exchange(const T& value) {
        return exchange(value, [](const T*, unsigned char*) {});
    }

    /// The same; the last lane to arrive also calls `finish(values, result)` once for the whole warp. The result lies
    /// behind the values, kResultBytes long.
    template <class T, class Finish>
    const T* exchange(const T& value, Finish finish) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kSlotBytes, "too large for a lane's slot");
        Warp& warp = warps_[static_cast<std::size_t>(current_ / kWarpSize)];
        const std::uint64_t mine = warp.generation;
        T* slots = reinterpret_cast<T*>(warp.slots[mine & 1]);
        std::memcpy(&slots[current_ % kWarpSize], &value, sizeof value);
        if (++warp.arrived == kWarpSize) {
            finish(slots, warp.slots[mine & 1] + kWarpSize * kSlotBytes);
            warp.arrived = 0;
            ++warp.generation;
            progressed_ = true;
        } else {
            wait(Wait::kWarp, mine);
        }
        return slots;
    }

    int current_thread() const { return current_; }

    /// Notes a copy that this thread's next `finish_copies` makes: until then shared memory holds what it held.
    void start_copy(void* to, const void* from, std::size_t bytes, bool valid) {
        pool_[static_cast<std::size_t>(current_)]->copies.push_back({to, from, bytes, valid});
    }
    void finish_copies() {
        std::vector<Copy>& copies = pool_[static_cast<std::size_t>(current_)]->copies;
        for (const Copy& copy : copies) {
            if (copy.valid)
                std::memcpy(copy.to, copy.from, copy.bytes);
            else
                std::memset(copy.to, 0, copy.bytes);
        }
        copies.clear();
    }

    Dim3 grid_dim, block_dim, block_index;

private:
    struct Warp {
        std::uint64_t generation = 0;
        int arrived = 0;
        alignas(16) unsigned char slots[2][kWarpSize * kSlotBytes + kResultBytes] = {};
    };
    struct Copy {
        void* to;
        const void* from;
        std::size_t bytes;
        bool valid;
    };
    struct Thread {
        Grid* grid = nullptr;
        std::vector<Copy> copies;  // started, not yet waited for
        Fiber fiber;
        Wait wait = Wait::kDone;
        std::uint64_t generation = 0;  // of the barrier waited for
    };

    void prepare(int threads) {
        threads_ = threads;
        while (static_cast<int>(pool_.size()) < threads) {
            pool_.push_back(std::make_unique<Thread>());
            pool_.back()->grid = this;
            pool_.back()->fiber.create(&Grid::fiber_main, pool_.back().get(), pool_.size());
        }
        warps_.assign(static_cast<std::size_t>(threads / kWarpSize), Warp{});
    }

    static void fiber_main(void* arg) {
        auto* thread = static_cast<Thread*>(arg);
        for (;;) {
            thread->grid->body_();
            thread->grid->unfinished_ = thread->grid->unfinished_ || !thread->copies.empty();
            thread->wait = Wait::kDone;
            thread->grid->progressed_ = true;
            --thread->grid->live_;
            thread->fiber.yield();
        }
    }

    /// Leaves the fiber until the barrier has moved on from `generation`.
    void wait(Wait what, std::uint64_t generation) {
        Thread& thread = *pool_[static_cast<std::size_t>(current_)];
        thread.wait = what;
        thread.generation = generation;
        thread.fiber.yield();
        thread.wait = Wait::kNothing;
    }

    void run_block() {
        for (int i = 0; i < threads_; ++i) pool_[static_cast<std::size_t>(i)]->wait = Wait::kNothing;
        arrived_ = 0;
        any_[0] = any_[1] = false;
        for (Warp& warp : warps_) warp.arrived = 0;
        const int warps = threads_ / kWarpSize;
        for (live_ = threads_; live_ > 0;) {
            progressed_ = false;
            const std::uint64_t before = generation_;
            for (int w = 0; w < warps; ++w) run_warp(order_ == Order::kForward ? w : warps - 1 - w);
            if (live_ > 0 && !progressed_ && generation_ == before) fail();
        }
        if (!unfinished_) return;
        unfinished_ = false;
        pool_.clear();
        throw std::logic_error("cuda host build: a thread ended with copies under way");
    }

    /// Runs the lanes of one warp until each waits at the block barrier or has ended.
    void run_warp(int warp) {
        for (bool again = true; again;) {
            again = false;
            const Warp& state = warps_[static_cast<std::size_t>(warp)];
            const std::uint64_t before = state.generation;
            for (int l = 0; l < kWarpSize; ++l) {
                current_ = warp * kWarpSize + (order_ == Order::kForward ? l : kWarpSize - 1 - l);
                Thread& thread = *pool_[static_cast<std::size_t>(current_)];
                const bool stuck = thread.wait == Wait::kDone ||
                                   (thread.wait == Wait::kBlock && thread.generation == generation_) ||
                                   (thread.wait == Wait::kWarp && thread.generation == state.generation);
                if (!stuck) thread.fiber.resume();
            }
            again = state.generation != before;
        }
    }

    /// Some threads wait for ever: report it and drop the fibers, which hold half-run kernels.
    void fail() {
        bool in_warp = false;
        for (int i = 0; i < threads_; ++i) in_warp |= pool_[static_cast<std::size_t>(i)]->wait == Wait::kWarp;
        pool_.clear();
        throw std::logic_error(in_warp ? "cuda host build: a warp collective was not reached by every lane"
                                       : "cuda host build: __syncthreads was not reached by every thread");
    }

    Order order_ = Order::kForward;
    std::function<void()> body_;
    std::vector<std::unique_ptr<Thread>> pool_;
    std::vector<Warp> warps_;
    std::unique_ptr<unsigned char[]> shared_;
    int threads_ = 0, current_ = 0, arrived_ = 0, live_ = 0;
    std::uint64_t generation_ = 0;
    bool any_[2] = {false, false};
    bool progressed_ = false, unfinished_ = false;
};

}  // namespace forkcast::host
