//! Seeded mutations of corpus entries: the same on every machine.

/// Splitmix64.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that depend on `seed` only.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n as u64) as usize
    }
}

/// Pieces that parsers have stumbled over.
const PIECES: [&[u8]; 30] = [
    b"0",
    b"-1",
    b"1e999",
    b"-0.0",
    b"0.5",
    b"18446744073709551615",
    b"18446744073709551616",
    b"4294967296",
    b"2147483648",
    b"268435456",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"\"\"",
    b"[[[[[[[[",
    b"{\"a\":",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\\ud800",
    b"\xe2\x80\xa8",
    b"../x",
    b"/",
    b",",
    b"}",
    b"\"",
    b"{{",
    b"{%",
    b"\xf0\x9f\x98\x80",
];

/// Most bytes that a mutation grows to.
const MOST: usize = 1 << 16;

/// A mutation of `entry`; `other` is another entry of the corpus, to be mixed in.
#[must_use]
pub fn mutation(entry: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = entry.to_vec();
    for _ in 0..=random.below(4) {
        once(&mut out, other, random);
    }
    out.truncate(MOST);
    out
}

fn once(out: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(out.len() + 1);
    let some = (out.len() - at).min(1 + random.below(24));
    match random.below(8) {
        0 => drop(out.splice(
            at..at + some.min(8),
            PIECES[random.below(PIECES.len())].iter().copied(),
        )),
        1 => drop(out.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
        2 => drop(out.drain(at..at + some)),
        3 => out.truncate(at),
        4 => {
            let piece = out[at..at + some].to_vec();
            let copies = 1 + random.below(6);
            out.splice(at..at, piece.repeat(copies));
        }
        5 => {
            if let Some(byte) = out.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        6 => number(out, at, random),
        _ => {
            let from = random.below(other.len() + 1);
            let piece = &other[from..(from + some + 8).min(other.len())];
            out.splice(at..at, piece.iter().copied());
        }
    }
}

/// Replaces the decimal number at or after `at`.
fn number(out: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = (at..out.len()).find(|i| out[*i].is_ascii_digit()) else {
        return;
    };
    let end = (start..out.len())
        .find(|i| !out[*i].is_ascii_digit())
        .unwrap_or(out.len());
    let numbers = [
        0,
        1,
        2,
        3,
        7,
        16,
        255,
        1 << 16,
        1 << 28,
        1 << 32,
        u64::MAX >> 1,
        u64::MAX,
    ];
    let new = match random.below(3) {
        0 => random.number() >> random.below(64),
        _ => numbers[random.below(numbers.len())],
    };
    out.splice(start..end, new.to_string().into_bytes());
}
