// TreeAttention: tensors, limits and launch.
#include <algorithm>

#include "operator.h"

namespace forkcast::plugin {
namespace {

enum Input { kQ, kK, kV, kPastK, kPastV, kPastLen, kPositions, kVisible };
constexpr std::int64_t kMaxRows = 8192, kMaxCapacity = std::int64_t{1} << 24;

int extent(const Shapes& shapes, int input, int axis) {
    return static_cast<int>(shapes[static_cast<std::size_t>(input)].d[axis]);
}

class TreeAttention final : public Operator {
public:
    const char* name() const override { return "TreeAttention"; }
    bool has_attributes() const override { return true; }

    const std::vector<TensorRule>& inputs() const override {
        static const std::vector<TensorRule> rules = {
            {"q", TypeRule::kElement, 3},      {"k", TypeRule::kElement, 3},      {"v", TypeRule::kElement, 3},
            {"past_k", TypeRule::kElement, 3}, {"past_v", TypeRule::kElement, 3}, {"past_len", TypeRule::kInt64, 1},
            {"positions", TypeRule::kInt64, 1}, {"visible", TypeRule::kBool, 2}};
        return rules;
    }
    const std::vector<TensorRule>& outputs() const override {
        static const std::vector<TensorRule> rules = {{"o", TypeRule::kElement, 3}};
        return rules;
    }
    const std::vector<std::vector<Axis>>& output_axes() const override {
        static const std::vector<std::vector<Axis>> axes = {{{kQ, 0}, {kQ, 1}, {kQ, 2}}};
        return axes;
    }

    std::string refusal(const Shapes& shapes) const override {
        ShapeCheck check(*this, shapes);
        check.one_of({kQ, 2}, {64, 128, 256});
        check.between({kQ, 0}, 1, kMaxRows);
        check.multiple({kQ, 1}, Axis{kK, 1});
        check.same({kK, 0}, {kQ, 0});
        check.same({kK, 2}, {kQ, 2});
        check.between({kPastK, 0}, 0, kMaxCapacity);
        check.same({kPastK, 1}, {kK, 1});
        check.same({kPastK, 2}, {kK, 2});
        for (const int axis : {0, 1, 2}) {
            check.same({kV, axis}, {kK, axis});
            check.same({kPastV, axis}, {kPastK, axis});
        }
        check.one_of({kPastLen, 0}, {1});
        check.same({kPositions, 0}, {kQ, 0});
        check.same({kVisible, 0}, {kQ, 0});
        check.same({kVisible, 1}, {kQ, 0});
        return check.refusal();
    }

    std::size_t workspace_bytes(const Shapes& largest) const override {
        std::size_t bytes = 0;  // fewer rows leave room for more splits, so every row count is asked
        for (int rows = 1; rows <= extent(largest, kQ, 0); ++rows)
            bytes = std::max(bytes, tree_attention_workspace(rows, extent(largest, kQ, 1), extent(largest, kK, 1),
                                                             extent(largest, kQ, 2), extent(largest, kPastK, 0)));
        return bytes;
    }

    Status launch(const Attributes& attributes, const Execution& run) const override {
        TreeAttentionParams p;
        p.q = run.inputs[kQ], p.k = run.inputs[kK], p.v = run.inputs[kV];
        p.past_k = run.inputs[kPastK], p.past_v = run.inputs[kPastV];
        p.past_len = static_cast<const std::int64_t*>(run.inputs[kPastLen]);
        p.positions = static_cast<const std::int64_t*>(run.inputs[kPositions]);
        p.visible = static_cast<const std::uint8_t*>(run.inputs[kVisible]);
        p.o = run.outputs[0];
        p.rows = extent(run.shapes, kQ, 0), p.heads = extent(run.shapes, kQ, 1);
        p.kv_heads = extent(run.shapes, kK, 1), p.head_size = extent(run.shapes, kQ, 2);
        p.capacity = extent(run.shapes, kPastK, 0);
        p.scale = attributes.scale, p.window = attributes.window;
        p.workspace = static_cast<float*>(run.workspace);
        p.workspace_bytes = tree_attention_workspace(p.rows, p.heads, p.kv_heads, p.head_size, p.capacity);
        return launch_tree_attention(p, run.type, run.stream);
    }
};

}  // namespace

const Operator& tree_attention_operator() {
    static const TreeAttention op;
    return op;
}

}  // namespace forkcast::plugin
