// TreeCausalConv against the float64 reference on random trees.
#include "buffers.h"
#include "harness.h"
#include "reference.h"

namespace forkcast::test {
namespace {

template <class T>
void run_tree(int index, ErrorMeter& meter) {
    Random random(static_cast<std::uint64_t>(5000 + index));
    const Tree tree = random_tree(index, 257, random);
    const int taps = index % 3 == 0 ? random.integer(1, 8) : 4;
    const int channels = index % 4 == 0 ? random.integer(1, 300) : 128;
    const auto rows = static_cast<std::size_t>(tree.rows()), width = static_cast<std::size_t>(channels);
    Buffer<T> x(normal_values(rows * width, 1.0, random));
    Buffer<T> past(normal_values(static_cast<std::size_t>(taps - 1) * width, 1.0, random));
    Buffer<T> weight(normal_values(width * static_cast<std::size_t>(taps), 0.7, random));
    Buffer<std::uint8_t> ancestors(tree.mask());
    Buffer<T> y(rows * width);
    y.poison();

    TreeCausalConvParams p;
    p.x = x.data(), p.past = past.data(), p.weight = weight.data(), p.ancestors = ancestors.data(), p.y = y.data();
    p.rows = tree.rows(), p.channels = channels, p.taps = taps;
    run_checked(index, [&] { return launch_tree_causal_conv(p, TypeInfo<T>::type, nullptr); }, [&] { return y.bytes(); });
    meter.compare(y, reference_conv(tree, channels, taps, values_of(x), values_of(past), values_of(weight)), 1e-5);
}

}  // namespace

void add_conv_cases(Suite& suite) {
    for_each_type([&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        suite.add(std::string("tree_causal_conv ") + TypeInfo<T>::name, [](Report& report) {
            ErrorMeter meter;
            for (int i = 0; i < tree_count(); ++i) run_tree<T>(i, meter);
            report.check(meter.ratio() <= 1.0, "error above its bound: " + meter.text(tree_count()));
            report.note(meter.text(tree_count()));
        });
    });
}

}  // namespace forkcast::test
