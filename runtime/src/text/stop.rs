//! Stop strings in streamed text.

use super::TextError;
use std::collections::VecDeque;

/// Longest stop string, in bytes.
const MAX_BYTES: usize = 4096;
/// Most stop strings.
const MAX_STOPS: usize = 64;

/// Finds the stop string that is complete first, however the text is cut into pieces, and holds back
/// text that may still become part of one. Of stop strings that are complete at the same character the
/// longest counts. Linear in the text (Aho-Corasick automaton over bytes).
#[derive(Clone, Debug)]
pub struct StopMatcher {
    nodes: Vec<Node>,
    state: usize,
    held: String,
    stopped: bool,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Transitions of the trie.
    next: Vec<(u8, usize)>,
    /// Node of the longest proper suffix that is in the trie.
    fail: usize,
    /// Bytes from the root.
    depth: usize,
    /// Length of the longest stop string that ends here; 0 for none.
    ends: usize,
}

impl StopMatcher {
    /// A matcher for `stops`; without any it lets everything pass.
    ///
    /// # Errors
    /// A stop string is empty or too long, or there are too many.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<Self, TextError> {
        if stops.len() > MAX_STOPS {
            return Err(TextError::Stop("more than 64 stop strings"));
        }
        let mut nodes = vec![Node::default()];
        for stop in stops {
            let stop = stop.as_ref();
            if stop.is_empty() {
                return Err(TextError::Stop("a stop string is empty"));
            }
            if stop.len() > MAX_BYTES {
                return Err(TextError::Stop("a stop string is longer than 4096 bytes"));
            }
            let mut at = 0;
            for byte in stop.bytes() {
                at = if let Some(next) = child(&nodes, at, byte) {
                    next
                } else {
                    let new = nodes.len();
                    let depth = nodes[at].depth + 1;
                    nodes.push(Node {
                        depth,
                        ..Node::default()
                    });
                    nodes[at].next.push((byte, new));
                    new
                };
            }
            nodes[at].ends = stop.len();
        }
        link(&mut nodes);
        Ok(Self {
            nodes,
            state: 0,
            held: String::new(),
            stopped: false,
        })
    }

    /// Takes a piece of text and appends to `out` what is certainly not part of a stop string. True when
    /// a stop string is complete: the text before it has been released, the rest is dropped.
    pub fn push(&mut self, piece: &str, out: &mut String) -> bool {
        if self.stopped {
            return true;
        }
        let before = self.held.len();
        self.held.push_str(piece);
        for (i, byte) in piece.bytes().enumerate() {
            self.state = step(&self.nodes, self.state, byte);
            let length = self.nodes[self.state].ends;
            if length > 0 {
                self.held.truncate(before + i + 1 - length);
                out.push_str(&self.held);
                self.held.clear();
                self.stopped = true;
                return true;
            }
        }
        let free = self.held.len() - self.nodes[self.state].depth;
        out.extend(self.held.drain(..free));
        false
    }

    /// Ends the text: what was held back is released.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
        self.state = 0;
    }

    /// Whether a stop string was found.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped
    }
}

fn child(nodes: &[Node], at: usize, byte: u8) -> Option<usize> {
    nodes[at].next.iter().find(|(b, _)| *b == byte).map(|(_, n)| *n)
}

fn step(nodes: &[Node], mut at: usize, byte: u8) -> usize {
    loop {
        if let Some(next) = child(nodes, at, byte) {
            return next;
        }
        if at == 0 {
            return 0;
        }
        at = nodes[at].fail;
    }
}

/// Sets failure links breadth first and passes the ends of suffixes on.
fn link(nodes: &mut [Node]) {
    let mut queue: VecDeque<usize> = nodes[0].next.iter().map(|(_, n)| *n).collect();
    while let Some(at) = queue.pop_front() {
        for (byte, next) in nodes[at].next.clone() {
            let fail = step(nodes, nodes[at].fail, byte);
            nodes[next].fail = fail;
            nodes[next].ends = nodes[next].ends.max(nodes[fail].ends);
            queue.push_back(next);
        }
    }
}
