// A test runner in one header: one line a case, and the sum at the end.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace forkcast::test {

/// What a case found. `fail` may be called often; the first reason is kept.
class Report {
public:
    void fail(const std::string& reason) {
        if (reason_.empty()) reason_ = reason;
    }
    void check(bool ok, const std::string& what) {
        if (!ok) fail(what);
    }
    void note(const std::string& text) { note_ = text; }
    bool passed() const { return reason_.empty(); }
    const std::string& reason() const { return reason_; }
    const std::string& note() const { return note_; }

private:
    std::string reason_, note_;
};

class Suite {
public:
    using Case = std::function<void(Report&)>;

    void add(std::string name, Case run) { cases_.push_back({std::move(name), std::move(run)}); }

    /// Names of the cases that `run(filter)` runs.
    std::vector<std::string> names(const std::string& filter) const {
        std::vector<std::string> out;
        for (const Entry& entry : cases_)
            if (entry.name.find(filter) != std::string::npos) out.push_back(entry.name);
        return out;
    }

    /// Runs the cases whose name contains `filter`; returns the exit status.
    int run(const std::string& filter) {
        int passed = 0, failed = 0;
        const auto start = std::chrono::steady_clock::now();
        for (const Entry& entry : cases_) {
            if (entry.name.find(filter) == std::string::npos) continue;
            Report report;
            const auto begin = std::chrono::steady_clock::now();
            try {
                entry.run(report);
            } catch (const std::exception& error) {
                report.fail(error.what());
            }
            const std::string& text = report.passed() ? report.note() : report.reason();
            std::printf("%s %s%s%s (%.1f s)\n", report.passed() ? "ok    " : "FAILED", entry.name.c_str(),
                        text.empty() ? "" : ": ", text.c_str(), seconds_since(begin));
            std::fflush(stdout);
            ++(report.passed() ? passed : failed);
        }
        std::printf("%d passed, %d failed in %.1f s\n", passed, failed, seconds_since(start));
        return failed == 0 ? 0 : 1;
    }

private:
    static double seconds_since(std::chrono::steady_clock::time_point start) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    struct Entry {
        std::string name;
        Case run;
    };
    std::vector<Entry> cases_;
};

/// Random trees of a case: 200, or FORKCAST_TREES where every instruction is slow (sanitizers).
inline int tree_count() {
    static const int count = [] {
        const char* text = std::getenv("FORKCAST_TREES");
        const int wanted = text == nullptr ? 0 : std::atoi(text);
        return wanted > 0 ? wanted : 200;
    }();
    return count;
}

void add_emulator_cases(Suite& suite);
void add_attention_cases(Suite& suite);
void add_conv_cases(Suite& suite);
void add_delta_cases(Suite& suite);
void add_branch_cases(Suite& suite);
void add_append_cases(Suite& suite);
void add_refusal_cases(Suite& suite);

}  // namespace forkcast::test
