// TreeAttention against the float64 reference on random trees.
#include "buffers.h"
#include "harness.h"
#include "reference.h"

namespace forkcast::test {
namespace {

/// Sizes and inputs of tree number `index`: windows, head ratios, caches with room to spare, splits when rows are few.
AttentionCase random_case(int index, int head_size, Tree& tree, int& capacity, Random& random) {
    tree = random_tree(index, 257, random);
    AttentionCase c;
    c.rows = tree.rows();
    c.kv_heads = c.rows > 64 ? 1 : random.integer(1, 2);
    c.heads = c.kv_heads * (1 + index / 4 % 4);
    c.head_size = head_size;
    c.past = random.integer(0, 9) == 0 ? 0 : random.integer(0, c.rows > 64 ? 40 : 300);
    capacity = c.past + random.integer(0, 1) * random.integer(0, 900);
    c.window = index % 3 == 0 ? random.integer(1, 60) : 0;
    c.scale = 1.0 / std::sqrt(static_cast<double>(head_size));
    c.visible = tree.mask();
    if (index % 7 == 6)  // a drafter's mask: any block, not triangular; some rows may see nothing
        for (auto& bit : c.visible) bit = random.integer(0, 2) == 0;
    for (int i = 0; i < c.rows; ++i) c.positions.push_back(c.past + tree.depth[static_cast<std::size_t>(i)]);
    return c;
}

void fill_inputs(AttentionCase& c, int capacity, double sharp, Random& random) {
    const auto query = static_cast<std::size_t>(c.rows * c.heads * c.head_size);
    const auto row = static_cast<std::size_t>(c.kv_heads * c.head_size);
    c.q = normal_values(query, sharp, random);
    c.k = normal_values(static_cast<std::size_t>(c.rows) * row, 1.0, random);
    c.v = normal_values(static_cast<std::size_t>(c.rows) * row, 1.0, random);
    c.past_k = normal_values(static_cast<std::size_t>(capacity) * row, 1.0, random);
    c.past_v = normal_values(static_cast<std::size_t>(capacity) * row, 1.0, random);
    if (random.integer(0, 9) == 0)  // near-identical keys
        for (std::size_t i = row; i < c.k.size(); ++i) c.k[i] = c.k[i % row] + 1e-3 * c.k[i];
}

/// Returns whether the keys were split, so that the combine kernel ran too.
template <class T>
bool run_tree(int index, int head_size, ErrorMeter& meter) {
    Random random(static_cast<std::uint64_t>(1000 * head_size + index));
    Tree tree;
    int capacity = 0;
    AttentionCase c = random_case(index, head_size, tree, capacity, random);
    // sharp: one key takes nearly all the weight; the rounding of a score grows with the score
    const double sharp = random.integer(0, 3) == 0 ? 5.0 : 1.0;
    fill_inputs(c, capacity, sharp, random);
    Buffer<T> q(c.q), k(c.k), v(c.v), past_k(c.past_k), past_v(c.past_v), o(c.q.size());
    const std::size_t committed = static_cast<std::size_t>(c.past * c.kv_heads * c.head_size);
    for (std::size_t i = committed; i < past_k.size(); ++i) {  // rows past the committed ones hold NaN
        store_float(&past_k[i], NAN);
        store_float(&past_v[i], NAN);
    }
    c.q = values_of(q), c.k = values_of(k), c.v = values_of(v);
    c.past_k = values_of(past_k), c.past_v = values_of(past_v);
    Buffer<std::int64_t> past_len(std::vector<std::int64_t>{c.past}), positions(c.positions);
    Buffer<std::uint8_t> visible(c.visible);
    const std::size_t bytes = tree_attention_workspace(c.rows, c.heads, c.kv_heads, c.head_size, capacity);
    Buffer<float> workspace(bytes / sizeof(float));
    workspace.poison();
    o.poison();

    TreeAttentionParams p;
    p.q = q.data(), p.k = k.data(), p.v = v.data(), p.past_k = past_k.data(), p.past_v = past_v.data();
    p.past_len = past_len.data(), p.positions = positions.data(), p.visible = visible.data(), p.o = o.data();
    p.workspace = workspace.data(), p.workspace_bytes = bytes;
    p.rows = c.rows, p.heads = c.heads, p.kv_heads = c.kv_heads, p.head_size = c.head_size, p.capacity = capacity;
    p.scale = static_cast<float>(c.scale), p.window = c.window;
    run_checked(index, [&] { return launch_tree_attention(p, TypeInfo<T>::type, nullptr); }, [&] { return o.bytes(); });
    // The tensor cores take the weights rounded to T; in float32 nothing is rounded on the way.
    Values bound;
    const Values want = reference_attention(c, &bound);
    for (double& x : bound) x = 1e-5 * sharp + (sizeof(T) == 2 ? TypeInfo<T>::rounding * x : 0.0);
    meter.compare(o, want, bound);
    return bytes > 0;
}

}  // namespace

void add_attention_cases(Suite& suite) {
    for_each_type([&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        for (const int size : {64, 128, 256})
            suite.add(std::string("tree_attention ") + TypeInfo<T>::name + " D=" + std::to_string(size),
                      [size](Report& report) {
                          ErrorMeter meter;
                          int split = 0;
                          for (int i = 0; i < tree_count(); ++i) split += run_tree<T>(i, size, meter) ? 1 : 0;
                          report.check(meter.ratio() <= 1.0, "error above its bound: " + meter.text(tree_count()));
                          report.check(5 * split >= tree_count(), "too few trees with split keys");
                          report.note(meter.text(tree_count()) + ", " + std::to_string(split) + " with split keys");
                      });
    });
}

}  // namespace forkcast::test
