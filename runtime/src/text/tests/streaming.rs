//! Streaming gives whole characters, never stalls, and adds up to the whole text.

use super::super::{Detokenizer, TextStream};
use super::tiny_tokenizer;
use proptest::prelude::*;

fn pieces(chunks: &[&[u8]]) -> Vec<String> {
    let mut stream = Detokenizer::new(false);
    let mut out: Vec<String> = Vec::new();
    for chunk in chunks {
        let mut piece = String::new();
        stream.push_bytes(chunk, &mut piece);
        out.push(piece);
    }
    let mut rest = String::new();
    stream.finish(&mut rest);
    out.push(rest);
    out
}

#[test]
fn a_split_character_is_held_back() {
    let bytes = "é€😀".as_bytes();
    let split = pieces(&bytes.chunks(1).collect::<Vec<_>>());
    assert_eq!(split, ["", "é", "", "", "€", "", "", "", "😀", ""]);
}

#[test]
fn a_lone_byte_does_not_stall() {
    assert_eq!(pieces(&[b"\xFF", b"a"]), ["\u{FFFD}", "a", ""]);
    assert_eq!(pieces(&[b"\xE2", b"a"]), ["", "\u{FFFD}a", ""]);
    assert_eq!(pieces(&[b"a\xE2\x82"]), ["a", "\u{FFFD}"]);
    assert_eq!(
        pieces(&[b"\xF0\x9F", b"\xF0\x9F\x98\x80"]),
        ["", "\u{FFFD}😀", ""]
    );
}

#[test]
fn tokens_of_split_characters() {
    let tokenizer = tiny_tokenizer();
    let ids = tokenizer.encode("日本 😀 naïve").expect("encodes");
    assert!(ids.len() > 12, "the characters are split over tokens");
    let mut stream = TextStream::new::<&str>(&[], false).expect("no stops");
    let mut text = String::new();
    for id in ids {
        text += &stream.push(&tokenizer, id).text;
        assert!(!text.contains('\u{FFFD}'));
    }
    text += &stream.finish().text;
    assert_eq!(text, "日本 😀 naïve");
}

proptest! {
    #[test]
    fn pieces_add_up(bytes in proptest::collection::vec(any::<u8>(), 0..64), size in 1usize..5) {
        let joined: String = pieces(&bytes.chunks(size).collect::<Vec<_>>()).concat();
        prop_assert_eq!(joined, String::from_utf8_lossy(&bytes).into_owned());
    }

    #[test]
    fn little_is_held(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut stream = Detokenizer::new(false);
        let mut text = String::new();
        for (i, byte) in bytes.iter().enumerate() {
            stream.push_bytes(&[*byte], &mut text);
            let whole = String::from_utf8_lossy(&bytes[..=i]).into_owned();
            let missing = whole.chars().count() - text.chars().count();
            prop_assert!(missing <= 1, "{} characters are held back", missing);
        }
    }

    #[test]
    fn random_ids_add_up(ids in proptest::collection::vec(0u32..2060, 0..40), keep in any::<bool>()) {
        let tokenizer = tiny_tokenizer();
        let mut stream = TextStream::new::<&str>(&[], keep).expect("no stops");
        let mut text: String = ids.iter().map(|id| stream.push(&tokenizer, *id).text).collect();
        text += &stream.finish().text;
        prop_assert_eq!(text, tokenizer.decode(&ids, keep));
    }
}
