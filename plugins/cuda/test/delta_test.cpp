// TreeDeltaRule against the float64 recurrence (one state per row) on random trees.
#include "delta_inputs.h"
#include "harness.h"

namespace forkcast::test {
namespace {

template <class T>
void run_rows(int index, const Tree& tree, const DeltaSizes& s, bool identical, bool decaying, Random& random,
              ErrorMeter& meter) {
    DeltaCase c = delta_inputs(s, identical, decaying, random);
    DeltaBuffers<T> b(c);
    Buffer<std::uint8_t> ancestors(tree.mask());
    TreeDeltaRuleParams p;
    p.q = b.q.data(), p.k = b.k.data(), p.v = b.v.data(), p.g = b.g.data(), p.beta = b.beta.data();
    p.state = b.state.data(), p.ancestors = ancestors.data();
    p.o = b.o.data(), p.u = b.u.data(), p.cumulative_g = b.cumulative_g.data();
    p.rows = s.rows, p.key_heads = s.key_heads, p.value_heads = s.value_heads;
    p.key_dim = s.key_dim, p.value_dim = s.value_dim;
    const auto result = [&] {
        std::vector<unsigned char> all = b.o.bytes();
        for (const auto& more : {b.u.bytes(), b.cumulative_g.bytes()}) all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    run_checked(index, [&] { return launch_tree_delta_rule(p, TypeInfo<T>::type, nullptr); }, result);
    const DeltaResult want = reference_delta(tree, c);
    const double bound = 1e-5;  // tighter than invariant 4: G never enters as a difference
    meter.compare(b.o, want.o, bound);
    meter.compare(b.u, want.u, bound);
    meter.compare(b.cumulative_g, want.cumulative_g, 1e-7 + 0x1p-23 * want.largest_g);
}

template <class T>
void run_tree(int index, int key_dim, ErrorMeter& meter) {
    Random random(static_cast<std::uint64_t>(9000 * key_dim + index));
    const Tree tree = random_tree(index, 257, random);
    DeltaSizes s{tree.rows(), 1, 1, key_dim, 32};
    if (s.rows < 100) {
        s.key_heads = random.integer(1, 2);
        s.value_heads = s.key_heads * (1 + index / 4 % 4);
        s.value_dim = 32 * random.integer(1, 2);
    } else {
        s.value_heads = random.integer(1, 2);
    }
    const int kind = random.integer(0, 5);
    run_rows<T>(index, tree, s, kind == 5, kind == 4, random, meter);
}

/// Prefill: a chain of 512 rows, near-identical keys or strong decay (|G| above 2000).
template <class T>
void run_long_chain(bool identical, Report& report) {
    Random random(77);
    ErrorMeter meter;
    run_rows<T>(0, chain(512), {512, 1, 2, 128, 64}, identical, !identical, random, meter);
    report.check(meter.ratio() <= 1.0, "error above its bound: " + meter.text(1));
    report.note(meter.text(1));
}

}  // namespace

void add_delta_cases(Suite& suite) {
    for_each_type([&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        const std::string name = std::string("tree_delta_rule ") + TypeInfo<T>::name;
        for (const int size : {64, 128, 256})
            suite.add(name + " DK=" + std::to_string(size), [size](Report& report) {
                ErrorMeter meter;
                for (int i = 0; i < tree_count(); ++i) run_tree<T>(i, size, meter);
                report.check(meter.ratio() <= 1.0, "error above its bound: " + meter.text(tree_count()));
                report.note(meter.text(tree_count()));
            });
        suite.add(name + " chain of 512, near-identical keys", [](Report& r) { run_long_chain<T>(true, r); });
        suite.add(name + " chain of 512, strong decay", [](Report& r) { run_long_chain<T>(false, r); });
    });
}

}  // namespace forkcast::test
