//! Documents that are written from the code say what the code does.

use super::super::ServeArgs;
use super::super::metrics::{Kind, METRICS};
use super::*;
use clap::CommandFactory;
use std::collections::BTreeSet;
use std::fmt::Write;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Compares a document with what it should be, or writes it.
fn compare(path: &str, expected: &str) {
    let file = repository(path);
    if std::env::var_os("FORKCAST_WRITE_DOCS").is_some() {
        std::fs::write(&file, expected).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    let fix = "run the tests of serve with FORKCAST_WRITE_DOCS=1 and commit";
    assert!(committed == expected, "{path} is not current: {fix}");
}

#[test]
fn the_published_description_is_current() {
    let current = serde_json::to_string_pretty(&super::super::http::description()).unwrap() + "\n";
    compare("docs/openapi.json", &current);
    let server = Server::start(Options::default());
    let served = server.get("/openapi.json").json();
    assert_eq!(served, serde_json::from_str::<Value>(&current).unwrap());
    assert!(served["paths"]["/v1/chat/completions"]["post"].is_object());
}

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    _serve: ServeArgs,
}

fn flags() -> String {
    let mut table = "| flag | environment | default | meaning |\n|---|---|---|---|\n".to_owned();
    for argument in Cli::command().get_arguments().filter(|a| a.get_id() != "help") {
        let name = match argument.get_long() {
            Some(long) => format!("--{long}"),
            None => argument.get_value_names().unwrap_or_default()[0].to_string(),
        };
        let twin = argument
            .get_env()
            .and_then(std::ffi::OsStr::to_str)
            .unwrap_or_default();
        let defaults = argument.get_default_values().first().and_then(|v| v.to_str());
        let default = defaults.map_or_else(String::new, |d| format!("`{d}`"));
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(table, "| `{name}` | `{twin}` | {default} | {help} |").unwrap();
    }
    table
}

fn metrics() -> String {
    let mut table = "| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        writeln!(
            table,
            "| `{}` | {kind} | {} | {} |",
            metric.name,
            labels.join(" "),
            metric.help
        )
        .unwrap();
    }
    table
}

#[test]
fn tables_of_the_guide_are_current() {
    let text = std::fs::read_to_string(repository("docs/serving.md")).unwrap();
    let mut current = text;
    for (name, table) in [("metrics", metrics()), ("flags", flags())] {
        let begin = format!("<!-- {name}: written by a test, see the end of this file -->\n");
        let end = format!("<!-- end of {name} -->\n");
        let (head, rest) = current.split_once(&begin).unwrap();
        let (_, tail) = rest.split_once(&end).unwrap();
        current = format!("{head}{begin}{table}{end}{tail}");
    }
    compare("docs/serving.md", &current);
}

/// Words of an expression that look like our metrics.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|w| w.starts_with("forkcast_"))
}

#[test]
fn the_dashboard_names_only_metrics_that_exist() {
    let path = repository("packaging/grafana/forkcast.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut exposed = BTreeSet::new();
    for metric in METRICS {
        let suffixes: &[&str] = match metric.kind {
            Kind::Histogram(_) => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        exposed.extend(suffixes.iter().map(|s| format!("{}{s}", metric.name)));
    }
    let mut used = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            assert!(names(expression).count() > 0, "{expression}");
            used.extend(names(expression).map(str::to_owned));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        used.extend(names(variable["query"].as_str().unwrap()).map(str::to_owned));
    }
    let unknown: Vec<&String> = used.difference(&exposed).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // And everything that is exposed is shown somewhere.
    let hidden = METRICS
        .iter()
        .filter(|m| !used.iter().any(|u| u.starts_with(m.name)));
    let hidden: Vec<&str> = hidden.map(|m| m.name).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}
