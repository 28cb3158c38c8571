//! Names of the custom operators: the contract between exporter, function bodies, kernels and
//! plugins (see `docs/operators.md` for shapes and formulas).

/// Domain of the custom operators.
pub const DOMAIN: &str = "forkcast";
/// Domain of ONNX Runtime's own operators.
pub const CONTRIBUTED: &str = "com.microsoft";
/// Version of the domain.
pub const VERSION: i64 = 1;

/// `(q [N,QH,D], k [N,KVH,D], v [N,KVH,D], past_k [C,KVH,D], past_v [C,KVH,D], past_len i64 [1],
/// positions i64 [N], visible bool [N,N]) -> o [N,QH,D]`; attributes `scale` (float) and `window`
/// (int, 0 = none). Softmax over committed rows `c < past_len` (their position is `c`) and over
/// rows `j` with `visible[i,j]`; with a window W additionally `positions[i] - position(key) < W`.
pub const TREE_ATTENTION: &str = "TreeAttention";
/// `(x [N,CH], past [K-1,CH], weight [CH,K], ancestors bool [N,N]) -> y [N,CH]`: depthwise
/// convolution over each row's own last K-1 ancestors (then the committed rows), then SiLU.
/// Tap K-1 is the row itself; `past` is ordered oldest first and holds raw rows.
pub const TREE_CAUSAL_CONV: &str = "TreeCausalConv";
/// `(q [N,HK,DK], k [N,HK,DK], v [N,HV,DV], g [N,HV], beta [N,HV], state [HV,DK,DV], ancestors bool
/// [N,N]) -> (o [N,HV,DV], u [N,HV,DV], G [N,HV])`. q and k arrive l2-normalised and q scaled by
/// DK^-1/2; g <= 0 is the log decay. `algorithms.md` 5.4; `state` is not changed. All float32.
pub const TREE_DELTA_RULE: &str = "TreeDeltaRule";
/// `(state [HV,DK,DV], k [N,HK,DK], u [N,HV,DV], G [N,HV], path i64 [P]) -> state' [HV,DK,DV]`:
/// commit of the accepted path, `algorithms.md` 5.5. All float32.
pub const DELTA_BRANCH_UPDATE: &str = "DeltaBranchUpdate";
/// All of them.
pub const ALL: [&str; 4] = [
    TREE_ATTENTION,
    TREE_CAUSAL_CONV,
    TREE_DELTA_RULE,
    DELTA_BRANCH_UPDATE,
];

/// Chains of standard operators that the CPU runs as one: what lies between two matrix products. They save nodes and
/// copies; their bodies are those chains, so that everything without the kernels runs them too. All float32.
pub mod fused {
    /// Domain of the fused operators.
    pub const DOMAIN: &str = "forkcast.fused";
    /// `x [N,2I] -> y [N,I]`: `silu(x[:, :I]) * x[:, I:]`.
    pub const SWI_GLU: &str = "SwiGlu";
    /// `(c [N,2*HK*DK + HV*DV], a [N,HV], b [N,HV], dt_bias [HV], decay [HV]) -> (q [N,HK,DK], k [N,HK,DK], v [N,HV,DV],
    /// g [N,HV], beta [N,HV])`; attributes `key_heads`, `key_dim`. What `TreeDeltaRule` takes: q and k cut out of the
    /// convolution's result and l2-normed (epsilon 1e-6), q also times DK^-1/2, v cut out,
    /// `g = decay * softplus(a + dt_bias)`, `beta = sigmoid(b)`.
    pub const DELTA_INPUTS: &str = "DeltaInputs";
    /// `(o [N,H,D], z [N,H*D], w [D]) -> y [N,H*D]`; attribute `epsilon`: `w * rms_norm(o) * silu(z)`.
    pub const GATED_NORM: &str = "GatedNorm";
    /// `(x [N,H*S], w [D], cos [N,1,R/2], sin [N,1,R/2]) -> y [N,H,D]`; attributes `heads`, `rotary` (R, 0 when R = D) and
    /// `epsilon`: the first D of the S numbers of every head, RMS-normed with scale w, the first R of them rotated
    /// (half-split).
    pub const HEAD_NORM_ROPE: &str = "HeadNormRope";
    /// `(o [N,H,D], x [N,H*2D]) -> y [N,H*D]`: `o * sigmoid(second half of every head of x)`.
    pub const SIGMOID_GATE: &str = "SigmoidGate";
    /// `(x [N,K], w u8 [M,K/32,4*bits], scales [M,K/32]) -> y [N,M]`; attributes `K`, `N` (which is M) and `bits` (8 or 4):
    /// `x Wᵀ` with blocks of 32 numbers of a row sharing a scale. With 8 bits `W = scale * q`, q signed; with 4
    /// `W = scale * (q - 8)`, two numbers in a byte, the first in the low half. Names and layout are those of ONNX Runtime's
    /// `MatMulNBits`, which is the body (with 8 bits it takes `q + 128`).
    pub const BLOCK_MAT_MUL: &str = "BlockMatMul";
    /// All of them.
    pub const ALL: [&str; 6] = [
        SWI_GLU,
        DELTA_INPUTS,
        GATED_NORM,
        HEAD_NORM_ROPE,
        SIGMOID_GATE,
        BLOCK_MAT_MUL,
    ];
}
