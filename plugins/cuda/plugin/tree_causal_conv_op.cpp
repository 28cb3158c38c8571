// TreeCausalConv: tensors, limits and launch.
#include "operator.h"

namespace forkcast::plugin {
namespace {

enum Input { kX, kPast, kWeight, kAncestors };
constexpr std::int64_t kMaxTaps = 8, kMaxRows = 8192, kMaxChannels = 1 << 20;

class TreeCausalConv final : public Operator {
public:
    const char* name() const override { return "TreeCausalConv"; }

    const std::vector<TensorRule>& inputs() const override {
        static const std::vector<TensorRule> rules = {{"x", TypeRule::kElement, 2},
                                                      {"past", TypeRule::kElement, 2},
                                                      {"weight", TypeRule::kElement, 2},
                                                      {"ancestors", TypeRule::kBool, 2}};
        return rules;
    }
    const std::vector<TensorRule>& outputs() const override {
        static const std::vector<TensorRule> rules = {{"y", TypeRule::kElement, 2}};
        return rules;
    }
    const std::vector<std::vector<Axis>>& output_axes() const override {
        static const std::vector<std::vector<Axis>> axes = {{{kX, 0}, {kX, 1}}};
        return axes;
    }

    std::string refusal(const Shapes& shapes) const override {
        ShapeCheck check(*this, shapes);
        check.between({kX, 0}, 1, kMaxRows);
        check.between({kX, 1}, 1, kMaxChannels);
        check.between({kWeight, 1}, 1, kMaxTaps);
        check.same({kWeight, 0}, {kX, 1});
        check.same({kPast, 1}, {kX, 1});
        if (check.refusal().empty() && shapes[kWeight].d[1] >= 0) check.one_of({kPast, 0}, {shapes[kWeight].d[1] - 1});
        check.same({kAncestors, 0}, {kX, 0});
        check.same({kAncestors, 1}, {kX, 0});
        return check.refusal();
    }

    Status launch(const Attributes&, const Execution& run) const override {
        TreeCausalConvParams p;
        p.x = run.inputs[kX], p.past = run.inputs[kPast], p.weight = run.inputs[kWeight];
        p.ancestors = static_cast<const std::uint8_t*>(run.inputs[kAncestors]);
        p.y = run.outputs[0];
        p.rows = static_cast<int>(run.shapes[kX].d[0]), p.channels = static_cast<int>(run.shapes[kX].d[1]);
        p.taps = static_cast<int>(run.shapes[kWeight].d[1]);
        return launch_tree_causal_conv(p, run.type, run.stream);
    }
};

}  // namespace

const Operator& tree_causal_conv_operator() {
    static const TreeCausalConv op;
    return op;
}

}  // namespace forkcast::plugin
