// DeltaBranchUpdate: tensors, limits and launch.
#include "operator.h"

namespace forkcast::plugin {
namespace {

enum Input { kState, kK, kU, kG, kPath };
constexpr std::int64_t kMaxRows = 8192, kMaxPath = 8192, kMaxSize = 1 << 16;

class DeltaBranchUpdate final : public Operator {
public:
    const char* name() const override { return "DeltaBranchUpdate"; }

    const std::vector<TensorRule>& inputs() const override {
        static const std::vector<TensorRule> rules = {{"state", TypeRule::kFloat32, 3},
                                                      {"k", TypeRule::kElement, 3},
                                                      {"u", TypeRule::kFloat32, 3},
                                                      {"G", TypeRule::kFloat32, 2},
                                                      {"path", TypeRule::kInt64, 1}};
        return rules;
    }
    const std::vector<TensorRule>& outputs() const override {
        static const std::vector<TensorRule> rules = {{"state'", TypeRule::kFloat32, 3}};
        return rules;
    }
    const std::vector<std::vector<Axis>>& output_axes() const override {
        static const std::vector<std::vector<Axis>> axes = {{{kState, 0}, {kState, 1}, {kState, 2}}};
        return axes;
    }

    std::string refusal(const Shapes& shapes) const override {
        ShapeCheck check(*this, shapes);
        check.between({kK, 0}, 1, kMaxRows);
        check.between({kPath, 0}, 0, kMaxPath);
        check.between({kState, 1}, 1, kMaxSize);
        check.between({kState, 2}, 1, kMaxSize);
        check.multiple({kState, 0}, Axis{kK, 1});
        check.same({kK, 2}, {kState, 1});
        check.same({kU, 0}, {kK, 0});
        check.same({kU, 1}, {kState, 0});
        check.same({kU, 2}, {kState, 2});
        check.same({kG, 0}, {kK, 0});
        check.same({kG, 1}, {kState, 0});
        return check.refusal();
    }

    Status launch(const Attributes&, const Execution& run) const override {
        BranchUpdateParams p;
        p.state = static_cast<const float*>(run.inputs[kState]), p.k = run.inputs[kK];
        p.u = static_cast<const float*>(run.inputs[kU]), p.cumulative_g = static_cast<const float*>(run.inputs[kG]);
        p.path = static_cast<const std::int64_t*>(run.inputs[kPath]);
        p.out = static_cast<float*>(run.outputs[0]);
        p.rows = static_cast<int>(run.shapes[kK].d[0]), p.key_heads = static_cast<int>(run.shapes[kK].d[1]);
        p.value_heads = static_cast<int>(run.shapes[kState].d[0]);
        p.key_dim = static_cast<int>(run.shapes[kState].d[1]);
        p.value_dim = static_cast<int>(run.shapes[kState].d[2]);
        p.path_length = static_cast<int>(run.shapes[kPath].d[0]);
        return launch_branch_update(p, run.type, run.stream);
    }
};

}  // namespace

const Operator& branch_update_operator() {
    static const DeltaBranchUpdate op;
    return op;
}

}  // namespace forkcast::plugin
