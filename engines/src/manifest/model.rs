//! Shapes of target and drafter, as far as the runtime needs them.

use serde::{Deserialize, Serialize};

/// Model family of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Dense Qwen3.
    Qwen3,
    /// Hybrid Gated DeltaNet Qwen3.5.
    #[serde(rename = "qwen3_5")]
    Qwen35,
}

/// Shape of a full attention layer's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Size of one head.
    pub head_dim: usize,
}

/// Shape of a Gated DeltaNet layer's states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeltaNet {
    /// Key (and query) heads HK.
    pub key_heads: usize,
    /// Value heads HV; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Size of one key head DK.
    pub key_dim: usize,
    /// Size of one value head DV.
    pub value_dim: usize,
    /// Width K of the causal convolution; the conv state has K-1 rows.
    pub kernel: usize,
}

impl DeltaNet {
    /// Channels CH of the convolution: q, k and v side by side.
    #[must_use]
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }
}

/// One decoder layer of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Full attention: graph values `past_k.I`, `past_v.I` in, `k.I`, `v.I` out.
    Attention(Attention),
    /// Gated DeltaNet: `conv.I`, `state.I` in, `conv_in.I`, `dk.I`, `du.I`, `dg.I` out.
    DeltaNet(DeltaNet),
}

/// The target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Model family.
    pub family: Family,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Rows of embedding and head; may exceed the tokenizer's size.
    pub vocab: usize,
    /// Decoder layers in order.
    pub layers: Vec<Layer>,
    /// Whether the head is the embedding matrix.
    pub tied: bool,
}

/// The drafter (DFlash family).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drafter {
    /// Number of layers; caches are `draft_k.I`, `draft_v.I`.
    pub layers: usize,
    /// Shape of every layer's attention.
    pub attention: Attention,
    /// Rows of a block: the anchor and `block - 1` masks.
    pub block: usize,
    /// Futures drafted at once: 1 for DFlash and MDraft, 8 for MFD.
    pub modes: usize,
    /// Token whose embedding fills the drafted positions.
    pub mask_id: u32,
}
