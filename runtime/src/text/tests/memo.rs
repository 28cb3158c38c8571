//! A memo changes no token.

use super::super::Memo;
use super::tiny_tokenizer;
use proptest::prelude::*;

const OPENER: &str = "<|im_start|>";

/// Pieces that tokenizers join, cut and normalize: tags whole and broken, combining marks, spaces, characters of many bytes.
const PIECES: [&str; 16] = [
    OPENER,
    OPENER,
    "<|im_end|>",
    "<|im_",
    "start|>",
    "user\n",
    "apples and pears",
    " ",
    "\n\n",
    "e",
    "\u{301}",
    "\u{1f34e}",
    "<think>",
    "7",
    "<",
    "\u{4e2d}\u{6587}",
];

fn text() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..PIECES.len(), 0..40)
}

fn spell(pieces: &[usize]) -> String {
    pieces.iter().map(|i| PIECES[*i]).collect()
}

proptest! {
    /// Texts that share a beginning of any length follow each other.
    #[test]
    fn the_same_tokens_as_without(first in text(), cuts in proptest::collection::vec((0usize..40, text()), 1..6)) {
        let tokenizer = tiny_tokenizer();
        let memo = Memo::new(&tokenizer, OPENER).expect("a divider");
        let mut pieces = first;
        for (cut, more) in cuts {
            let text = spell(&pieces);
            prop_assert_eq!(memo.encode(&tokenizer, &text).expect("tokens"), tokenizer.encode(&text).expect("tokens"));
            pieces.truncate(cut);
            pieces.extend(more);
        }
    }
}

#[test]
fn only_tokens_that_cut_everywhere_have_a_memo() {
    let tokenizer = tiny_tokenizer();
    assert!(Memo::new(&tokenizer, "apples").is_none());
    assert!(Memo::new(&tokenizer, "").is_none());
}
