//! What `docs/trust.md` says of the code is so: the limits and their values, the files that hold `unsafe`, the note at each of
//! those places, and the refusal of inputs that are larger than any other test makes them.

use forkcast::serve::api::{ChatRequest, MAX_STOPS};
use forkcast::text::Tokenizer;
use forkcast_engines::{engine, manifest};
use forkcast_exporter::entry;
use forkcast_tests::paths::repository;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

fn guide() -> String {
    fs::read_to_string(repository().join("docs/trust.md")).expect("docs/trust.md")
}

/// Lines of the table between two comments of the guide.
fn table(name: &str) -> Vec<String> {
    let text = guide();
    let (_, rest) = text.split_once(&format!("<!-- {name} -->")).expect("a start");
    let (table, _) = rest.split_once("<!-- end -->").expect("an end");
    let rows = table
        .lines()
        .filter(|l| l.starts_with("| ") && !l.contains("---"));
    rows.skip(1).map(str::to_owned).collect()
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn product() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["engines/src", "exporter/src", "runtime/src", "plugins/src"] {
        sources(&repository().join(folder), &mut files);
    }
    files
}

/// Whether a line of code begins something unsafe.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern \"C\" {"]
        .iter()
        .any(|w| code.contains(w))
}

#[test]
fn unsafe_code_is_where_the_guide_says_and_each_place_has_its_note() {
    let root = repository();
    let (mut found, mut silent) = (BTreeSet::new(), Vec::new());
    for path in product() {
        let text = fs::read_to_string(&path).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, l)| is_unsafe(l)) {
            let name = path
                .strip_prefix(&root)
                .expect("below the root")
                .display()
                .to_string();
            let near = &lines[i.saturating_sub(12)..=i];
            if !near
                .iter()
                .any(|l| l.contains("SAFETY") || l.contains("# Safety") || l.trim() == "unsafe {")
            {
                silent.push(format!("{name}:{}: {line}", i + 1));
            }
            found.insert(name);
        }
    }
    assert!(silent.is_empty(), "unsafe without a SAFETY note: {silent:#?}");
    let listed = table("unsafe")
        .iter()
        .map(|row| row.split('`').nth(1).unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        found, listed,
        "files with unsafe code against those of docs/trust.md"
    );
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    for path in ["runtime/src/lib.rs", "runtime/src/main.rs", "exporter/src/lib.rs"] {
        let text = fs::read_to_string(repository().join(path)).expect("text");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{path}");
    }
}

/// Every row names a constant, its value as in the code, and tests that exist.
#[test]
fn limits_are_those_of_the_code() {
    let mut tests = String::new();
    for folder in ["engines", "exporter", "runtime", "tests/tests"] {
        let mut files = Vec::new();
        sources(&repository().join(folder), &mut files);
        files
            .iter()
            .for_each(|f| tests.push_str(&fs::read_to_string(f).expect("text")));
    }
    let rows = table("limits");
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        let cell = |i: usize| {
            let cell = row.split('|').nth(i).unwrap_or_default();
            cell.trim().trim_matches('`').to_owned()
        };
        let [value, constant, test] = [cell(2), cell(3), cell(4)];
        let (file, name) = constant.rsplit_once("::").unwrap_or_default();
        let text = fs::read_to_string(repository().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        // A constant, or the default of a flag, which is named by its environment variable.
        let values = [format!("const {name}"), format!("{name}\", default_value")];
        let line = text.lines().find(|l| values.iter().any(|v| l.contains(v)));
        let line = line.unwrap_or_else(|| panic!("{row}: no constant {name}"));
        let same = [";", ")"]
            .iter()
            .any(|end| line.contains(&format!("= {value}{end}")));
        assert!(same, "{row}: {line}");
        assert!(tests.contains(&format!("fn {test}()")), "{row}: no test {test}");
    }
}

/// A file without content that is as long as told: sparse, so it takes no room.
fn sparse(dir: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = dir.join(name);
    let file = File::create(&path).expect("a file");
    file.set_len(bytes).expect("a length");
    path
}

#[test]
fn files_beyond_their_limits_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let error = |text: String| assert!(text.contains("bytes") && text.contains("read"), "{text}");
    sparse(dir, manifest::FILE_NAME, (64 << 20) + 1);
    error(manifest::read(dir).expect_err("refused").to_string());
    sparse(dir, engine::FILE_NAME, (64 << 20) + 1);
    error(engine::read(dir).expect_err("refused").to_string());
    sparse(dir, "model.safetensors.index.json", (64 << 20) + 1);
    error(entry::checkpoint(dir).expect_err("refused").to_string());
    let tokenizer = sparse(dir, "tokenizer.json", (256 << 20) + 1);
    error(
        Tokenizer::open(&tokenizer, None)
            .expect_err("refused")
            .to_string(),
    );
}

#[test]
fn token_ids_beyond_the_limit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    let with = |id: u32| {
        let text = format!(
            "{{\"model\":{{\"type\":\"BPE\",\"vocab\":{{\"a\":0,\"b\":{id}}},\"merges\":[]}},\
             \"decoder\":{{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}}}}"
        );
        fs::write(&path, text).expect("written");
        Tokenizer::open(&path, None)
            .map(|t| t.len())
            .map_err(|e| e.to_string())
    };
    assert_eq!(with(1 << 22), Ok((1 << 22) + 1));
    let error = with((1 << 22) + 1).expect_err("refused");
    assert!(
        error.contains("token id 4194305 is larger than 4194304"),
        "{error}"
    );
    let error = with(0).expect_err("refused");
    assert!(error.contains("token id 0 is given twice"), "{error}");
}

#[test]
fn more_stops_or_tools_than_a_request_may_have_are_refused() {
    let chat = |more: String| {
        let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}],{more}}}");
        ChatRequest::parse(body.as_bytes())
            .map(drop)
            .map_err(|e| format!("{e:?}"))
    };
    let stops = |n: usize| chat(format!("\"stop\":{:?}", vec!["x"; n]));
    assert_eq!(stops(MAX_STOPS), Ok(()));
    assert!(stops(MAX_STOPS + 1).expect_err("refused").contains("stop"));
    let tools = |n: usize| {
        let tool = |i| format!("{{\"type\":\"function\",\"function\":{{\"name\":\"f{i}\"}}}}");
        let list: Vec<String> = (0..n).map(tool).collect();
        chat(format!("\"tools\":[{}]", list.join(",")))
    };
    assert_eq!(tools(128), Ok(()));
    assert!(tools(129).expect_err("refused").contains("tools"));
}
