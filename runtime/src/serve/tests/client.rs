//! A small HTTP client: enough to see what real ones see, and to hang up rudely.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(super) const JSON: (&str, &str) = ("content-type", "application/json");

/// A whole reply.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Content of the answer's message.
    pub(super) fn content(&self) -> String {
        let json = self.json();
        let content = &json["choices"][0]["message"]["content"];
        content.as_str().unwrap_or_else(|| panic!("{json}")).to_owned()
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn write(stream: &mut TcpStream, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).unwrap();
}

fn read_head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status in {line:?}"));
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            return (status, headers);
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
}

/// Body in chunks or with a length, to the end.
fn read_body(reader: &mut impl BufRead, headers: &[(String, String)]) -> String {
    let mut body = Vec::new();
    if headers
        .iter()
        .any(|(n, v)| n == "transfer-encoding" && v == "chunked")
    {
        while let Some(chunk) = read_chunk(reader) {
            body.extend(chunk);
        }
    } else {
        reader.read_to_end(&mut body).unwrap();
    }
    String::from_utf8(body).expect("bodies are UTF-8")
}

fn read_chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    (length > 0).then_some(chunk)
}

/// Sends a request and reads the whole reply.
pub(super) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut stream = connect(address);
    write(&mut stream, method, path, headers, body);
    let mut reader = BufReader::new(stream);
    let (status, headers) = read_head(&mut reader);
    let body = read_body(&mut reader, &headers);
    Reply {
        status,
        headers,
        body,
    }
}

/// A reply that is read event by event. Dropping it hangs up.
pub(super) struct Stream {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    pending: String,
}

impl Stream {
    pub(super) fn open(address: SocketAddr, path: &str, body: &str) -> Self {
        let mut stream = connect(address);
        write(&mut stream, "POST", path, &[JSON], body);
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader);
        Self {
            status,
            headers,
            reader,
            pending: String::new(),
        }
    }

    /// The next event or comment as it came; none at the end. Every chunk on the wire is whole UTF-8.
    pub(super) fn raw(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.pending.split_once("\n\n") {
                let event = event.to_owned();
                self.pending = rest.to_owned();
                return Some(event);
            }
            let chunk = read_chunk(&mut self.reader)?;
            self.pending += &String::from_utf8(chunk).expect("every chunk is whole UTF-8");
        }
    }

    /// Data of the next event, comments skipped.
    pub(super) fn next(&mut self) -> Option<String> {
        loop {
            let event = self.raw()?;
            if let Some(data) = event.strip_prefix("data: ") {
                return Some(data.to_owned());
            }
            assert!(event.starts_with(':') || event.is_empty(), "{event:?}");
        }
    }

    /// All chunks; the last event must be `[DONE]`.
    pub(super) fn chunks(mut self) -> Vec<Value> {
        if self.status != 200 {
            let rest = self.rest();
            panic!("{}: {rest}", self.status);
        }
        let mut chunks = Vec::new();
        loop {
            let data = self.next().expect("a stream ends with [DONE]");
            if data == "[DONE]" {
                assert_eq!(self.next(), None);
                return chunks;
            }
            chunks.push(serde_json::from_str(&data).unwrap());
        }
    }

    /// What is left of a reply that is no stream.
    pub(super) fn rest(&mut self) -> String {
        let headers = self.headers.clone();
        if self.status == 200 {
            return String::new();
        }
        read_body(&mut self.reader, &headers)
    }
}

/// Text of chunks: of deltas in a conversation, or of continued text.
pub(super) fn text(chunks: &[Value], field: &str) -> String {
    let choices = chunks.iter().filter_map(|c| c["choices"].get(0));
    let texts = choices.filter_map(|c| c["delta"][field].as_str().or(c[field].as_str()));
    texts.collect()
}
