//! What the server adds to `generate` for the same request: `cargo bench -p forkcast --bench serve`.
//!
//! One engine is driven directly (template, tokens, decode, text: what `forkcast generate` does once its model is
//! loaded), another of the same bundle by a server, which a client asks over a kept connection. They take turns in one
//! process, and each answer is compared with the direct one of its turn. A second direct engine takes its turn too: what
//! it is off by is what two measurements of the same thing differ by. Where memory an engine happens to lie in moves its
//! times by more than the server adds, so all are opened anew a few times, and the median is over all turns. The server
//! keeps no states here, so that all compute the same. One thread computes, so that no second one is waited for.

use forkcast::decode::{DEFAULT_BUDGET, Emitted, Method, Request, Sink, Verdict, decode};
use forkcast::sample::Sampling;
use forkcast::serve::engine::{Loader, WorkerSettings};
use forkcast::serve::http::HttpSettings;
use forkcast::serve::keys::Keys;
use forkcast::serve::model::Model;
use forkcast::serve::server::{Settings, serve};
use forkcast::text::{Conversation, RenderOptions, TextModel, TextStream, Tokenizer};
use forkcast_engines::backend::Backend;
use forkcast_engines::manifest::{self, Dtype};
use forkcast_engines::ort::{OpenOptions, OrtBackend};
use forkcast_exporter::{ExportOptions, export};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often all engines are opened anew.
const OPENINGS: usize = 8;
/// Turns of each opening.
const TURNS: usize = 20;
const TOKENS: usize = 64;
const QUESTION: &str = "Maya has 3 apples and buys 4 more. How many apples does she have?";

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let bundle = folder.path().join("tiny");
    make(&bundle)?;
    for method in [Method::Plain, Method::Mfd] {
        compare(&bundle, method)?;
    }
    Ok(())
}

/// Exports the trained tiny pair.
fn make(out: &Path) -> Fallible<()> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let place = |name: &str| models.join(name).to_string_lossy().into_owned();
    let options = ExportOptions {
        target: place("tiny-qwen3.5"),
        drafter: Some(place("tiny-qwen3.5-mfd")),
        out: out.to_owned(),
        dtype: Dtype::F32,
        copy_weights: false,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: None,
    };
    export(&options, &mut |_| {})?;
    Ok(())
}

fn open(bundle: &Path) -> Fallible<OrtBackend> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lib/libonnxruntime.so");
    let options = OpenOptions {
        threads: Some(1),
        max_context: None,
        library: Some(library),
        drafter: None,
    };
    Ok(OrtBackend::open(bundle, &options)?)
}

/// Ways of getting an answer, in the order of a turn. The first is what the others are compared with.
const WAYS: [&str; 4] = ["directly", "directly again", "through the server", "streamed"];

fn compare(bundle: &Path, method: Method) -> Fallible<()> {
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..OPENINGS {
        let mut engines = [Direct::open(bundle, method)?, Direct::open(bundle, method)?];
        let (address, stop) = start(bundle, method)?;
        let mut client = Client::connect(address)?;
        for turn in 0..TURNS {
            turns(turn, &mut engines, &mut client, &mut times)?;
        }
        drop(client);
        stop()?;
    }
    let direct = median(times[0].clone());
    println!(
        "{}: {direct:.2} ms directly, and the others against it, turn by turn:",
        method.name()
    );
    for (way, taken) in WAYS.iter().zip(&times).skip(1) {
        let mut over: Vec<f64> = taken
            .iter()
            .zip(&times[0])
            .map(|(t, direct)| (t / direct - 1.0) * 100.0)
            .collect();
        over.sort_by(f64::total_cmp);
        let quarter = over.len() / 4;
        println!(
            "  {way}: {:+.2} % ({:+.2} to {:+.2} for the middle half of {} turns)",
            over[over.len() / 2],
            over[quarter],
            over[over.len() - 1 - quarter],
            over.len()
        );
    }
    Ok(())
}

/// Times every way once, each turn beginning with another one.
fn turns(
    turn: usize,
    engines: &mut [Direct; 2],
    client: &mut Client,
    times: &mut [Vec<f64>; 4],
) -> Fallible<()> {
    let mut texts: [String; 4] = Default::default();
    for way in (0..4).map(|i| (turn + i) % 4) {
        let mut answer = || match way {
            0 | 1 => engines[way].answer(),
            2 => client.whole(),
            _ => client.stream(),
        };
        // The first one brings the weights of this engine into the processor's caches again.
        answer()?;
        let begin = Instant::now();
        texts[way] = answer()?;
        times[way].push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    match texts.iter().all(|text| *text == texts[0]) {
        true => Ok(()),
        false => Err(format!("the texts differ: {texts:?}").into()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The engine without a server.
struct Direct {
    engine: OrtBackend,
    text: TextModel,
    request: Request,
}

/// Makes text of tokens, as `generate` does.
struct Text<'a> {
    tokenizer: &'a Tokenizer,
    stop_ids: &'a [u32],
    stream: TextStream,
    text: String,
}

impl Sink for Text<'_> {
    fn token(&mut self, token: &Emitted<'_>) -> Verdict {
        if !self.stop_ids.contains(&token.id) {
            self.text += &self.stream.push(self.tokenizer, token.id).text;
        }
        Verdict::Continue
    }
}

impl Direct {
    fn open(bundle: &Path, method: Method) -> Fallible<Self> {
        let manifest = manifest::read(bundle)?;
        Ok(Self {
            engine: open(bundle)?,
            text: TextModel::of_bundle(bundle, &manifest)?,
            request: Request {
                method,
                budget: DEFAULT_BUDGET,
                mode: 0,
                max_tokens: TOKENS,
                sampling: Sampling::default(),
                seed: 0,
                stop_ids: manifest.stop_ids,
                logprobs: None,
            },
        })
    }

    fn answer(&mut self) -> Fallible<String> {
        let chat = Conversation::parse(messages().to_string().as_bytes())?;
        let prompt = self.text.encode_chat(&chat, RenderOptions::default())?;
        let tokenizer = self.text.tokenizer.as_ref().ok_or("no tokenizer")?;
        let mut sink = Text {
            tokenizer,
            stop_ids: &self.request.stop_ids,
            stream: TextStream::new::<&str>(&[], false)?,
            text: String::new(),
        };
        decode(&mut self.engine, &prompt, &self.request, &mut sink)?;
        let rest = sink.stream.finish();
        Ok(letters(&(sink.text + &rest.text)))
    }
}

fn messages() -> Value {
    json!([{"role": "user", "content": QUESTION}])
}

/// Text without tags and spaces, which the server sorts into reasoning and content.
fn letters(text: &str) -> String {
    let bare = text.replace("<think>", "").replace("</think>", "");
    bare.split_whitespace().collect()
}

/// Starts a server; gives its address and what ends it.
fn start(bundle: &Path, method: Method) -> Fallible<(SocketAddr, impl FnOnce() -> Fallible<()>)> {
    let manifest = manifest::read(bundle)?;
    let text = TextModel::of_bundle(bundle, &manifest)?;
    let model = Arc::new(Model::new(
        "tiny".to_owned(),
        text,
        manifest.stop_ids,
        Sampling::default(),
    )?);
    let place: PathBuf = bundle.to_owned();
    let loader: Loader = Box::new(move || {
        let engine = open(&place).map_err(|_| forkcast::serve::ServeError::WorkerLost)?;
        Ok(Box::new(engine) as Box<dyn Backend>)
    });
    let settings = settings(method);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let stopped = async { drop(stopped.await) };
            serve(settings, model, loader, listener, stopped).await
        })
    });
    let end = move || {
        drop(stop);
        thread.join().map_err(|_| "the server panicked")??;
        Ok(())
    };
    Ok((address, end))
}

fn settings(method: Method) -> Settings {
    Settings {
        worker: WorkerSettings {
            method: Some(method),
            budget: DEFAULT_BUDGET,
            adaptive: None,
            mode: 0,
            cache_bytes: 0,
        },
        http: HttpSettings {
            max_body: 1 << 20,
            timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(15),
            max_queue: 1,
            busy: axum::http::StatusCode::TOO_MANY_REQUESTS,
            keys: Keys::default(),
            cors: Vec::new(),
        },
        head: Duration::from_secs(60),
        drain: Duration::ZERO,
        linger: Duration::ZERO,
    }
}

/// A client with one kept connection.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects once the server answers requests.
    fn connect(address: SocketAddr) -> Fallible<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        for _ in 0..600 {
            if client.ask("GET", "/health", "")?.0 == 200 {
                return Ok(client);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("the server was not ready in time".into())
    }

    fn chat(&mut self, stream: bool) -> Fallible<String> {
        let body = json!({"messages": messages(), "temperature": 0, "max_tokens": TOKENS, "stream": stream});
        let (status, reply) = self.ask("POST", "/v1/chat/completions", &body.to_string())?;
        if status == 200 {
            Ok(reply)
        } else {
            Err(reply.into())
        }
    }

    fn whole(&mut self) -> Fallible<String> {
        let reply: Value = serde_json::from_str(&self.chat(false)?)?;
        Ok(joined(&reply["choices"][0]["message"]))
    }

    fn stream(&mut self) -> Fallible<String> {
        let reply = self.chat(true)?;
        let mut text = String::new();
        for data in reply.lines().filter_map(|l| l.strip_prefix("data: {")) {
            let chunk: Value = serde_json::from_str(&format!("{{{data}"))?;
            text += &joined(&chunk["choices"][0]["delta"]);
        }
        Ok(text)
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Fallible<(u16, String)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let status = self
            .line()?
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .unwrap_or(0);
        let mut length = None;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            length = line
                .strip_prefix("content-length: ")
                .and_then(|l| l.parse().ok())
                .or(length);
        }
        let body = match length {
            Some(length) => self.bytes(length)?,
            None => self.chunks()?,
        };
        Ok((status, String::from_utf8(body)?))
    }

    fn chunks(&mut self) -> Fallible<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16)?;
            body.extend(self.bytes(length)?);
            self.line()?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    fn bytes(&mut self, length: usize) -> Fallible<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn line(&mut self) -> Fallible<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

/// Reasoning and content of a message or a piece of one.
fn joined(message: &Value) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    letters(&(text("reasoning_content") + &text("content")))
}
