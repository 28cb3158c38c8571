// TreeDeltaRule: the gated delta rule along every root path in one pass, without a state per row.
//
//   u_i = beta_i (v_i - e^{G_i} S0^T k_i - sum_{j ancestor of i} e^{G_i - G_j} (k_j . k_i) u_j)
//   o_i = e^{G_i} S0^T q_i + sum_{j ancestor of i or i itself} e^{G_i - G_j} (q_i . k_j) u_j
//
// A block takes one value head and kColumns columns of the state; lane = column. Columns are independent, so a block
// needs no other block. G_i - G_j is summed along the path from i up to j, never as a difference of two G: what
// underflows is then exactly what is negligible, however large |G| grows.
//
// Two ways through the rows, chosen by the mask:
//  * tree:  forward substitution, level by level of depth; a warp takes a row and walks up its ancestors.
//  * chain: every parent is the row before (prefill, plain decoding): the recurrence itself, state in registers.
#pragma once

#include "delta_rows.cuh"

namespace forkcast {

/// u and o of one row by forward substitution. Called by a whole warp after the row's ancestors are done.
template <class T, int DK>
__device__ void substitute_row(const TreeDeltaRuleParams& p, const delta::Block<DK>& block, int row) {
    using namespace delta;
    constexpr int kEach = DK / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    float* k_row = block.staged + warp * 2 * DK;
    float* q_row = k_row + DK;
    float k[kEach], q[kEach];
    load_floats<kEach>(k, key_row<T, DK>(p, p.k, block, row) + lane * kEach);
    load_floats<kEach>(q, key_row<T, DK>(p, p.q, block, row) + lane * kEach);
    __syncwarp();  // the warp's last row is done with the staging area
    store_floats<kEach>(k_row + lane * kEach, k);
    store_floats<kEach>(q_row + lane * kEach, q);
    __syncwarp();

    float from_state_k = 0.0f, from_state_q = 0.0f, own = 0.0f;
    for (int d = 0; d < DK; d += 4) {
        float kd[4], qd[4];
        load_floats<4>(kd, k_row + d);
        load_floats<4>(qd, q_row + d);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float s = block.state[(d + e) * kColumns + lane];
            from_state_k += s * kd[e];
            from_state_q += s * qd[e];
            own += kd[e] * qd[e];
        }
    }
    const float decay = expf(block.cumulative_g[row]);
    float known = decay * from_state_k, out = decay * from_state_q;
    float between = block.g[row];  // G_row - G_j for the ancestor j at hand
    for (int j = block.parent[row]; j >= 0; between += block.g[j], j = block.parent[j]) {
        float kj[kEach], dot_k = 0.0f, dot_q = 0.0f;
        load_floats<kEach>(kj, key_row<T, DK>(p, p.k, block, j) + lane * kEach);
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            dot_k += kj[e] * k[e];
            dot_q += kj[e] * q[e];
        }
        const float weighted = expf(between) * p.u[value_index(p, block, j) + lane];
        known += lane_sum<32>(dot_k) * weighted;
        out += lane_sum<32>(dot_q) * weighted;
    }
    const std::int64_t at = value_index(p, block, row) + lane;
    const float v = to_float(static_cast<const T*>(p.v)[at]);
    const float u = p.beta[static_cast<std::int64_t>(row) * p.value_heads + block.head] * (v - known);
    p.u[at] = u;
    store_float(static_cast<T*>(p.o) + at, out + own * u);
}

/// Rows in order of depth; rows of one level are independent of each other.
template <class T, int DK>
__device__ void solve_tree(const TreeDeltaRuleParams& p, const delta::Block<DK>& block) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    for (int first = 0; first < p.rows;) {
        const int depth = block.depth[block.order[first]];
        int end = first + 1;
        while (end < p.rows && block.depth[block.order[end]] == depth) ++end;
        for (int at = first + warp; at < end; at += delta::kWarps) substitute_row<T, DK>(p, block, block.order[at]);
        __syncthreads();  // u of this level is visible to the next
        first = end;
    }
}

/// What one warp needs of a row in the recurrence: DK / kWarps elements of k and q, and the scalars.
template <class T, int DK>
struct ChainRow {
    static constexpr int kEach = DK / delta::kWarps;
    float k[kEach], q[kEach], v = 0.0f, beta = 0.0f;

    __device__ void load(const TreeDeltaRuleParams& p, const delta::Block<DK>& block, int row) {
        if (row >= p.rows) return;
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        load_floats<kEach>(k, delta::key_row<T, DK>(p, p.k, block, row) + warp * kEach);
        load_floats<kEach>(q, delta::key_row<T, DK>(p, p.q, block, row) + warp * kEach);
        v = to_float(static_cast<const T*>(p.v)[delta::value_index(p, block, row) + lane]);
        beta = p.beta[static_cast<std::int64_t>(row) * p.value_heads + block.head];
    }
};

/// The recurrence over chains laid one after another: S <- e^g S; u = beta (v - S^T k); S <- S + k u^T; o = S^T q.
/// Each warp holds DK / kWarps rows of the state tile; partial products meet in shared memory, one barrier a row.
template <class T, int DK>
__device__ void solve_chains(const TreeDeltaRuleParams& p, const delta::Block<DK>& block) {
    using namespace delta;
    constexpr int kEach = DK / kWarps;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    float state[kEach] = {};
    ChainRow<T, DK> now, next;
    now.load(p, block, 0);
    for (int row = 0; row < p.rows; ++row) {
        next.load(p, block, row + 1);
        const float decay = expf(block.g[row]);
        const bool root = block.parent[row] < 0;
        float dot_k = 0.0f, dot_q = 0.0f, own = 0.0f;
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            if (root) state[e] = block.state[(warp * kEach + e) * kColumns + lane];
            state[e] *= decay;
            dot_k += state[e] * now.k[e];
            dot_q += state[e] * now.q[e];
            own += now.k[e] * now.q[e];
        }
        float* meet = block.staged + (row & 1) * kMeetFloats;  // [kWarps][2][kColumns] and [kWarps]
        meet[(warp * 2 + 0) * kColumns + lane] = dot_k;
        meet[(warp * 2 + 1) * kColumns + lane] = dot_q;
        if (lane == 0) meet[kWarps * 2 * kColumns + warp] = own;
        __syncthreads();
        float known = 0.0f;
        for (int w = 0; w < kWarps; ++w) known += meet[(w * 2 + 0) * kColumns + lane];
        const float u = now.beta * (now.v - known);
#pragma unroll
        for (int e = 0; e < kEach; ++e) state[e] += now.k[e] * u;
        if (warp == row % kWarps) {
            float out = 0.0f, own_sum = 0.0f;
            for (int w = 0; w < kWarps; ++w) {
                out += meet[(w * 2 + 1) * kColumns + lane];
                own_sum += meet[kWarps * 2 * kColumns + w];
            }
            const std::int64_t at = value_index(p, block, row) + lane;
            p.u[at] = u;
            store_float(static_cast<T*>(p.o) + at, out + own_sum * u);
        }
        now = next;
    }
}

/// grid (DV / 32, HV), 512 threads, delta::shared_bytes<DK>(N).
template <class T, int DK>
__global__ void __launch_bounds__(delta::kThreads) tree_delta_rule_kernel(TreeDeltaRuleParams p) {
    using namespace delta;
    FORKCAST_DYNAMIC_SHARED(memory);
    Block<DK> block(memory, p.rows);
    block.head = static_cast<int>(blockIdx.y);
    block.key_head = block.head / (p.value_heads / p.key_heads);
    block.column = static_cast<int>(blockIdx.x) * kColumns;
    load_block(p, block);
    parents_from_mask(p.ancestors, p.rows, block.parent);
    const bool chains = sum_paths(p, block);
    if (chains) {
        solve_chains<T, DK>(p, block);
    } else {
        order_by_depth(p.rows, block);
        solve_tree<T, DK>(p, block);
    }
}

}  // namespace forkcast
