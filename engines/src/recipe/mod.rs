//! Recipes: one file per fixed GPU with what is built for it and what it can do.

mod plan;

pub use plan::{Cost, ModelSize, RoundPlan, plan_round};

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Recipes that come with forkcast, by name.
pub const BUILT_IN: [(&str, &str); 7] = [
    (
        "rtx-pro-6000-blackwell",
        include_str!("../../recipes/rtx-pro-6000-blackwell.toml"),
    ),
    ("rtx-5090", include_str!("../../recipes/rtx-5090.toml")),
    ("rtx-4090", include_str!("../../recipes/rtx-4090.toml")),
    ("l40s", include_str!("../../recipes/l40s.toml")),
    ("a100", include_str!("../../recipes/a100.toml")),
    ("rtx-3090", include_str!("../../recipes/rtx-3090.toml")),
    ("h200", include_str!("../../recipes/h200.toml")),
];

/// Compute capabilities that each flavour of TensorRT compiles for.
const RTX_SM: [u32; 5] = [80, 86, 89, 120, 121];
const ENTERPRISE_SM: [u32; 6] = [80, 86, 89, 90, 100, 120];

/// Library that builds and runs the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flavour {
    /// TensorRT-RTX: builds without a GPU, function bodies instead of plugins.
    TensorrtRtx,
    /// TensorRT 11 with forkcast's plugin library.
    Tensorrt,
}

/// Type of the linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
}

/// What the GPU can do, for [`plan_round`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Memory in GiB.
    pub memory_gib: u32,
    /// Memory bandwidth in 1e9 bytes a second.
    pub bandwidth_gb_s: f64,
    /// Dense bf16 matrix rate in 1e12 operations a second.
    pub tflops_bf16: f64,
    /// Where these figures come from.
    pub source: String,
}

/// One recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name on the command line.
    pub name: String,
    /// Name of the GPU.
    pub gpu: String,
    /// Compute capability, 120 for 12.0.
    pub sm: u32,
    /// Library.
    pub flavour: Flavour,
    /// Type of the linear layers.
    pub precision: Precision,
    /// Row buckets, ascending; each becomes an optimisation profile.
    pub rows: Vec<usize>,
    /// Context buckets in tokens, ascending.
    pub context: Vec<usize>,
    /// Scratch memory for the builder in MiB.
    pub workspace_mib: u64,
    /// What the GPU can do.
    pub hardware: Hardware,
}

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// Neither a built-in name nor a readable file.
    #[error("recipe {name:?}: {reason}\nhint: known recipes are {known}; or pass a .toml file", known = names())]
    NotFound {
        /// What was asked for.
        name: String,
        /// What the system said.
        reason: String,
    },
    /// Not valid.
    #[error("recipe {name}: {reason}")]
    Invalid {
        /// Name or path.
        name: String,
        /// Field and what is wrong with it.
        reason: String,
    },
}

fn names() -> String {
    BUILT_IN.map(|(name, _)| name).join(", ")
}

impl Recipe {
    /// A built-in recipe by name, or a `.toml` file.
    ///
    /// # Errors
    /// There is no such recipe, it has unknown keys, or its values contradict each other.
    pub fn load(name: &str) -> Result<Self, RecipeError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
            return Self::parse(name, text);
        }
        let path: PathBuf = Path::new(name).to_path_buf();
        if path.extension().is_none_or(|e| e != "toml") {
            return Err(RecipeError::NotFound {
                name: name.to_owned(),
                reason: "no such recipe".to_owned(),
            });
        }
        let text = std::fs::read_to_string(&path).map_err(|e| RecipeError::NotFound {
            name: name.to_owned(),
            reason: e.to_string(),
        })?;
        Self::parse(name, &text)
    }

    /// Parses and validates.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, RecipeError> {
        let invalid = |reason: String| RecipeError::Invalid {
            name: name.to_owned(),
            reason,
        };
        let recipe: Self = toml::from_str(text).map_err(|e| invalid(e.to_string()))?;
        recipe.validate().map_err(invalid)?;
        Ok(recipe)
    }

    pub(crate) fn validate(&self) -> Result<(), String> {
        let known: &[u32] = match self.flavour {
            Flavour::TensorrtRtx => &RTX_SM,
            Flavour::Tensorrt => &ENTERPRISE_SM,
        };
        if !known.contains(&self.sm) {
            return Err(format!(
                "sm: {} is not one of {known:?} that this flavour compiles for",
                self.sm
            ));
        }
        ascending("rows", &self.rows, 1025)?;
        ascending("context", &self.context, 1 << 20)?;
        if self.rows[0] != 1 {
            return Err("rows: the first bucket must be 1 (plain decoding)".to_owned());
        }
        for (field, value, max) in [
            ("workspace_mib", self.workspace_mib, 1 << 20),
            ("hardware.memory_gib", u64::from(self.hardware.memory_gib), 4096),
        ] {
            if value == 0 || value > max {
                return Err(format!("{field}: {value} is outside 1..={max}"));
            }
        }
        if self.name.trim().is_empty() || self.gpu.trim().is_empty() {
            return Err("name, gpu: must not be empty".to_owned());
        }
        for (field, value) in [
            ("bandwidth_gb_s", self.hardware.bandwidth_gb_s),
            ("tflops_bf16", self.hardware.tflops_bf16),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("hardware.{field}: {value} is not positive"));
            }
        }
        Ok(())
    }
}

fn ascending(field: &str, values: &[usize], max: usize) -> Result<(), String> {
    let ordered = values.windows(2).all(|w| w[0] < w[1]);
    match values {
        [] => Err(format!("{field}: empty")),
        [first, ..] if *first == 0 || !ordered => Err(format!("{field}: {values:?} must ascend from 1")),
        [.., last] if *last > max => Err(format!("{field}: {last} is above {max}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_recipe_is_valid_and_named_as_its_file() {
        for (name, _) in BUILT_IN {
            let recipe = Recipe::load(name).expect("valid");
            assert_eq!(recipe.name, name);
            assert_eq!(recipe.rows, [1, 16, 32, 64, 128, 257]);
        }
    }

    #[test]
    fn refusals_name_the_field() {
        let good = BUILT_IN[0].1;
        for (from, to, needle) in [
            ("sm = 120", "sm = 90", "sm: 90"),
            ("rows = [1, 16,", "rows = [1, 16, 16,", "rows"),
            ("rows = [1, 16,", "rows = [2, 16,", "first bucket"),
            ("precision = \"bf16\"", "precision = \"fp4\"", "fp4"),
            ("workspace_mib", "workspace_gib", "workspace_gib"),
            ("workspace_mib = 2048", "workspace_mib = 0", "workspace_mib: 0"),
            ("memory_gib = 96", "memory_gib = 0", "memory_gib: 0"),
            ("gpu = \"NVIDIA RTX PRO 6000 Blackwell\"", "gpu = \" \"", "gpu"),
            (
                "bandwidth_gb_s = 1792.0",
                "bandwidth_gb_s = -1.0",
                "bandwidth_gb_s",
            ),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good, "{from}");
            let error = Recipe::parse("x", &text).expect_err(needle).to_string();
            assert!(error.contains(needle), "{error}");
        }
        assert!(
            Recipe::load("rtx-9999")
                .expect_err("unknown")
                .to_string()
                .contains("rtx-5090")
        );
    }
}
