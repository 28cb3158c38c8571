//! An answer's text while it streams: characters, stop strings, reasoning and calls.

use super::{Bytes, halves};
use forkcast::serve::split::{Part, Splitter, Start};
use forkcast::text::{Detokenizer, StopMatcher};

/// A first byte for the start, up to four stop strings, one a line, a line `---`, and the bytes of an answer. It arrives
/// in pieces of any length; the pieces must not matter.
pub fn answer(data: &[u8]) {
    let (head, body) = halves(data);
    let mut bytes = Bytes(head);
    let start = [Start::Reasoning, Start::Open, Start::Content][bytes.below(3)];
    let seed = bytes.next();
    let stops: Vec<String> = bytes
        .0
        .split(|b| *b == b'\n')
        .take(4)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let whole = characters(body, usize::MAX, 0);
    assert_eq!(
        whole,
        String::from_utf8_lossy(body),
        "another text than all bytes at once"
    );
    assert_eq!(whole, characters(body, 3, seed), "pieces change the characters");
    let Ok(matcher) = StopMatcher::new(&stops) else {
        return;
    };
    let (text, stopped) = until_stop(matcher.clone(), &whole, usize::MAX, 0);
    assert_eq!(
        (text.clone(), stopped),
        until_stop(matcher, &whole, 3, seed),
        "pieces change the stop"
    );
    assert_eq!((text.as_str(), stopped), expected(&whole, &stops));
    assert_eq!(
        parts(start, &text, usize::MAX, 0),
        parts(start, &text, 3, seed),
        "pieces change the parts"
    );
}

/// Lengths of pieces: 1 to `most`, by a little generator.
fn pieces(length: usize, most: usize, seed: u8) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (mut at, mut state) = (0, u32::from(seed));
    std::iter::from_fn(move || {
        if at >= length {
            return None;
        }
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let end = length.min(at.saturating_add(1 + (state >> 16) as usize % most));
        let piece = at..end;
        at = end;
        Some(piece)
    })
}

fn characters(bytes: &[u8], most: usize, seed: u8) -> String {
    let mut detokenizer = Detokenizer::new(true);
    let mut out = String::new();
    for piece in pieces(bytes.len(), most, seed) {
        detokenizer.push_bytes(&bytes[piece], &mut out);
    }
    detokenizer.finish(&mut out);
    out
}

/// `text` in pieces that end at characters.
fn cut(text: &str, most: usize, seed: u8) -> Vec<&str> {
    let mut list = Vec::new();
    let mut start = 0;
    for piece in pieces(text.len(), most, seed) {
        if text.is_char_boundary(piece.end) {
            list.push(&text[start..piece.end]);
            start = piece.end;
        }
    }
    list
}

fn until_stop(mut matcher: StopMatcher, text: &str, most: usize, seed: u8) -> (String, bool) {
    let mut out = String::new();
    for piece in cut(text, most, seed) {
        if matcher.push(piece, &mut out) {
            return (out, true);
        }
    }
    matcher.finish(&mut out);
    (out, false)
}

/// The rule, as it is said: cut before the stop string that is complete first, of several the longest.
fn expected<'a>(text: &'a str, stops: &[String]) -> (&'a str, bool) {
    let found = stops
        .iter()
        .filter_map(|s| text.find(s.as_str()).map(|at| (at + s.len(), at)))
        .min();
    found.map_or((text, false), |(_, at)| (&text[..at], true))
}

/// Parts of the same kind joined: only their borders may depend on the pieces.
fn parts(start: Start, text: &str, most: usize, seed: u8) -> Vec<Part> {
    let mut splitter = Splitter::new(start, None);
    let mut out = Vec::new();
    for piece in cut(text, most, seed) {
        splitter.push(piece, &mut out);
    }
    splitter.finish(&mut out);
    let mut joined: Vec<Part> = Vec::new();
    for part in out {
        match (joined.last_mut(), part) {
            (Some(Part::Reasoning(a)), Part::Reasoning(b)) | (Some(Part::Content(a)), Part::Content(b)) => {
                a.push_str(&b);
            }
            (_, part) => joined.push(part),
        }
    }
    joined
}
