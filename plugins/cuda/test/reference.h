// Slow references in float64, written from the formulas and from parent links, never from the kernels.
#pragma once

#include <vector>

#include "random_tree.h"


namespace forkcast::test {

using Values = std::vector<double>;

struct AttentionCase {
    int rows, heads, kv_heads, head_size, past;
    double scale;
    std::int64_t window;
    std::vector<std::int64_t> positions;
    std::vector<std::uint8_t> visible;
    Values q, k, v, past_k, past_v;  // past_* hold at least `past` rows
};
/// o [rows, heads, head_size]; `magnitude`, if given, is the same with |v| in place of v.
Values reference_attention(const AttentionCase& c, Values* magnitude = nullptr);

/// y [rows, channels]; x [rows, channels], past [taps-1, channels], weight [channels, taps].
Values reference_conv(const Tree& tree, int channels, int taps, const Values& x, const Values& past,
                      const Values& weight);

struct DeltaCase {
    int key_heads, value_heads, key_dim, value_dim;
    Values q, k, v, g, beta, state;
};
struct DeltaResult {
    Values o, u, cumulative_g;
    double largest_g = 0.0;  // max |G|
};
/// The recurrence, one state per row.
DeltaResult reference_delta(const Tree& tree, const DeltaCase& c);

/// State after decoding the rows of `path` one after another.
Values reference_state_after(const std::vector<int>& path, const DeltaCase& c);

}  // namespace forkcast::test
