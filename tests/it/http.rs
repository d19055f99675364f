//! `callboard serve --http` with the real binary: who is let in, what is counted, and what happens
//! at the limits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::house::{House, finish, wait_for};

/// A coordinator that serves over HTTP.
struct Served<'a> {
    house: &'a House,
    child: Option<Child>,
    address: SocketAddr,
    token: String,
    place: PathBuf,
}

/// What came back.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl<'a> Served<'a> {
    fn start(house: &'a House) -> Self {
        let mut child = house.command(&["serve", "--http", "0"]).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !line.starts_with("HTTP at ") {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended");
        }
        // What it logs is taken, so that it never waits for that.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let words = line.trim().strip_prefix("HTTP at http://").unwrap();
        let (address, rest) = words.split_once("; its token is in `").unwrap();
        let file = PathBuf::from(rest.strip_suffix('`').unwrap());
        let token = std::fs::read_to_string(&file).unwrap();
        let place = file.with_file_name("http.json");
        Self { house, child: Some(child), address: address.parse().unwrap(), token, place }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends a head as it is and reads to the end.
    fn raw(&self, head: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server that has seen enough may have closed already.
        drop(stream.write_all(head));
        reply(&mut stream)
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        self.raw(head.as_bytes())
    }

    fn host(&self) -> String {
        self.address.to_string()
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// The samples of /metrics, checked as Prometheus would.
    fn metrics(&self) -> BTreeMap<String, f64> {
        let reply =
            self.get("/metrics", &[("Host", &self.host()), ("Authorization", &self.bearer())]);
        assert_eq!(reply.status, 200, "{reply:?}");
        let head = reply.head.to_ascii_lowercase();
        assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        samples(&reply.body)
    }

    /// Ends the coordinator in order.
    fn end(mut self) {
        let child = self.child.take().unwrap();
        terminate(&child);
        assert_eq!(finish(child).code, 0);
        assert!(!self.place.exists(), "what was written down of it is left");
        self.house.assert_empties();
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

fn reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // A reset after the answer is the other way to say that no more is read.
    drop(stream.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// Reads the text format as promtool checks it: each sample after the TYPE and HELP of its metric,
/// each metric in one block, names and labels well formed, no sample twice, histograms cumulative.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut current = String::new();
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(!words.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}: no HELP before");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}: twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            name.clone_into(&mut current);
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            assert!(name.chars().all(is_name), "{line}");
            let base = match kinds[&current].as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix))
                    .unwrap(),
                _ => name,
            };
            assert_eq!(base, current, "{line}: not in its metric's block");
            check_labels(&sample[name.len()..]);
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0 && found.insert(sample.to_owned(), value).is_none(), "{line}");
        }
    }
    for (name, _) in kinds.iter().filter(|(_, kind)| *kind == "histogram") {
        let prefix = format!("{name}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = found
            .iter()
            .filter_map(|(sample, value)| {
                let bound = sample.strip_prefix(&prefix)?.strip_suffix("\"}")?;
                Some((bound.replace("+Inf", "inf").parse().unwrap(), *value))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}: {buckets:?}");
        let last = buckets.last().unwrap();
        assert_eq!((last.0, last.1), (f64::INFINITY, found[&format!("{name}_count")]), "{name}");
        assert!(found.contains_key(&format!("{name}_sum")));
    }
    found
}

fn check_labels(labels: &str) {
    if labels.is_empty() {
        return;
    }
    let inner = labels.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let mut rest = inner;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{labels}");
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = &after[end.unwrap() + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

#[test]
fn metrics_count_what_happens() {
    let house = House::new();
    let served = Served::start(&house);
    let before = served.metrics();
    assert_eq!(before["callboard_attempts_total"], 0.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((now.as_secs_f64() - before["process_start_time_seconds"]).abs() < 600.0);
    let (code, _) = house.run(
        "[[task]]\nid = \"a\"\nrun = [\"true\", \"true\"]\n\
         [[task]]\nid = \"b\"\nrun = \"exit 3\"\nretries = 1\n\
         [[task]]\nid = \"c\"\nrun = \"sleep 60\"\ntimeout = \"200ms\"\n",
    );
    assert_eq!(code, 1);
    assert_eq!(house.exec("exit 7").0, 7);
    let after = served.metrics();
    for (sample, wanted) in [
        ("callboard_runs_total{outcome=\"failed\"}", 1.0),
        ("callboard_runs_total{outcome=\"succeeded\"}", 0.0),
        ("callboard_runs_open", 0.0),
        ("callboard_attempts_total", 4.0),
        ("callboard_attempt_retries_total", 1.0),
        ("callboard_attempts_ended_total{end=\"succeeded\"}", 1.0),
        ("callboard_attempts_ended_total{end=\"failed\"}", 2.0),
        ("callboard_attempts_ended_total{end=\"timed_out\"}", 1.0),
        ("callboard_attempt_duration_seconds_count", 4.0),
        ("callboard_commands_total{state=\"completed\",reason=\"\"}", 2.0),
        ("callboard_commands_total{state=\"failed\",reason=\"exit\"}", 3.0),
        ("callboard_commands_total{state=\"timeout\",reason=\"total\"}", 1.0),
        ("callboard_inbox_capacity", 4096.0),
    ] {
        assert_eq!(after.get(sample), Some(&wanted), "{sample}");
    }
    assert!(after["callboard_command_duration_seconds_sum"] >= 0.2);
    assert!(after["callboard_journal_events_total"] > after["callboard_journal_commits_total"]);
    assert!(after["callboard_journal_commits_total"] > 0.0);
    // A session that stays is seen as long as it does.
    assert_eq!(house.call(&["session", "new", "x"]).code, 0);
    assert_eq!(served.metrics()["callboard_sessions{state=\"idle\"}"], 1.0);
    served.end();
}

#[test]
fn only_those_are_let_in_that_may() {
    let house = House::new();
    let served = Served::start(&house);
    let (host, bearer) = (served.host(), served.bearer());
    let port = served.address.port();
    let (local, own) = (format!("localhost:{port}"), format!("http://{host}"));
    for (path, headers, status) in [
        ("/healthz", vec![("Host", host.as_str())], 200),
        ("/healthz", vec![("Host", local.as_str())], 200),
        ("/healthz", vec![("Host", "evil.example")], 403),
        ("/healthz", vec![], 403),
        ("/healthz", vec![("Host", &host), ("Origin", &own)], 200),
        ("/healthz", vec![("Host", &host), ("Origin", "http://evil.example")], 403),
        ("/healthz", vec![("Host", &host), ("Origin", "null")], 403),
        ("/metrics", vec![("Host", &host)], 401),
        ("/metrics", vec![("Host", &host), ("Authorization", "Bearer wrong")], 401),
        ("/metrics", vec![("Host", &host), ("Authorization", &bearer)], 200),
        ("/metrics", vec![("Host", "evil.example"), ("Authorization", &bearer)], 403),
        ("/nothing", vec![("Host", &host)], 401),
        ("/nothing", vec![("Host", &host), ("Authorization", &bearer)], 404),
        ("http://evil.example/healthz", vec![("Host", &host)], 403),
    ] {
        let reply = served.get(path, &headers);
        assert_eq!(reply.status, status, "{path} {headers:?}: {reply:?}");
        assert!(!reply.body.contains(&served.token));
    }
    let reply = served.get("/metrics", &[("Host", &host)]);
    assert!(reply.head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{reply:?}");
    let document: Value = serde_json::from_slice(&std::fs::read(&served.place).unwrap()).unwrap();
    assert_eq!(document["url"], format!("http://{host}"));
    assert_eq!(document["pid"], served.child.as_ref().unwrap().id());
    let token_file = PathBuf::from(document["token_file"].as_str().unwrap());
    for file in [&served.place, &token_file] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    served.end();
}

#[test]
fn limits_hold_and_the_server_goes_on() {
    let house = House::new();
    let served = Served::start(&house);
    let host = served.host();
    let long = "x".repeat(64 * 1024);
    assert_eq!(served.get("/healthz", &[("Host", &host), ("X-Long", &long)]).status, 431);
    let many: Vec<(&str, &str)> = (0..200).map(|_| ("X-Many", "1")).collect();
    let mut headers = vec![("Host", host.as_str())];
    headers.extend(many);
    assert_eq!(served.get("/healthz", &headers).status, 431);
    assert_eq!(served.raw(b"\x16\x03\x01 this is no HTTP\r\n\r\n").status, 400);
    assert_eq!(served.raw(b"GET / HTTP/9.9\r\n\r\n").status, 400);
    // One that says nothing is let go.
    let mut silent = served.connect();
    silent.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let since = Instant::now();
    drop(reply(&mut silent));
    assert!(since.elapsed() < Duration::from_secs(25), "{:?}", since.elapsed());
    assert_eq!(served.get("/healthz", &[("Host", &host)]).status, 200);
    served.end();
}

#[test]
fn two_hundred_at_once_are_all_answered() {
    let house = House::new();
    let served = Served::start(&house);
    let head = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\nConnection: close\r\n\r\n",
        served.host(),
        served.bearer()
    );
    // All are connected before the first asks.
    let mut streams: Vec<TcpStream> = (0..200).map(|_| served.connect()).collect();
    for stream in &mut streams {
        stream.write_all(head.as_bytes()).unwrap();
    }
    for stream in &mut streams {
        let reply = reply(stream);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(samples(&reply.body).len() > 50);
    }
    assert_eq!(house.exec("true").0, 0);
    served.end();
}

#[test]
fn more_connections_than_may_be_wait_and_keep_nobody_out_for_good() {
    let house = House::new();
    let served = Served::start(&house);
    let idle: Vec<TcpStream> = (0..300).map(|_| served.connect()).collect();
    // The coordinator's own socket is another matter.
    assert_eq!(house.exec("true").0, 0);
    assert_eq!(served.get("/healthz", &[("Host", &served.host())]).status, 200);
    drop(idle);
    served.end();
}

#[test]
fn an_address_that_cannot_be_had_is_named() {
    let house = House::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let called = house.call(&["serve", "--http", &port]);
    assert_eq!(called.code, 3, "{called:?}");
    let words = format!("cannot serve HTTP at 127.0.0.1:{port}: address already in use\n");
    assert!(called.stderr.contains(&words), "{called:?}");
    assert!(called.stderr.contains("hint: another process has that port"), "{called:?}");
    assert!(called.stdout.is_empty());
    let called = house.call(&["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(called.code, 2, "{called:?}");
    assert!(called.stderr.contains("--http-allow-remote"), "{called:?}");
    house.assert_empties();
    // The workspace is nobody's: it can be served right away.
    assert_eq!(house.exec("true").0, 0);
}

#[test]
fn a_token_outlives_its_coordinator() {
    let house = House::new();
    let first = Served::start(&house);
    let token = first.token.clone();
    first.end();
    let second = Served::start(&house);
    assert_eq!(second.token, token);
    wait_for("it to answer", || match second.get("/healthz", &[("Host", &second.host())]).status {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    second.end();
}
