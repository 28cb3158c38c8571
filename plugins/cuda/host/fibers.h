// Cooperative fibers for the CPU build of the kernels: one fiber stands for one CUDA thread of a block.
//
// A fiber is created once with ucontext and then only switched with _setjmp/_longjmp (no system call), so a block of
// 512 threads costs microseconds to start. Each stack ends in a guard page.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

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

    /// Allocates the stack; `entry` must never return (it yields for ever).
    void create(Entry entry, void* arg) {
        const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        bytes_ = kStackBytes + page;
        memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory_ == MAP_FAILED) {
            memory_ = nullptr;
            throw std::runtime_error("cuda host build: cannot allocate a fiber stack");
        }
        mprotect(memory_, page, PROT_NONE);
        entry_ = entry;
        arg_ = arg;
    }

    /// Runs the fiber until it yields.
    void resume() {
        if (_setjmp(caller_) != 0) return;
        if (started_) _longjmp(self_, 1);
        started_ = true;
        ucontext_t start;
        getcontext(&start);
        start.uc_stack.ss_sp = memory_;
        start.uc_stack.ss_size = bytes_;
        start.uc_link = nullptr;
        const auto address = reinterpret_cast<std::size_t>(this);
        makecontext(&start, reinterpret_cast<void (*)()>(&Fiber::trampoline), 2,
                    static_cast<unsigned>(address >> 32), static_cast<unsigned>(address & 0xffffffffu));
        setcontext(&start);
    }

    /// Called inside the fiber: back to the caller of `resume`.
    void yield() {
        if (_setjmp(self_) == 0) _longjmp(caller_, 1);
    }

private:
    static constexpr std::size_t kStackBytes = 128 * 1024;

    static void trampoline(unsigned high, unsigned low) {
        auto* fiber = reinterpret_cast<Fiber*>((static_cast<std::size_t>(high) << 32) | low);
        fiber->entry_(fiber->arg_);
    }

    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
    Entry entry_ = nullptr;
    void* arg_ = nullptr;
    bool started_ = false;
    jmp_buf self_{};
    jmp_buf caller_{};
};

}  // namespace forkcast::host
