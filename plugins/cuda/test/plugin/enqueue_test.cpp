// The whole way through TensorRT's interface: descriptions in, enqueue, numbers out. On the CPU build of the kernels.
#include "../delta_inputs.h"
#include "library.h"
#include "tensors.h"

namespace forkcast::test {
namespace {

constexpr double kBound = 1e-5;

/// Runs a plugin on its buffers; throws with the library's message if it refuses.
void enqueue(Library& library, nvinfer1::IPluginV3& plugin, const Signature& s, const Sizes& sizes,
             std::vector<const void*> inputs, std::vector<void*> outputs) {
    const auto tensors = describe(s, sizes, DataType::kFLOAT);
    const auto in = static_cast<std::int32_t>(s.inputs.size()), out = static_cast<std::int32_t>(s.outputs.size());
    std::vector<nvinfer1::PluginTensorDesc> plain;
    for (const auto& tensor : tensors) plain.push_back(tensor.desc);
    Buffer<float> workspace(build(plugin).getWorkspaceSize(tensors.data(), in, tensors.data() + in, out) / sizeof(float));
    workspace.poison();
    const PluginPointer attached(runtime(plugin).attachToContext(nullptr));
    if (runtime(*attached).onShapeChange(plain.data(), in, plain.data() + in, out) != 0 ||
        runtime(*attached).enqueue(plain.data(), plain.data() + in, inputs.data(), outputs.data(), workspace.data(),
                                   nullptr) != 0)
        throw std::runtime_error(library.logger.last);
}

void judge(Report& report, const ErrorMeter& meter) {
    report.check(meter.ratio() <= 1.0, "error above its bound: " + meter.text(1));
    report.note(meter.text(1));
}

void run_attention(Report& report, Library& library) {
    Random random(5);
    const Tree tree = random_tree(12, 40, random);
    AttentionCase c{tree.rows(), 4, 2, 64, 700, 0.125, 50, {}, tree.mask(), {}, {}, {}, {}, {}};
    const auto rows = static_cast<std::size_t>(c.rows);
    for (const int depth : tree.depth) c.positions.push_back(c.past + depth);
    c.q = normal_values(rows * 4 * 64, 1.0, random);
    c.k = normal_values(rows * 2 * 64, 1.0, random), c.v = normal_values(rows * 2 * 64, 1.0, random);
    c.past_k = normal_values(1000 * 2 * 64, 1.0, random), c.past_v = normal_values(1000 * 2 * 64, 1.0, random);
    Buffer<float> q(c.q), k(c.k), v(c.v), past_k(c.past_k), past_v(c.past_v), o(c.q.size());
    c.q = values_of(q), c.k = values_of(k), c.v = values_of(v), c.past_k = values_of(past_k);
    c.past_v = values_of(past_v);
    Buffer<std::int64_t> past_len(std::vector<std::int64_t>{c.past}), positions(c.positions);
    Buffer<std::uint8_t> visible(c.visible);
    NodeFields node("TreeAttention");
    node.window = c.window;
    const PluginPointer plugin(
        library.creator("TreeAttention").createPlugin("node", &node.collection, nvinfer1::TensorRTPhase::kBUILD));
    Sizes sizes = good_sizes();
    sizes['N'] = c.rows, sizes['C'] = 1000;
    enqueue(library, *plugin, signature("TreeAttention"), sizes,
            {q.data(), k.data(), v.data(), past_k.data(), past_v.data(), past_len.data(), positions.data(),
             visible.data()},
            {o.data()});
    ErrorMeter meter;
    meter.compare(o, reference_attention(c), kBound);
    judge(report, meter);
}

void run_conv(Report& report, Library& library) {
    Random random(6);
    const Tree tree = random_tree(13, 40, random);
    const auto rows = static_cast<std::size_t>(tree.rows());
    Buffer<float> x(normal_values(rows * 24, 1.0, random)), past(normal_values(3 * 24, 1.0, random));
    Buffer<float> weight(normal_values(24 * 4, 1.0, random)), y(rows * 24);
    Buffer<std::uint8_t> ancestors(tree.mask());
    Sizes sizes = good_sizes();
    sizes['N'] = tree.rows();
    enqueue(library, *create(library, "TreeCausalConv"), signature("TreeCausalConv"), sizes,
            {x.data(), past.data(), weight.data(), ancestors.data()}, {y.data()});
    ErrorMeter meter;
    meter.compare(y, reference_conv(tree, 24, 4, values_of(x), values_of(past), values_of(weight)), kBound);
    judge(report, meter);
}

/// TreeDeltaRule, then DeltaBranchUpdate on its outputs: the state after the path.
void run_delta(Report& report, Library& library) {
    Random random(7);
    const Tree tree = random_tree(12, 60, random);
    DeltaCase c = delta_inputs({tree.rows(), 1, 2, 64, 32}, false, false, random);
    DeltaBuffers<float> b(c);
    Buffer<std::uint8_t> ancestors(tree.mask());
    const std::vector<int> rows = tree.path(tree.rows() - 1);
    Buffer<std::int64_t> path(std::vector<std::int64_t>(rows.begin(), rows.end()));
    Buffer<float> state(b.state.size());
    Sizes sizes = good_sizes();
    sizes['N'] = tree.rows(), sizes['L'] = static_cast<std::int64_t>(rows.size());
    enqueue(library, *create(library, "TreeDeltaRule"), signature("TreeDeltaRule"), sizes,
            {b.q.data(), b.k.data(), b.v.data(), b.g.data(), b.beta.data(), b.state.data(), ancestors.data()},
            {b.o.data(), b.u.data(), b.cumulative_g.data()});
    enqueue(library, *create(library, "DeltaBranchUpdate"), signature("DeltaBranchUpdate"), sizes,
            {b.state.data(), b.k.data(), b.u.data(), b.cumulative_g.data(), path.data()}, {state.data()});
    const DeltaResult want = reference_delta(tree, c);
    ErrorMeter meter;
    meter.compare(b.o, want.o, kBound);
    meter.compare(b.u, want.u, kBound);
    meter.compare(b.cumulative_g, want.cumulative_g, kBound);
    meter.compare(state, reference_state_after(rows, c), kBound);
    judge(report, meter);
}

}  // namespace

void add_enqueue_cases(Suite& suite, Library& library) {
    suite.add("enqueue TreeAttention", [&](Report& report) { run_attention(report, library); });
    suite.add("enqueue TreeCausalConv", [&](Report& report) { run_conv(report, library); });
    suite.add("enqueue TreeDeltaRule and DeltaBranchUpdate", [&](Report& report) { run_delta(report, library); });
    suite.add("enqueue names a missing tensor", [&](Report& report) {
        try {
            enqueue(library, *create(library, "TreeCausalConv"), signature("TreeCausalConv"), good_sizes(),
                    {nullptr, nullptr, nullptr, nullptr}, {nullptr});
            report.fail("a null pointer was accepted");
        } catch (const std::runtime_error& error) {
            report.check(std::string(error.what()) == "TreeCausalConv (run): null pointer", error.what());
        }
    });
}

}  // namespace forkcast::test
