//! Stop strings: cut exactly, held back as long as needed and no longer, linear.

use super::super::{StopMatcher, TextStream};
use super::tiny_tokenizer;
use proptest::prelude::*;

/// Released pieces, and whether a stop string was found.
fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
    let mut matcher = StopMatcher::new(stops).expect("usable");
    let mut out = Vec::new();
    for piece in pieces {
        let mut text = String::new();
        matcher.push(piece, &mut text);
        out.push(text);
    }
    let mut rest = String::new();
    matcher.finish(&mut rest);
    out.push(rest);
    (out, matcher.stopped())
}

#[test]
fn cut_before_the_stop() {
    assert_eq!(
        run(&["beta gamma"], &["alpha be", "ta ga", "mma delta"]),
        (
            vec!["alpha ".into(), String::new(), String::new(), String::new()],
            true
        )
    );
    let split = run(&["DEFGHIJ"], &["ABC", "D", "EF", "G", "HI", "J", "K"]);
    assert_eq!((split.0.concat().as_str(), split.1), ("ABC", true));
}

#[test]
fn a_prefix_that_cannot_match_is_released() {
    let (pieces, stopped) = run(&["</s>"], &["a<", "/", "b", "<"]);
    assert_eq!(
        (pieces, stopped),
        (
            vec!["a".into(), String::new(), "</b".into(), String::new(), "<".into()],
            false
        )
    );
    let (pieces, stopped) = run(&["aab"], &["a", "a", "a", "b"]);
    assert_eq!((pieces.concat().as_str(), stopped), ("a", true));
}

#[test]
fn overlapping_stops() {
    for pieces in [vec!["xabcd"], vec!["x", "a", "b", "c", "d"]] {
        let found = run(&["abc", "bcd"], &pieces);
        assert_eq!((found.0.concat().as_str(), found.1), ("x", true));
        // The one that is complete first counts, also when a longer one began earlier.
        let found = run(&["abcd", "bc"], &pieces);
        assert_eq!((found.0.concat().as_str(), found.1), ("xa", true));
        let found = run(&["c", "abc"], &pieces);
        assert_eq!((found.0.concat().as_str(), found.1), ("x", true));
    }
}

#[test]
fn a_stop_inside_a_character() {
    let found = run(&["é"], &["cafè", " café!"]);
    assert_eq!((found.0.concat().as_str(), found.1), ("cafè caf", true));
}

#[test]
fn refused() {
    assert!(StopMatcher::new(&[""]).is_err());
    assert!(StopMatcher::new(&["x".repeat(5000)]).is_err());
    assert!(StopMatcher::new(&vec!["x"; 65]).is_err());
}

#[test]
fn a_stop_over_tokens() {
    let tokenizer = tiny_tokenizer();
    let ids = tokenizer.encode("one two three four").expect("encodes");
    let mut stream = TextStream::new(&["two thr"], false).expect("usable");
    let mut text = String::new();
    let end = ids.iter().position(|id| {
        let piece = stream.push(&tokenizer, *id);
        text += &piece.text;
        piece.stopped
    });
    assert_eq!(text, "one ");
    assert!(end.is_some_and(|i| i + 1 < ids.len()));
}

/// The obvious way: look at every prefix of the text.
fn reference(stops: &[String], text: &str) -> Option<usize> {
    let ends = text.char_indices().map(|(i, c)| i + c.len_utf8());
    for end in ends {
        let found = stops.iter().filter(|s| text[..end].ends_with(s.as_str()));
        if let Some(length) = found.map(String::len).max() {
            return Some(end - length);
        }
    }
    None
}

proptest! {
    #[test]
    fn equals_the_obvious_way(
        stops in proptest::collection::vec("[abé]{1,4}", 1..4),
        text in "[abé]{0,24}",
        size in 1usize..6,
    ) {
        let chars: Vec<char> = text.chars().collect();
        let pieces: Vec<String> = chars.chunks(size).map(|c| c.iter().collect()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let stops_ref: Vec<&str> = stops.iter().map(String::as_str).collect();
        let (released, stopped) = run(&stops_ref, &pieces);
        let expected = reference(&stops, &text);
        prop_assert_eq!(stopped, expected.is_some());
        prop_assert_eq!(released.concat(), &text[..expected.unwrap_or(text.len())]);
    }
}
