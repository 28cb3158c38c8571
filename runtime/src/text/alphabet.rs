//! The byte-level alphabet: tokens spell every byte as one printable character.

use std::collections::HashMap;

/// Character to byte, for all 256 bytes. Printable Latin-1 bytes stand for themselves, the others
/// are the characters from U+0100 on, in byte order.
pub(super) fn char_to_byte() -> HashMap<char, u8> {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut shifted = 0x100;
    (0..=255u8)
        .map(|byte| {
            let c = if printable(byte) {
                char::from(byte)
            } else {
                shifted += 1;
                char::from_u32(shifted - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
            };
            (c, byte)
        })
        .collect()
}

/// The bytes that `token` spells; a token with a character outside the alphabet stands for itself.
pub(super) fn spell(token: &str, alphabet: &HashMap<char, u8>, out: &mut Vec<u8>) {
    let start = out.len();
    for c in token.chars() {
        if let Some(byte) = alphabet.get(&c) {
            out.push(*byte);
        } else {
            out.truncate(start);
            out.extend_from_slice(token.as_bytes());
            return;
        }
    }
}
