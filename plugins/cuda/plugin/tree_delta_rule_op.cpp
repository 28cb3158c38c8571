// TreeDeltaRule: tensors, limits and launch.
#include "operator.h"

namespace forkcast::plugin {
namespace {

enum Input { kQ, kK, kV, kG, kBeta, kState, kAncestors };
constexpr std::int64_t kMaxRows = 1792, kColumns = 32;

class TreeDeltaRule final : public Operator {
public:
    const char* name() const override { return "TreeDeltaRule"; }

    const std::vector<TensorRule>& inputs() const override {
        static const std::vector<TensorRule> rules = {
            {"q", TypeRule::kElement, 3}, {"k", TypeRule::kElement, 3},     {"v", TypeRule::kElement, 3},
            {"g", TypeRule::kFloat32, 2}, {"beta", TypeRule::kFloat32, 2},  {"state", TypeRule::kFloat32, 3},
            {"ancestors", TypeRule::kBool, 2}};
        return rules;
    }
    const std::vector<TensorRule>& outputs() const override {
        static const std::vector<TensorRule> rules = {
            {"o", TypeRule::kElement, 3}, {"u", TypeRule::kFloat32, 3}, {"G", TypeRule::kFloat32, 2}};
        return rules;
    }
    const std::vector<std::vector<Axis>>& output_axes() const override {
        static const std::vector<std::vector<Axis>> axes = {
            {{kV, 0}, {kV, 1}, {kV, 2}}, {{kV, 0}, {kV, 1}, {kV, 2}}, {{kV, 0}, {kV, 1}}};
        return axes;
    }

    std::string refusal(const Shapes& shapes) const override {
        ShapeCheck check(*this, shapes);
        check.between({kV, 0}, 1, kMaxRows);
        check.one_of({kK, 2}, {64, 128, 256});
        check.multiple({kV, 2}, kColumns);
        check.multiple({kV, 1}, Axis{kK, 1});
        for (const int axis : {0, 1, 2}) check.same({kQ, axis}, {kK, axis});
        check.same({kK, 0}, {kV, 0});
        for (const int input : {kG, kBeta})
            for (const int axis : {0, 1}) check.same({input, axis}, {kV, axis});
        check.same({kState, 0}, {kV, 1});
        check.same({kState, 1}, {kK, 2});
        check.same({kState, 2}, {kV, 2});
        check.same({kAncestors, 0}, {kV, 0});
        check.same({kAncestors, 1}, {kV, 0});
        return check.refusal();
    }

    Status launch(const Attributes&, const Execution& run) const override {
        const nvinfer1::Dims &k = run.shapes[kK], &v = run.shapes[kV];
        TreeDeltaRuleParams p;
        p.q = run.inputs[kQ], p.k = run.inputs[kK], p.v = run.inputs[kV];
        p.g = static_cast<const float*>(run.inputs[kG]), p.beta = static_cast<const float*>(run.inputs[kBeta]);
        p.state = static_cast<const float*>(run.inputs[kState]);
        p.ancestors = static_cast<const std::uint8_t*>(run.inputs[kAncestors]);
        p.o = run.outputs[0], p.u = static_cast<float*>(run.outputs[1]);
        p.cumulative_g = static_cast<float*>(run.outputs[2]);
        p.rows = static_cast<int>(v.d[0]), p.key_heads = static_cast<int>(k.d[1]);
        p.value_heads = static_cast<int>(v.d[1]);
        p.key_dim = static_cast<int>(k.d[2]), p.value_dim = static_cast<int>(v.d[2]);
        return launch_tree_delta_rule(p, run.type, run.stream);
    }
};

}  // namespace

const Operator& tree_delta_rule_operator() {
    static const TreeDeltaRule op;
    return op;
}

}  // namespace forkcast::plugin
