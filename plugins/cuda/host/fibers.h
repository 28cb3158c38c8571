// Cooperative fibers for the CPU build of the kernels: one fiber stands for one CUDA thread of a block.
//
// A fiber is started once with ucontext and from then on switched with the compiler's own setjmp (three words, no
// system call), so a barrier of 512 threads costs microseconds. Each stack ends in a guard page.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <stdexcept>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace forkcast::host {

/// One fiber: runs `entry(arg)` again each time it is restarted; `yield` goes back to `resume`'s caller.
class Fiber {
public:
    using Entry = void (*)(void*);

    Fiber() = default;
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber() {
        if (memory_ != nullptr) munmap(memory_, bytes_);
    }

    /// Allocates the stack; `entry` must never return (it yields for ever). Stacks of different `index` start at
    /// different offsets, or the tops of all stacks would fight for the same cache lines.
    void create(Entry entry, void* arg, std::size_t index) {
        const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        bytes_ = kStackBytes + page;
        memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory_ == MAP_FAILED) {
            memory_ = nullptr;
            throw std::runtime_error("cuda host build: cannot allocate a fiber stack");
        }
        mprotect(memory_, page, PROT_NONE);
        usable_ = bytes_ - index * kStagger % kStaggerRange;
        entry_ = entry;
        arg_ = arg;
    }

    /// Runs the fiber until it yields.
    __attribute__((noinline)) void resume() {
        if (__builtin_setjmp(caller_) == 0) enter();
    }

    /// Called inside the fiber: back to the caller of `resume`.
    __attribute__((noinline)) void yield() {
        if (__builtin_setjmp(self_) == 0) jump(caller_);
    }

private:
    using Point = void* [5];
    static constexpr std::size_t kStackBytes = 128 * 1024, kStagger = 448, kStaggerRange = 32 * 1024;

    /// Never in the function that holds the matching setjmp.
    [[noreturn]] __attribute__((noinline)) static void jump(Point& point) { __builtin_longjmp(point, 1); }

    [[noreturn]] __attribute__((noinline)) void enter() {
        if (started_) jump(self_);
        started_ = true;
        ucontext_t start;
        getcontext(&start);
        start.uc_stack.ss_sp = memory_;
        start.uc_stack.ss_size = usable_;
        start.uc_link = nullptr;
        const auto address = reinterpret_cast<std::size_t>(this);
        makecontext(&start, reinterpret_cast<void (*)()>(&Fiber::trampoline), 2,
                    static_cast<unsigned>(address >> 32), static_cast<unsigned>(address & 0xffffffffu));
        setcontext(&start);
        std::abort();
    }

    static void trampoline(unsigned high, unsigned low) {
        auto* fiber = reinterpret_cast<Fiber*>((static_cast<std::size_t>(high) << 32) | low);
        fiber->entry_(fiber->arg_);
    }

    void* memory_ = nullptr;
    std::size_t bytes_ = 0, usable_ = 0;
    Entry entry_ = nullptr;
    void* arg_ = nullptr;
    bool started_ = false;
    Point self_{};
    Point caller_{};
};

}  // namespace forkcast::host
