// Every launch function refuses what it cannot do, by name, and launches nothing.
#include "buffers.h"
#include "harness.h"

namespace forkcast::test {
namespace {

void expect(Report& report, Status got, Status want) {
    report.check(got == want, std::string("expected '") + status_name(want) + "', got '" + status_name(got) + "'");
}

TreeAttentionParams attention_params(float* any, std::int64_t* number, std::uint8_t* mask) {
    TreeAttentionParams p;
    p.q = p.k = p.v = any, p.o = any;
    p.past_len = p.positions = number, p.visible = mask;
    p.rows = 1, p.heads = 2, p.kv_heads = 1, p.head_size = 64;
    return p;
}

}  // namespace

void add_refusal_cases(Suite& suite) {
    static float any[64] = {};
    static std::int64_t number[1] = {0};
    static std::uint8_t mask[1] = {1};
    suite.add("refusal tree_attention", [](Report& report) {
        const auto call = [&](const TreeAttentionParams& p) {
            return launch_tree_attention(p, ElementType::kFloat32, nullptr);
        };
        const TreeAttentionParams good = attention_params(any, number, mask);
        TreeAttentionParams p = good;
        for (const int size : {0, 32, 96, 512}) p.head_size = size, expect(report, call(p), Status::kUnsupportedHeadSize);
        p = good, p.heads = 3, p.kv_heads = 2, expect(report, call(p), Status::kBadShape);
        p = good, p.rows = 0, expect(report, call(p), Status::kBadShape);
        p = good, p.window = -1, expect(report, call(p), Status::kBadShape);
        p = good, p.q = nullptr, expect(report, call(p), Status::kNullPointer);
        p = good, p.capacity = 8, expect(report, call(p), Status::kNullPointer);
        p = good, p.capacity = 4096, p.past_k = p.past_v = any, expect(report, call(p), Status::kNullPointer);
        p.workspace = any, p.workspace_bytes = 8, expect(report, call(p), Status::kWorkspaceTooSmall);
        expect(report, launch_tree_attention(good, static_cast<ElementType>(9), nullptr), Status::kUnsupportedType);
    });
    suite.add("refusal tree_causal_conv", [](Report& report) {
        TreeCausalConvParams p;
        p.x = p.weight = any, p.y = any, p.ancestors = mask, p.rows = 1, p.channels = 8, p.taps = 9;
        expect(report, launch_tree_causal_conv(p, ElementType::kFloat32, nullptr), Status::kUnsupportedTaps);
        p.taps = 4;
        expect(report, launch_tree_causal_conv(p, ElementType::kFloat32, nullptr), Status::kNullPointer);
        p.channels = 0;
        expect(report, launch_tree_causal_conv(p, ElementType::kFloat32, nullptr), Status::kBadShape);
    });
    suite.add("refusal tree_delta_rule", [](Report& report) {
        TreeDeltaRuleParams p;
        p.rows = 1, p.key_heads = 1, p.value_heads = 1, p.key_dim = 96, p.value_dim = 32;
        const auto call = [&] { return launch_tree_delta_rule(p, ElementType::kFloat32, nullptr); };
        expect(report, call(), Status::kUnsupportedHeadSize);
        p.key_dim = 64, p.value_dim = 33, expect(report, call(), Status::kUnsupportedHeadSize);
        p.value_dim = 32, expect(report, call(), Status::kNullPointer);
        p.rows = 1793, expect(report, call(), Status::kTooManyRows);
        p.rows = 1, p.key_heads = 2, p.value_heads = 3, expect(report, call(), Status::kBadShape);
    });
    suite.add("refusal branch_update", [](Report& report) {
        BranchUpdateParams p;
        expect(report, launch_branch_update(p, ElementType::kFloat32, nullptr), Status::kBadShape);
        p.rows = p.key_heads = p.value_heads = p.key_dim = p.value_dim = 1;
        expect(report, launch_branch_update(p, ElementType::kFloat32, nullptr), Status::kNullPointer);
    });
    suite.add("refusal kv_row_append", [](Report& report) {
        KvRowAppendParams p;
        p.rows = 4, p.copy_count = 1, p.path_length = 3, p.capacity = 10, p.first_row = 8;
        expect(report, launch_kv_row_append(p, 256, nullptr), Status::kCapacity);
        expect(report, launch_kv_row_append(p, 8, nullptr), Status::kMisaligned);
        p.first_row = 7;
        expect(report, launch_kv_row_append(p, 256, nullptr), Status::kNullPointer);
        p.first_row = -1;
        expect(report, launch_kv_row_append(p, 256, nullptr), Status::kBadShape);
    });
}

}  // namespace forkcast::test
