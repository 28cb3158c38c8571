#include "reference.h"

#include <algorithm>
#include <cmath>

namespace forkcast::test {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

double dot(const double* a, const double* b, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

/// One step of the recurrence on one head's state [DK][DV]; returns u, and o if q is given.
void step(Values& state, const double* k, const double* q, const double* v, double g, double beta, int key_dim,
          int value_dim, double* u, double* o) {
    const double decay = std::exp(g);
    for (double& s : state) s *= decay;
    std::vector<double> known(at(value_dim), 0.0);
    for (int d = 0; d < key_dim; ++d)
        for (int c = 0; c < value_dim; ++c) known[at(c)] += state[at(d * value_dim + c)] * k[d];
    for (int c = 0; c < value_dim; ++c) u[c] = beta * (v[c] - known[at(c)]);
    for (int d = 0; d < key_dim; ++d)
        for (int c = 0; c < value_dim; ++c) state[at(d * value_dim + c)] += k[d] * u[c];
    if (q == nullptr) return;
    for (int c = 0; c < value_dim; ++c) o[c] = 0.0;
    for (int d = 0; d < key_dim; ++d)
        for (int c = 0; c < value_dim; ++c) o[c] += state[at(d * value_dim + c)] * q[d];
}

Values head_state(const DeltaCase& c, int head) {
    const auto size = static_cast<std::ptrdiff_t>(c.key_dim) * c.value_dim;
    return Values(c.state.begin() + head * size, c.state.begin() + (head + 1) * size);
}

}  // namespace

Values reference_attention(const AttentionCase& c, Values* magnitude) {
    Values o(at(static_cast<std::int64_t>(c.rows) * c.heads * c.head_size), 0.0);
    const int group = c.heads / c.kv_heads;
    Values sizes(at(c.head_size));
    std::vector<std::pair<double, const double*>> seen;  // score, value row
    for (int i = 0; i < c.rows; ++i)
        for (int h = 0; h < c.heads; ++h) {
            const double* q = &c.q[at((static_cast<std::int64_t>(i) * c.heads + h) * c.head_size)];
            seen.clear();
            double high = -INFINITY;
            const auto consider = [&](const Values& keys, const Values& values, int row, std::int64_t position) {
                if (c.window > 0 && c.positions[at(i)] - position >= c.window) return;
                const std::size_t start = at((static_cast<std::int64_t>(row) * c.kv_heads + h / group) * c.head_size);
                const double score = c.scale * dot(q, &keys[start], c.head_size);
                high = std::max(high, score);
                seen.emplace_back(score, &values[start]);
            };
            for (int p = 0; p < c.past; ++p) consider(c.past_k, c.past_v, p, p);
            for (int j = 0; j < c.rows; ++j)
                if (c.visible[at(static_cast<std::int64_t>(i) * c.rows + j)]) consider(c.k, c.v, j, c.positions[at(j)]);
            double total = 0.0;
            double* out = &o[at((static_cast<std::int64_t>(i) * c.heads + h) * c.head_size)];
            std::fill(sizes.begin(), sizes.end(), 0.0);
            for (const auto& [score, value] : seen) {
                const double weight = std::exp(score - high);
                total += weight;
                for (int d = 0; d < c.head_size; ++d) {
                    out[d] += weight * value[d];
                    sizes[at(d)] += weight * std::fabs(value[d]);
                }
            }
            for (int d = 0; d < c.head_size && total > 0.0; ++d) out[d] /= total;
            for (int d = 0; d < c.head_size && magnitude != nullptr; ++d)
                magnitude->push_back(total > 0.0 ? sizes[at(d)] / total : 0.0);
        }
    return o;
}

Values reference_conv(const Tree& tree, int channels, int taps, const Values& x, const Values& past,
                      const Values& weight) {
    Values y(x.size());
    for (int i = 0; i < tree.rows(); ++i)
        for (int c = 0; c < channels; ++c) {
            double sum = 0.0;
            int row = i;  // >= 0: a row; below: -1 is the newest committed row
            for (int tap = taps - 1; tap >= 0; --tap) {
                const Values& source = row >= 0 ? x : past;
                const int index = row >= 0 ? row : taps - 1 + row;
                sum += weight[at(static_cast<std::int64_t>(c) * taps + tap)] *
                       source[at(static_cast<std::int64_t>(index) * channels + c)];
                row = row >= 0 ? tree.parent[at(row)] : row - 1;
            }
            y[at(static_cast<std::int64_t>(i) * channels + c)] = sum / (1.0 + std::exp(-sum));
        }
    return y;
}

DeltaResult reference_delta(const Tree& tree, const DeltaCase& c) {
    const int rows = tree.rows(), group = c.value_heads / c.key_heads;
    DeltaResult result;
    result.o.resize(at(static_cast<std::int64_t>(rows) * c.value_heads * c.value_dim));
    result.u.resize(result.o.size());
    result.cumulative_g.resize(at(static_cast<std::int64_t>(rows) * c.value_heads));
    std::vector<int> children(at(rows), 0);
    for (int i = 0; i < rows; ++i)
        if (tree.parent[at(i)] >= 0) ++children[at(tree.parent[at(i)])];
    for (int h = 0; h < c.value_heads; ++h) {
        std::vector<Values> states(at(rows));
        std::vector<int> waiting = children;
        const Values start = head_state(c, h);
        for (int i = 0; i < rows; ++i) {
            const int parent = tree.parent[at(i)];
            Values state = parent < 0 ? start : states[at(parent)];
            if (parent >= 0 && --waiting[at(parent)] == 0) Values().swap(states[at(parent)]);
            const std::size_t key = at((static_cast<std::int64_t>(i) * c.key_heads + h / group) * c.key_dim);
            const std::size_t head = at(static_cast<std::int64_t>(i) * c.value_heads + h);
            const std::size_t value = head * at(c.value_dim);
            step(state, &c.k[key], &c.q[key], &c.v[value], c.g[head], c.beta[head], c.key_dim, c.value_dim,
                 &result.u[value], &result.o[value]);
            const double above =
                parent < 0 ? 0.0 : result.cumulative_g[at(static_cast<std::int64_t>(parent) * c.value_heads + h)];
            result.cumulative_g[head] = above + c.g[head];
            result.largest_g = std::max(result.largest_g, std::fabs(result.cumulative_g[head]));
            if (waiting[at(i)] > 0) states[at(i)] = std::move(state);
        }
    }
    return result;
}

Values reference_state_after(const std::vector<int>& path, const DeltaCase& c) {
    Values out;
    const int group = c.value_heads / c.key_heads;
    std::vector<double> u(at(c.value_dim));
    for (int h = 0; h < c.value_heads; ++h) {
        Values state = head_state(c, h);
        for (const int i : path) {
            const std::size_t key = at((static_cast<std::int64_t>(i) * c.key_heads + h / group) * c.key_dim);
            const std::size_t head = at(static_cast<std::int64_t>(i) * c.value_heads + h);
            step(state, &c.k[key], nullptr, &c.v[head * at(c.value_dim)], c.g[head], c.beta[head], c.key_dim,
                 c.value_dim, u.data(), nullptr);
        }
        out.insert(out.end(), state.begin(), state.end());
    }
    return out;
}

}  // namespace forkcast::test
