//! The whole server against a scripted engine, over real connections.

mod admission;
mod answers;
mod client;
mod clients;
mod documents;
mod hostile;
mod information;
mod mock;
mod prefix;
mod shutdown;
mod streams;

use super::ServeError;
use super::engine::{Loader, WorkerSettings};
use super::http::HttpSettings;
use super::keys::Keys;
use super::model::{Model, read_defaults};
use super::server::{Settings, serve};
use crate::decode::Method;
use crate::text::{ChatTemplate, TextModel, Tokenizer};
use client::{Reply, Stream};
use forkcast_engines::backend::Backend;
use mock::{Mock, Probe, Script};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// The tiny checkpoint whose tokenizer and template the tests use.
fn checkpoint() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/tiny-qwen3.5")
}

fn tokenizer() -> Tokenizer {
    Tokenizer::open(&checkpoint().join("tokenizer.json"), None).unwrap()
}

/// A template that shows tools and calls, as the published ones do.
const TOOL_TEMPLATE: &str = "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}\
    {% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}\
    {% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}{{ c.function.arguments }}</tool_call>{% endfor %}\
    {{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// How a test server differs from the usual one.
struct Options {
    method: Method,
    budget: usize,
    adaptive: bool,
    cache_bytes: usize,
    max_queue: usize,
    busy: axum::http::StatusCode,
    max_body: usize,
    timeout: Duration,
    keep_alive: Duration,
    head: Duration,
    drain: Duration,
    linger: Duration,
    keys: Keys,
    cors: Vec<&'static str>,
    template: Option<&'static str>,
    script: Script,
    /// The engine is opened when this is fulfilled.
    gate: Option<std::sync::mpsc::Receiver<()>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            method: Method::Mfd,
            budget: 16,
            adaptive: false,
            cache_bytes: 1 << 20,
            max_queue: 4,
            busy: axum::http::StatusCode::TOO_MANY_REQUESTS,
            max_body: 1 << 16,
            timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(5),
            head: Duration::from_secs(20),
            drain: Duration::from_secs(20),
            linger: Duration::ZERO,
            keys: Keys::default(),
            cors: Vec::new(),
            template: None,
            script: Script::default(),
            gate: None,
        }
    }
}

/// A running server.
struct Server {
    address: SocketAddr,
    probe: Arc<Probe>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Server {
    fn start(options: Options) -> Self {
        let server = Self::start_loading(options);
        server.wait_until_ready();
        server
    }

    fn start_loading(options: Options) -> Self {
        let template = match options.template {
            Some(source) => ChatTemplate::from_source(source).unwrap(),
            None => {
                let source = std::fs::read_to_string(checkpoint().join("chat_template.jinja")).unwrap();
                ChatTemplate::from_source(&source).unwrap()
            }
        };
        let text = TextModel {
            tokenizer: Some(tokenizer()),
            template: Some(template),
        };
        let defaults = read_defaults(Some(&checkpoint().join("generation_config.json"))).unwrap();
        let model = Arc::new(Model::new("tiny".into(), text, vec![2042, 2044], defaults).unwrap());
        let probe = Arc::new(Probe::default());
        let mock = Mock::new(options.script, Arc::clone(&model), Arc::clone(&probe));
        let gate = options.gate;
        let loader: Loader = Box::new(move || {
            if let Some(gate) = gate {
                let _ = gate.recv();
            }
            Ok(Box::new(mock) as Box<dyn Backend>)
        });
        let settings = Settings {
            worker: WorkerSettings {
                method: Some(options.method),
                budget: options.budget,
                adaptive: options.adaptive.then(|| Arc::new(crate::cost::tests::tune())),
                mode: 0,
                cache_bytes: options.cache_bytes,
            },
            http: HttpSettings {
                max_body: options.max_body,
                timeout: options.timeout,
                keep_alive: options.keep_alive,
                max_queue: options.max_queue,
                busy: options.busy,
                keys: options.keys,
                cors: options.cors.iter().map(|o| o.parse().unwrap()).collect(),
            },
            head: options.head,
            drain: options.drain,
            linger: options.linger,
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                serve(settings, model, loader, listener, async {
                    let _ = stopped.await;
                })
                .await
            })
        });
        Self {
            address,
            probe,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn wait_until_ready(&self) {
        for _ in 0..1000 {
            if self.get("/health").status == 200 {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("not ready within 5 s");
    }

    fn get(&self, path: &str) -> Reply {
        client::send(self.address, "GET", path, &[], "")
    }

    fn post(&self, path: &str, body: &Value) -> Reply {
        client::send(self.address, "POST", path, &[client::JSON], &body.to_string())
    }

    fn stream(&self, path: &str, body: &Value) -> Stream {
        Stream::open(self.address, path, &body.to_string())
    }

    /// An answer to `say`, with more fields.
    fn chat(&self, say: &str, more: &Value) -> Reply {
        self.post("/v1/chat/completions", &chat_body(say, more))
    }

    fn metric(&self, line: &str) -> f64 {
        let text = self.get("/metrics").body;
        let found = text
            .lines()
            .find_map(|l| l.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {line} in\n{text}"))
    }

    /// Begins to shut down.
    fn drain(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Shuts down and gives what the server says about it.
    fn finish(mut self) -> Result<(), ServeError> {
        self.drain();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A greedy chat request without reasoning that makes the mock answer `say`.
fn chat_body(say: &str, more: &Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": format!("say {say}")}],
        "chat_template_kwargs": {"enable_thinking": false},
        "temperature": 0
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
        if value.is_null() {
            body.as_object_mut().unwrap().remove(name);
        }
    }
    body
}
